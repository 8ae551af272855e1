"""The graph attention network."""

from torch import Tensor, nn

from angpn.baselines.base import parameters, require_extra
from angpn.baselines.neural import GraphNetwork, RowsLinear, dropped


@parameters
class GAT(GraphNetwork):
    """Velickovic et al. (2018), *Graph attention networks*, on GATConv.

    8 heads of 8 channels, then one head; dropout 0.6 on inputs and attention, ELU, L2 5e-4, Adam 0.005, patience 100,
    as published.

    Args:
        hidden_channels: Channels of a head of the first layer.
        heads: Number of heads of the first layer.
        dropout: Dropout rate of inputs and attention.
        learning_rate: Learning rate of Adam.
        weight_decay: Weight decay.
    """

    hidden_channels: int = 8
    heads: int = 8
    dropout: float = 0.6
    learning_rate: float = 0.005
    weight_decay: float = 5e-4

    def _module(self, in_channels: int, n_classes: int) -> nn.Module:
        return _Network(in_channels, self.hidden_channels, n_classes, self.heads, self.dropout)


class _Network(nn.Module):
    def __init__(self, in_channels: int, hidden: int, n_classes: int, heads: int, dropout: float) -> None:
        super().__init__()
        conv = require_extra("torch_geometric.nn").GATConv
        self.first = conv(in_channels, hidden, heads=heads, dropout=dropout)
        self.first.lin = RowsLinear(in_channels, heads * hidden)
        self.second = conv(heads * hidden, n_classes, heads=1, concat=False, dropout=dropout)
        self.dropout = dropout

    def forward(self, rows: Tensor, edges: Tensor) -> Tensor:
        rows = nn.functional.elu(self.first(dropped(rows, self.dropout, self.training), edges))
        return self.second(dropped(rows, self.dropout, self.training), edges)
