"""APPNP: predict, then propagate by personalised PageRank."""

from typing import Any

import torch
from torch import Tensor, nn

from angpn.baselines.base import require
from angpn.baselines.neural import GraphNetwork, RowsLinear, dropped


class APPNP(GraphNetwork):
    """Gasteiger, Bojchevski, Guennemann (2019), *Predict then propagate*, on torch_geometric's APPNP.

    A perceptron with 64 hidden units, then 10 steps with teleport probability 0.1; dropout 0.5 on inputs and hidden
    units, L2 5e-3 on the first layer, Adam 0.01, patience 100, as the authors have it. Edges are not dropped: the
    module drops them anew from what the step before left, so that after ten steps next to none remain.
    """

    def __init__(
        self,
        *,
        hidden_channels: int = 64,
        num_steps: int = 10,
        alpha: float = 0.1,
        dropout: float = 0.5,
        learning_rate: float = 0.01,
        weight_decay: float = 5e-3,
        max_iter: int = 2000,
        n_iter_no_change: int = 100,
        n_neighbors: int = 10,
        validation_fraction: float = 0.1,
        random_state: Any = None,
    ) -> None:
        self.hidden_channels = hidden_channels
        self.num_steps = num_steps
        self.alpha = alpha
        self.dropout = dropout
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.max_iter = max_iter
        self.n_iter_no_change = n_iter_no_change
        self.n_neighbors = n_neighbors
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    def _module(self, in_channels: int, n_classes: int) -> nn.Module:
        propagate = require("torch_geometric.nn").APPNP(self.num_steps, self.alpha, cached=True)
        return _Network(in_channels, self.hidden_channels, n_classes, self.dropout, propagate)


class _Network(nn.Module):
    def __init__(self, in_channels: int, hidden: int, n_classes: int, dropout: float, propagate: nn.Module) -> None:
        super().__init__()
        self.first = RowsLinear(in_channels, hidden)
        self.second = RowsLinear(hidden, n_classes)
        self.dropout = dropout
        self.propagate = propagate

    @property
    def decayed(self) -> list[nn.Parameter]:
        return list(self.first.parameters())

    def forward(self, rows: Tensor, edges: Tensor) -> Tensor:
        hidden = torch.relu(self.first(dropped(rows, self.dropout, self.training)))
        return self.propagate(self.second(dropped(hidden, self.dropout, self.training)), edges)
