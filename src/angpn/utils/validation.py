"""Labels that are held out for validation, and what weights and masks of rows must be."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from angpn.utils.checks import as_tensor, check_same_rows, warn
from angpn.utils.labels import UNLABELLED

LIGHTEST, HEAVIEST = 2.0**-50, 2.0**50  # weights that are not 0


def hold_out(
    labels: Tensor,  # (n,) int64, -1 where unlabelled
    fraction: float,
    generator: torch.Generator,
) -> Tensor:  # (n,) bool
    """A random ``fraction`` of the labelled rows of each class, at least one; none of a class with one label."""
    held = torch.zeros_like(labels, dtype=torch.bool)
    if fraction == 0:
        return held
    for label in labels[labels != UNLABELLED].unique():
        rows = (labels == label).nonzero().squeeze(1)
        count = min(max(1, round(fraction * len(rows))), len(rows) - 1)
        held[rows[torch.randperm(len(rows), generator=generator)[:count]]] = True
    return held


def checked_weights(weights: Any, labels: Tensor, dtype: torch.dtype) -> Tensor | None:  # (n,)
    """One weight a row, if they can be weights: their sums, also in float32, neither overflow nor vanish."""
    if weights is None:
        return None
    weights = as_tensor(weights, "sample_weight").cpu().double()
    if weights.ndim != 1 or not (torch.isfinite(weights).all() and (weights >= 0).all()):
        raise ValueError(
            f"sample_weight must be one finite number >= 0 a row, got shape {tuple(weights.shape)} from "
            f"{weights.min().item():g} to {weights.max().item():g}; correct the weights"
        )
    check_same_rows(len(weights), len(labels), "sample_weight", "labels")
    positive = weights[(weights > 0) & (labels != UNLABELLED)]
    if len(positive) and not LIGHTEST <= positive.min() <= positive.max() <= HEAVIEST:
        raise ValueError(
            f"sample_weight, times class_weight, must be 0 or lie between {LIGHTEST:.3g} and {HEAVIEST:.3g}, got from "
            f"{positive.min().item():.3g} to {positive.max().item():.3g}; divide the weights by their mean, and let "
            "negligible ones be 0"
        )
    return weights.to(dtype)


def check_class_weight(class_weight: Any, classes: Any) -> None:
    """Check that it is None, "balanced", or weights of classes; a class without one has weight 1."""
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced"):
        return
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            f"class_weight must be None, 'balanced' or the weight of each class, got {class_weight!r}; choose one"
        )
    for name, weight in class_weight.items():
        if not (isinstance(weight, int | float | np.number) and math.isfinite(weight) and weight >= 0):
            raise ValueError(f"class_weight must be a finite number >= 0 for each class, got {weight!r} for {name!r}")
    unknown = [name for name in class_weight if name not in classes]
    if unknown and not all(name in class_weight for name in classes):  # a fold of a search may lack a class
        raise ValueError(f"class_weight must name classes of y, got {unknown[0]!r} but not all of {list(classes)}")


def checked_mask(mask: Any, labels: Tensor) -> Tensor:  # (n,) bool
    """A mask of validation rows, if it marks labelled rows only."""
    mask = as_tensor(mask, "validation_mask")
    if mask.dtype != torch.bool or mask.ndim != 1:
        raise ValueError(
            f"validation_mask must be one bool a row, got shape {tuple(mask.shape)} of {mask.dtype}; "
            "mark validation rows True"
        )
    mask = mask.cpu()
    check_same_rows(len(mask), len(labels), "validation_mask", "labels")
    unlabelled = int((mask & (labels == UNLABELLED)).sum())
    if unlabelled:
        raise ValueError(
            f"validation_mask must mark labelled rows only, got {unlabelled} unlabelled one(s); "
            "give those rows a label or unmark them"
        )
    return mask


def check_task(labels: Tensor, validation: Tensor, weights: Tensor | None, names: list[Any]) -> None:
    """Whether there is something to learn from, and to judge by where labels are held out."""
    training = (labels != UNLABELLED) & ~validation
    if weights is not None:
        if training.any():
            check_some_weight(weights[training], "trained")
        if validation.any():
            check_some_weight(weights[validation], "validated")
        training = training & (weights > 0)
    _check_training_labels(labels[training], names)


def check_some_weight(weights: Tensor, what: str) -> None:
    """Some row counts."""
    if not weights.any():
        raise ValueError(
            f"sample_weight must not be zero for every row that is {what} on, got only zero; raise a few weights"
        )


def _check_training_labels(labels: Tensor, names: list[Any]) -> None:
    if len(labels) == 0:
        raise ValueError(
            "training needs labelled rows, got none outside the validation set; label a few rows, or unmark some"
        )
    if len(labels.unique()) < 2:
        raise ValueError(
            "training needs at least 2 classes among its labelled rows of weight > 0, got only class "
            f"{names[int(labels[0])]}; label a row of another class"
        )
    missing = [str(names[place]) for place in sorted(set(range(len(names))) - set(labels.tolist()))]
    if missing:
        warn(
            f"no training label for class {', '.join(missing)}, so it will hardly be predicted; label more rows of it, "
            "hold none of them out, or raise their weights above 0"
        )
