"""GraphSAGE with the mean aggregator, full batch."""

import torch
from torch import Tensor, nn

from angpn.baselines.base import parameters, require_extra
from angpn.baselines.neural import GraphNetwork, RowsLinear

# Aggregating wide rows costs their width for every edge in every epoch, so these are mapped first.
WIDE = 512


@parameters
class GraphSAGE(GraphNetwork):
    """Hamilton, Ying, Leskovec (2017), *Inductive representation learning on large graphs*, on SAGEConv.

    Two layers of 128 channels with rows of unit length after each, then a linear classifier; Adam 0.01, no dropout, as
    the authors' supervised model. All neighbours count, none are sampled. Rows with more than 512 columns are
    first mapped to 128.
    """

    hidden_channels: int = 128
    learning_rate: float = 0.01
    weight_decay: float = 0.0

    def _module(self, in_channels: int, n_classes: int) -> nn.Module:
        return _Network(in_channels, self.hidden_channels, n_classes)


class _Network(nn.Module):
    def __init__(self, in_channels: int, hidden: int, n_classes: int) -> None:
        super().__init__()
        conv = require_extra("torch_geometric.nn").SAGEConv
        self.project = RowsLinear(in_channels, hidden) if in_channels > WIDE else None
        self.first = conv(in_channels if self.project is None else hidden, hidden, normalize=True)
        self.second = conv(hidden, hidden, normalize=True)
        self.classify = nn.Linear(hidden, n_classes)

    def forward(self, rows: Tensor, edges: Tensor) -> Tensor:
        if self.project is not None:
            rows = self.project(rows)
        elif rows.is_sparse:
            rows = rows.to_dense()  # narrow: no wider than what the layers make of it
        hidden = self.first(rows, edges)
        return self.classify(torch.relu(self.second(torch.relu(hidden), edges)))
