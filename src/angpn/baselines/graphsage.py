"""GraphSAGE with the mean aggregator, full batch."""

import torch
from torch import Tensor, nn

from angpn.baselines.base import parameters, require_extra
from angpn.baselines.neural import GraphNetwork, RowsLinear

# Rows wider than this are projected first: aggregation costs their width for every edge in every epoch.
MAX_WIDTH = 512


@parameters
class GraphSAGE(GraphNetwork):
    """Hamilton, Ying, Leskovec (2017), *Inductive representation learning on large graphs*, on SAGEConv.

    Two layers of 128 channels with L2-normalised rows after each, then a linear classifier; Adam 0.01, no dropout, as
    the published supervised model. All neighbours are aggregated, none are sampled. Rows with more than 512 columns are
    first projected to 128.

    Args:
        hidden_channels: Width of both layers.
        learning_rate: Learning rate of Adam.
        weight_decay: Weight decay.
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
        self.project = RowsLinear(in_channels, hidden) if in_channels > MAX_WIDTH else None
        self.first = conv(in_channels if self.project is None else hidden, hidden, normalize=True)
        self.second = conv(hidden, hidden, normalize=True)
        self.classify = nn.Linear(hidden, n_classes)

    def forward(self, rows: Tensor, edges: Tensor) -> Tensor:
        if self.project is not None:
            rows = self.project(rows)
        elif rows.is_sparse:
            rows = rows.to_dense()  # at most MAX_WIDTH columns
        hidden = self.first(rows, edges)
        return self.classify(torch.relu(self.second(torch.relu(hidden), edges)))
