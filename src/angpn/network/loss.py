"""The loss of Eq. (15)."""

import torch
from torch import Tensor


def semi_supervised_loss(
    logits: Tensor,  # (n, c)
    labels: Tensor,  # (n,) int64
    mask: Tensor,  # (n,) bool: the labelled rows L
    weights: Tensor | None = None,  # (n,) how much each row counts, all alike by default
) -> Tensor:  # ()
    r"""Return Eq. (15) as a mean over the labelled rows, so that its scale does not depend on how many there are.

    .. math:: - \tfrac{1}{\sum_{i \in L} w_i} \sum_{i \in L} w_i \sum_j Y_{ij} \ln Z_{ij}
    """
    if weights is None:
        return torch.nn.functional.cross_entropy(logits[mask], labels[mask])
    losses = torch.nn.functional.cross_entropy(logits[mask], labels[mask], reduction="none")
    return (weights[mask] * losses).sum() / weights[mask].sum()
