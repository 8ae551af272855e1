"""Checks of candidate lists that users make."""

import numpy as np
import torch
from torch import Tensor

from angpn import kernels
from angpn.kernels.threads import over_rows

_BLOCK_ROWS = 2**16  # checked at once, so that it takes little memory beside the lists


def check_lists(indices: Tensor, distances: Tensor, n_columns: int) -> None:
    """Raise where lists are not as a neighbourhood has them: a row out of range would read foreign memory later."""
    kinds = [part.dtype if isinstance(part, Tensor) else type(part).__name__ for part in (indices, distances)]
    if kinds[0] not in (torch.int32, torch.int64) or not isinstance(distances, Tensor):
        raise ValueError(
            f"candidates must be a tensor of integers, the rows, and a tensor of distances, got {kinds[0]} and "
            f"{kinds[1]}; convert them, or let nearest_candidates make them"
        )
    if indices.ndim != 2 or indices.shape != distances.shape or indices.shape[1] < 1:
        raise ValueError(
            f"candidates and distances must be two (n, m) tensors with m >= 1, got shapes {tuple(indices.shape)} and "
            f"{tuple(distances.shape)}; give one distance for each candidate"
        )
    n = len(indices)
    if indices.numel() >= 2**31:
        raise ValueError(
            f"lists may have up to 2^31 - 1 entries in one process, got {n} rows of {indices.shape[1]}; lower "
            "n_candidates, or distribute the rows among processes"
        )
    for start in range(0, n, _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        _check_block(start, n_columns, indices[rows], distances[rows])


def _check_block(start: int, n: int, indices: Tensor, distances: Tensor) -> None:
    if not 0 <= int(indices.min()) <= int(indices.max()) < n:
        raise ValueError(
            f"candidates must be rows 0 to {n - 1}, got {int(indices.min())} to {int(indices.max())}; "
            "number the rows from 0"
        )
    if (indices == torch.arange(start, start + len(indices), device=indices.device)[:, None]).any():
        raise ValueError("a row must not be its own candidate, got one that is; leave the row itself out of its list")
    repeats = np.empty(len(indices), bool)
    over_rows(kernels.selection.repeats_rows, len(indices), indices.cpu().contiguous().numpy(), n, repeats)
    if repeats.any():
        raise ValueError("a candidate must be listed once, got a row with repeats; remove them")
    if not torch.isfinite(distances).all():
        raise ValueError(
            "distances of candidates must be finite, got NaN or inf; list only rows that may be neighbours"
        )
    if (distances.diff(dim=1) < 0).any():
        raise ValueError("candidates must be listed nearest first, got distances out of order; sort each row")
