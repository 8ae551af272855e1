"""The self-supervised loss: entries of X are masked and restored from the hidden layers, so that every row trains S."""

import scipy.sparse
import torch
from torch import Tensor, nn

from angpn.neighbors.neighborhood import DenseNeighborhood, Neighborhood
from angpn.network.conv import ANGPNConv, glorot_
from angpn.network.masking import MaskedRows, masking_for
from angpn.network.model import ANGPN
from angpn.network.sampled_product import sampled_product


class Denoising(nn.Module):
    """A linear decoder that restores masked entries of X from the last hidden layer of a network.

    The layers run on the masked rows, so a masked entry reaches the decoder only as other rows have it. The graph of
    the first layer, which no weight enters, stays that of the whole rows, as the distances are; the graphs of later
    layers are made from masked rows. The gradient flows into the weights and graphs of the layers as that of the labels
    does.

    Args:
        network: whose layers are trained; this module does not own its weights.
        features: X, (n, d), whose entries are masked and restored.
        neighborhood: the candidates of its rows.
        generator: source of the decoder's first weights.
        weight: of this loss beside that of the labels.

    Raises:
        ValueError: if X has nothing to restore.
    """

    def __init__(
        self,
        network: ANGPN,
        features: Tensor | scipy.sparse.csr_array,
        neighborhood: Neighborhood | DenseNeighborhood,
        generator: torch.Generator | None = None,
        *,
        weight: float = 1.0,
    ) -> None:
        super().__init__()
        self.masking = masking_for(features)
        first = network.convs[0]
        assert isinstance(first, ANGPNConv)
        with torch.no_grad():
            self._propagate = first.propagation(features, neighborhood)
        self._embed, self._neighborhood, self._weight = network.embed_propagated, neighborhood, weight
        bias = self.masking.first_bias()
        decoder = bias.new_empty(len(bias), network.perceptron.in_features)
        glorot_(decoder, generator)
        # The bias is a last column, as if a last hidden unit were always 1: its gradient is then summed with theirs.
        self.decoder = nn.Parameter(torch.cat([decoder, bias[:, None]], dim=1))

    def forward(self, generator: torch.Generator) -> Tensor:  # ()
        """Mask entries anew and return the weighted loss of restoring them.

        Args:
            generator: source of the masks, and of dropout if the network is in training mode.

        Returns:
            The weight times the mean loss, which is logistic for a sparse X and squared for a dense one.
        """
        return self._weight * self.loss(self.masking.draw(generator), generator)

    def loss(self, masked: MaskedRows, generator: torch.Generator | None = None) -> Tensor:  # ()
        """Return the mean loss of restoring the entries that were masked."""
        with torch.no_grad():
            propagated = self._propagate(masked.features)
        hidden = self._embed(propagated, self._neighborhood, generator)
        if not len(masked.rows):  # of a few entries, none may be drawn
            return 0 * (hidden.sum() + self.decoder.sum())
        hidden = torch.cat([hidden, hidden.new_ones(len(hidden), 1)], dim=1)
        restored = sampled_product(hidden, self.decoder, masked.rows, masked.columns)
        return self.masking.mean_loss(restored, masked.targets)
