"""Weights of blocks of features that are joined: those with which the classifier predicts held-out labels best."""

import warnings
from collections.abc import Sequence
from itertools import product
from typing import Any, Literal

import numpy as np
import scipy.sparse

from angpn.estimators.auto import ANGPNClassifier
from angpn.utils.typing import Array

MAX_ROWS, MAX_LABELS = 2000, 1000  # that are compared, so that a choice takes seconds however many rows there are
# Fewer labels than some hundred say little of small differences, and all blocks are the safer choice: others must have
# a log-loss that is lower by this share. docs/encoders.md has what that was measured on.
MARGIN = 0.1
_SMALLEST = 1e-6  # probability of a held-out label, so that one label cannot decide


def candidate_weights(n_blocks: int) -> list[tuple[float, ...]]:
    """Return the weights that are compared: every choice of blocks, all of one weight; that of all blocks first."""
    chosen = [weights for weights in product((1.0, 0.0), repeat=n_blocks) if any(weights)]
    return sorted(chosen, key=sum, reverse=True)


def choose_weights(
    blocks: Sequence[Any],  # of (n, d) dense or CSR
    y: Array | None,  # (n,) object, None where a row is unlabelled
    seed: int = 0,
) -> tuple[float, ...]:
    """Choose the weights by the log-loss of labels that the classifier predicted while they were held out.

    Weights are equal where labels are too few to hold any out, and where no other choice is clearly better.

    Args:
        blocks: Features of the same rows, each block on a scale of its own.
        y: The labels, if there are any.
        seed: Seed of the classifier, and of the draw among very many rows.

    Returns:
        The weight of each block.
    """
    candidates = candidate_weights(len(blocks))
    if len(blocks) == 1 or y is None or len({label for label in y if label is not None}) < 2:
        return candidates[0]
    rows = _some_rows(np.array([label is not None for label in y]), seed)
    losses = [held_out_loss([block[rows] for block in blocks], one, y[rows], seed) for one in candidates]
    best = int(np.argmin(losses))
    return candidates[best] if losses[best] < (1 - MARGIN) * losses[0] else candidates[0]


def held_out_loss(
    blocks: Sequence[Any],  # of (n, d) dense or CSR
    weights: Sequence[float],
    y: Array,  # (n,) object
    seed: int = 0,
) -> float:
    """Return the mean log-loss of labels while they were held out of the fit of the classifier; 0 where none was."""
    X = join_blocks(blocks, weights)
    joined = sum(map(bool, weights)) > 1 and not scipy.sparse.issparse(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit on all rows will say the same
        # Scaling each column by itself would undo the weights.
        scaling: Literal["unit", "auto"] = "unit" if joined else "auto"
        model = ANGPNClassifier(scaling=scaling, random_state=seed, distributed=False).fit(X, y)
    held_out = model.validation_mask_
    if not held_out.any():
        return 0.0
    codes = np.searchsorted(model.classes_, y[held_out].astype(model.classes_.dtype))
    probabilities = model.validation_distributions_[np.arange(len(codes)), codes]
    return float(-np.log(np.maximum(probabilities, _SMALLEST)).mean())


def join_blocks(blocks: Sequence[Any], weights: Sequence[float]) -> Any:
    """Return the blocks that have a weight side by side, as CSR where one of them is."""
    used = [rows * np.float32(weight) for rows, weight in zip(blocks, weights, strict=True) if weight]
    if len(used) == 1:
        return used[0]
    if not any(scipy.sparse.issparse(rows) for rows in used):
        return np.hstack(used).astype(np.float32)
    joined = scipy.sparse.hstack([scipy.sparse.csr_array(rows) for rows in used])
    return scipy.sparse.csr_array(joined, dtype=np.float32)


def _some_rows(given: Array, seed: int) -> Array:
    """Return labelled and other rows, all of them where they are not too many."""
    generator = np.random.default_rng(seed)
    labelled = generator.permutation(np.flatnonzero(given))[:MAX_LABELS]
    others = generator.permutation(np.flatnonzero(~given))[: MAX_ROWS - len(labelled)]
    return np.sort(np.concatenate([labelled, others]))
