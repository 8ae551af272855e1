"""GraphSAGE with the mean aggregator, full batch."""

from typing import Any

import torch
from torch import Tensor, nn

from angpn.baselines.base import require
from angpn.baselines.neural import GraphNetwork, RowsLinear

# Aggregating wide rows costs their width for every edge in every epoch, so these are mapped first.
WIDE = 512


class GraphSAGE(GraphNetwork):
    """Hamilton, Ying, Leskovec (2017), *Inductive representation learning on large graphs*, on SAGEConv.

    Two layers of 128 channels with rows of unit length after each, then a linear classifier; Adam 0.01, no dropout, as
    the authors' supervised model. All neighbours count, none are sampled. Rows with more than 512 columns are
    first mapped to 128.
    """

    def __init__(
        self,
        *,
        hidden_channels: int = 128,
        learning_rate: float = 0.01,
        weight_decay: float = 0.0,
        max_iter: int = 1000,
        n_iter_no_change: int = 100,
        n_neighbors: int = 10,
        validation_fraction: float = 0.1,
        random_state: Any = None,
    ) -> None:
        self.hidden_channels = hidden_channels
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.max_iter = max_iter
        self.n_iter_no_change = n_iter_no_change
        self.n_neighbors = n_neighbors
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    def _module(self, in_channels: int, n_classes: int) -> nn.Module:
        return _Network(in_channels, self.hidden_channels, n_classes)


class _Network(nn.Module):
    def __init__(self, in_channels: int, hidden: int, n_classes: int) -> None:
        super().__init__()
        conv = require("torch_geometric.nn").SAGEConv
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
