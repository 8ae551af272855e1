"""The graph convolutional network."""

import itertools

import torch
from torch import Tensor, nn

from angpn.baselines.base import parameters, require_extra
from angpn.baselines.neural import GraphNetwork, RowsLinear, dropped


@parameters
class GCN(GraphNetwork):
    """Kipf, Welling (2017), *Semi-supervised classification with graph convolutional networks*, on GCNConv.

    Two layers, 16 hidden channels, dropout 0.5 before each, L2 5e-4 on the first, Adam 0.01, as published; the patience
    is 100 epochs instead of 10.

    Args:
        hidden_channels: Width of the hidden layers.
        num_layers: Number of layers, the last of which is the classifier.
        dropout: Dropout rate before each layer.
        learning_rate: Learning rate of Adam.
        weight_decay: Weight decay of the first layer.
    """

    hidden_channels: int = 16
    num_layers: int = 2
    dropout: float = 0.5
    learning_rate: float = 0.01
    weight_decay: float = 5e-4

    def _module(self, in_channels: int, n_classes: int) -> nn.Module:
        return _Network(in_channels, self.hidden_channels, n_classes, self.num_layers, self.dropout)


class _Network(nn.Module):
    def __init__(self, in_channels: int, hidden: int, n_classes: int, num_layers: int, dropout: float) -> None:
        super().__init__()
        conv = require_extra("torch_geometric.nn").GCNConv
        widths = [in_channels, *[hidden] * (num_layers - 1), n_classes]
        self.convs = nn.ModuleList(conv(before, after, cached=True) for before, after in itertools.pairwise(widths))
        self.convs[0].lin = RowsLinear(in_channels, widths[1])
        self.dropout = dropout

    @property
    def decayed(self) -> list[nn.Parameter]:
        return list(self.convs[0].parameters())

    def forward(self, rows: Tensor, edges: Tensor) -> Tensor:
        for depth, conv in enumerate(self.convs):
            rows = conv(dropped(rows, self.dropout, self.training), edges)
            if depth < len(self.convs) - 1:
                rows = torch.relu(rows)
        return rows
