"""Softmax of many short rows, where torch's takes ten times as long: it vectorises no fewer than 16 classes."""

import torch
from torch import Tensor

from angpn import kernels
from angpn.kernels.threads import over_rows

_WIDE = 16  # from so many classes on torch's logarithm of the softmax takes no longer


def log_softmax_(scores: Tensor) -> Tensor:  # (..., c)
    """Replace contiguous scores by the logarithm of their softmax over the last dimension, and return them."""
    n_classes = scores.shape[-1]
    if n_classes >= _WIDE or scores.dtype != torch.float32:
        return torch.log_softmax(scores, dim=-1, out=scores)
    rows = scores.view(-1, n_classes)
    over_rows(kernels.logistic_regression.log_softmax_rows, len(rows), rows.numpy())
    return scores


def softmax(scores: Tensor, temperature: float = 1.0) -> Tensor:  # (n, c)
    """Return the probabilities of scores at a temperature."""
    return add_softmax_(torch.zeros(scores.shape, dtype=scores.dtype), scores, temperature)


def add_softmax_(total: Tensor, scores: Tensor, temperature: float, weight: float = 1.0) -> Tensor:  # (n, c)
    """Add to a contiguous total the weighted probabilities of scores at a temperature, and return it."""
    if scores.dtype != torch.float32:
        return total.add_(torch.softmax(scores / temperature, dim=1), alpha=weight)
    arrays = scores.contiguous().numpy(), total.numpy()
    over_rows(kernels.logistic_regression.add_softmax_rows, len(scores), arrays[0], 1 / temperature, weight, arrays[1])
    return total
