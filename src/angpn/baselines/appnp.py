"""APPNP: predictions propagated by personalised PageRank."""

from typing import Any

import torch
from torch import Tensor, nn

from angpn.baselines.base import parameters, require_extra
from angpn.baselines.neural import GraphNetwork, RowsLinear, dropped


@parameters
class APPNP(GraphNetwork):
    """Gasteiger, Bojchevski, Guennemann (2019), *Predict then propagate*, on torch_geometric's APPNP.

    A perceptron with 64 hidden units, then 10 steps with teleport probability 0.1; dropout 0.5 on inputs and hidden
    units, L2 5e-3 on the first layer, Adam 0.01, patience 100, as published. Edges are not dropped: the module of
    torch_geometric would drop some of the remaining ones at every step, and after ten steps few would be left.

    Args:
        hidden_channels: Width of the hidden layer.
        num_steps: Number of propagation steps.
        alpha: Teleport probability.
        dropout: Dropout rate of inputs and hidden units.
        learning_rate: Learning rate of Adam.
        weight_decay: Weight decay of the first layer.
        max_iter: Maximal number of epochs.
    """

    hidden_channels: int = 64
    num_steps: int = 10
    alpha: float = 0.1
    dropout: float = 0.5
    learning_rate: float = 0.01
    weight_decay: float = 5e-3
    max_iter: int = 2000

    def _module(self, in_channels: int, n_classes: int) -> nn.Module:
        propagate = require_extra("torch_geometric.nn").APPNP(self.num_steps, self.alpha, cached=True)
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
        predicted = self.second(dropped(hidden, self.dropout, self.training))
        return _Symmetric.apply(predicted, self.propagate, edges)


class _Symmetric(torch.autograd.Function):
    """Propagation on a symmetric graph, a symmetric linear map and therefore its own gradient.

    torch would multiply by the transposed matrix in each step, which takes ten times as long as the step itself.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, propagate: nn.Module, edges: Tensor) -> Tensor:
        ctx.propagate, ctx.edges = propagate, edges
        return propagate(rows, edges)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        with torch.no_grad():
            return ctx.propagate(gradient, ctx.edges), None, None
