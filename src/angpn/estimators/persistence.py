"""A fitted model to and from one file."""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch

from angpn.estimators.fitted_models import FittedNetwork
from angpn.estimators.older_formats import OLDER_FORMATS, upgrade
from angpn.estimators.saved_arrays import (
    ENSEMBLE,
    FEATURES,
    INDEX,
    NETWORK,
    SPARSE_PARTS,
    by_prefix,
    check_common,
    restore_fitted,
)
from angpn.estimators.saved_model import (
    EnsembleHeader,
    NetworkHeader,
    parameters_from_state,
    parameters_to_state,
)
from angpn.neighbors.neighborhood import Neighborhood
from angpn.utils.container import FORMAT, encode_header, read_contents, write_contents
from angpn.utils.label_state import CLASSES, StringClasses, classes_from_state, classes_to_state
from angpn.utils.typing import Array


class SavedModel(NamedTuple):
    """What a file holds."""

    estimator: str  # the name of its class
    parameters: dict[str, Any]  # of the constructor
    attributes: dict[str, Any]  # that a fit sets


def check_can_save(estimator: str, parameters: Mapping[str, Any], classes: Array, feature_names: Array | None) -> None:
    """Raise where a model could not be saved, which is better known before it is trained.

    Args:
        estimator: The name of the estimator.
        parameters: The constructor's parameters.
        classes: The classes.
        feature_names: The names of the features, where they have any.

    Raises:
        ValueError: If a parameter or a name cannot be saved.
    """
    encode_header(parameters_to_state(estimator, parameters, classes))
    try:
        encode_header(StringClasses(values=[] if feature_names is None else feature_names.tolist()))
    except UnicodeEncodeError:
        raise ValueError(
            "the names of the features must be text that UTF-8 can encode, got others; rename them"
        ) from None


def save_model(
    estimator: str, state: Mapping[str, Any], parameters: Mapping[str, Any], path: str | os.PathLike[str]
) -> None:
    """Write the fitted attributes and the constructor's parameters of an estimator."""
    classes, fitted = state["classes_"], state["_fitted"]
    classes_state, arrays = classes_to_state(classes)
    common = {
        "parameters": parameters_to_state(estimator, parameters, classes),
        "classes": classes_state,
        "shape": fitted.rows.shape,
        "metric": fitted.metric,
        "seed": state["_seed"],
        "n_neighbors": state["n_neighbors_"],
        "best_validation_score": state["best_validation_score_"],
        "best_iter": state["best_iter_"],
        "recall": state["recall_"],
        "neighbor_seconds": state["neighbor_seconds_"],
        "feature_names": state["feature_names_in_"].tolist() if "feature_names_in_" in state else None,
    }
    arrays |= {
        "codes": state["_codes"],
        "validation_mask": state["validation_mask_"],
        "validation_codes": np.searchsorted(classes, state["validation_transduction_"]),
        "candidates": fitted.neighborhood.indices.numpy().astype(np.int32),
        "distances": fitted.neighborhood.distances.numpy(),
        "label_distributions": state["label_distributions_"],
        "loss_curve": np.array(state["loss_curve_"]),
    }
    if state["validation_distributions_"] is not None:
        arrays["validation_distributions"] = state["validation_distributions_"]
    if state["validation_scores_"] is not None:
        arrays["validation_scores"] = np.array(state["validation_scores_"])
    header: EnsembleHeader | NetworkHeader
    if isinstance(fitted, FittedNetwork):
        network, parts = fitted.module.to_state()
        header = NetworkHeader(**common, unit_rows=fitted.unit_rows, coverage=fitted.coverage, network=network)
        arrays |= {NETWORK + name: value for name, value in parts.items()}
    else:
        ensemble, parts = fitted.ensemble.state()
        header = EnsembleHeader(**common, ensemble=ensemble)
        arrays |= {ENSEMBLE + name: value for name, value in parts.items()}
    if scipy.sparse.issparse(fitted.rows):
        arrays |= {f"{FEATURES}.{part}": getattr(fitted.rows, part) for part in SPARSE_PARTS}
    else:
        arrays[FEATURES] = fitted.rows
    searches = [search.state for search in fitted.searches.values()] or [fitted.index]
    if searches[0] is not None:  # 4 bytes a row and the centres, for which a first prediction need not learn them
        arrays |= {INDEX + name: part for name, part in searches[0].to_arrays().items()}
    write_contents(path, "model", header, arrays)


def load_model(path: str | os.PathLike[str]) -> SavedModel:
    """Read what :func:`save_model` wrote, of this version or an older one."""
    return read_contents(path, "model", {**OLDER_FORMATS, FORMAT: EnsembleHeader | NetworkHeader}, _restored)


def _restored(header: Any, arrays: dict[str, Array]) -> SavedModel:
    if not isinstance(header, EnsembleHeader | NetworkHeader):
        header, arrays = upgrade(header, arrays)
    of_classes = {name: array for name, array in arrays.items() if name == CLASSES}
    classes = classes_from_state(header.classes, of_classes)
    parts = by_prefix({name: array for name, array in arrays.items() if name != CLASSES})
    own = parts.pop("")
    check_common(header, own, len(classes))
    neighborhood = Neighborhood(torch.from_numpy(own["candidates"]), torch.from_numpy(own["distances"]))
    distributions, held = own["label_distributions"], own["validation_mask"]
    attributes: dict[str, Any] = {
        "_fitted": restore_fitted(header, own, parts, neighborhood, len(classes)),
        "_codes": own["codes"].astype(np.int64, copy=False),
        "_seed": header.seed,
        "classes_": classes,
        "n_features_in_": header.shape[1],
        "validation_mask_": held,
        "validation_transduction_": classes[own["validation_codes"]],
        "validation_distributions_": own.get("validation_distributions"),
        "neighborhood_": neighborhood,
        "n_neighbors_": header.n_neighbors,
        "recall_": header.recall,
        "neighbor_seconds_": header.neighbor_seconds,
        "label_distributions_": distributions,
        "transduction_": classes[distributions.argmax(axis=1)],
        "loss_curve_": own["loss_curve"].tolist(),
        "n_iter_": len(own["loss_curve"]),
        "validation_scores_": own["validation_scores"].tolist() if "validation_scores" in own else None,
        "best_validation_score_": header.best_validation_score,
        "best_iter_": header.best_iter,
    }
    if header.feature_names is not None:
        attributes["feature_names_in_"] = np.array(header.feature_names, dtype=object)
    name = "ANGPNNetworkClassifier" if isinstance(header, NetworkHeader) else "ANGPNClassifier"
    return SavedModel(name, parameters_from_state(header.parameters, classes), attributes)
