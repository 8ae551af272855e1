"""A fitted model to and from one file."""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch

from angpn.anfp.neighbor_graph import check_candidates, check_graph_options
from angpn.ensemble.config import MAX_DENSE_WIDTH
from angpn.ensemble.ensemble import Ensemble
from angpn.estimators.fitted_models import Fitted, FittedEnsemble, FittedNetwork
from angpn.estimators.older_formats import OLDER_FORMATS, upgrade
from angpn.estimators.saved_model import (
    EnsembleHeader,
    NetworkHeader,
    parameters_from_state,
    parameters_to_state,
)
from angpn.neighbors.inverted_index import IndexState
from angpn.neighbors.neighborhood import Neighborhood
from angpn.network.model import ANGPN
from angpn.utils.array_checks import MAX_WEIGHT, check_arrays, flags, floats, integers
from angpn.utils.container import FORMAT, encode_header, read_contents, write_contents
from angpn.utils.label_state import CLASSES, StringClasses, classes_from_state, classes_to_state
from angpn.utils.typing import Array

_NETWORK = "network."
_ENSEMBLE = "ensemble."
_FEATURES = "features"
_INDEX = "index."
_SPARSE_PARTS = ("data", "indices", "indptr")
_LARGEST = float(np.finfo(np.float64).max)
_SUM_TOLERANCE = 1e-3  # of the probabilities, or the squares, of a row in float32

Header = EnsembleHeader | NetworkHeader


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
        raise ValueError("the names of the features must be text that UTF-8 can encode, got others; rename") from None


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
    if state["validation_scores_"] is not None:
        arrays["validation_scores"] = np.array(state["validation_scores_"])
    header: Header
    if isinstance(fitted, FittedNetwork):
        network, parts = fitted.module.to_state()
        header = NetworkHeader(**common, unit_rows=fitted.unit_rows, coverage=fitted.coverage, network=network)
        arrays |= {_NETWORK + name: value for name, value in parts.items()}
    else:
        ensemble, parts = fitted.ensemble.state()
        header = EnsembleHeader(**common, ensemble=ensemble)
        arrays |= {_ENSEMBLE + name: value for name, value in parts.items()}
    if scipy.sparse.issparse(fitted.rows):
        arrays |= {f"{_FEATURES}.{part}": getattr(fitted.rows, part) for part in _SPARSE_PARTS}
    else:
        arrays[_FEATURES] = fitted.rows
    searches = [search.state for search in fitted.searches.values()] or [fitted.index]
    if searches[0] is not None:  # 4 bytes a row and the centres, for which a first prediction need not learn them
        arrays |= {_INDEX + name: part for name, part in searches[0].to_arrays().items()}
    write_contents(path, "model", header, arrays)


def load_model(path: str | os.PathLike[str]) -> SavedModel:
    """Read what :func:`save_model` wrote, of this version or an older one."""
    return read_contents(path, "model", {**OLDER_FORMATS, FORMAT: Header}, _restored)


def _restored(header: Any, arrays: dict[str, Array]) -> SavedModel:
    if not isinstance(header, Header):
        header, arrays = upgrade(header, arrays)
    of_classes = {name: array for name, array in arrays.items() if name == CLASSES}
    classes = classes_from_state(header.classes, of_classes)
    parts = _by_prefix({name: array for name, array in arrays.items() if name != CLASSES})
    own = parts.pop("")
    _check_own(header, own, len(classes))
    neighborhood = Neighborhood(torch.from_numpy(own["candidates"]), torch.from_numpy(own["distances"]))
    distributions, held = own["label_distributions"], own["validation_mask"]
    attributes: dict[str, Any] = {
        "_fitted": _fitted(header, own, parts, neighborhood, len(classes)),
        "_codes": own["codes"].astype(np.int64, copy=False),
        "_seed": header.seed,
        "classes_": classes,
        "n_features_in_": header.shape[1],
        "validation_mask_": held,
        "validation_transduction_": classes[own["validation_codes"]],
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


def _by_prefix(arrays: Mapping[str, Array]) -> dict[str, dict[str, Array]]:
    """Return the arrays of the network, of the ensemble, of sparse features, of the index, and under "" all others."""
    parts: dict[str, dict[str, Array]] = {"": {}}
    for name, array in arrays.items():
        prefix = next((p for p in (_NETWORK, _ENSEMBLE, f"{_FEATURES}.", _INDEX) if name.startswith(p)), "")
        parts.setdefault(prefix, {})[name.removeprefix(prefix)] = array
    return parts


def _check_own(header: Header, arrays: Mapping[str, Array], n_classes: int) -> None:
    """Check what both estimators have."""
    n, d = header.shape
    specs = {
        "codes": integers(n, low=-1, high=n_classes - 1),
        "validation_mask": flags(n),
        "validation_codes": integers("h", low=0, high=n_classes - 1),
        "candidates": integers(n, "m", low=0, high=n - 1),
        "distances": floats(n, "m", low=0, high=2 + _SUM_TOLERANCE if header.metric == "chord" else _LARGEST),
        "label_distributions": floats(n, n_classes, low=0, high=1 + _SUM_TOLERANCE),
        "loss_curve": floats("e"),
    }
    if "validation_scores" in arrays:
        specs["validation_scores"] = floats("e", low=0, high=1)
    if _FEATURES in arrays:
        specs[_FEATURES] = floats(n, d, low=-_largest(header), high=_largest(header))
    lengths = check_arrays(arrays, specs)
    if lengths["h"] != arrays["validation_mask"].sum():
        raise ValueError(f"{lengths['h']} rows have predictions while they were held out, but others were")
    if not 1 <= header.best_iter <= lengths["e"]:
        raise ValueError(f"the best of {lengths['e']} rounds or epochs is number {header.best_iter}")
    if header.feature_names is not None and len(header.feature_names) != d:
        raise ValueError(f"{d} features have {len(header.feature_names)} names")
    _check_sums(arrays["label_distributions"], "label_distributions")


def _largest(header: Header) -> float:
    """Return a limit of the scaled features."""
    if isinstance(header, NetworkHeader):
        scaling = "unit" if header.unit_rows else "none"
    else:
        scaling = header.ensemble.scaling
    return {"none": _LARGEST, "standard": MAX_WEIGHT}.get(scaling, 1 + _SUM_TOLERANCE)


def _check_sums(probabilities: Array, name: str) -> None:
    sums = probabilities.sum(axis=1)
    if not (np.abs(sums - 1) <= _SUM_TOLERANCE).all():
        raise ValueError(f"rows of {name!r} sum to {sums.min():g} to {sums.max():g} and not to 1")


def _fitted(
    header: Header,
    own: Mapping[str, Array],
    parts: dict[str, dict[str, Array]],
    neighborhood: Neighborhood,
    n_classes: int,
) -> Fitted:
    n, d = header.shape
    sparse = parts.pop(f"{_FEATURES}.", None)
    if (sparse is None) != (_FEATURES in own):
        raise ValueError("features must be either dense or sparse")
    rows = own[_FEATURES] if sparse is None else _sparse_rows(sparse, n, d, _largest(header))
    of_index = parts.pop(_INDEX, None)
    index = None if of_index is None else IndexState.from_arrays(of_index, rows)
    of_model = parts.pop(_NETWORK if isinstance(header, NetworkHeader) else _ENSEMBLE, {})
    if parts:
        raise ValueError(f"there are arrays of {next(iter(parts))!r}, which belong to the other estimator")
    graph = header.network if isinstance(header, NetworkHeader) else header.ensemble.options
    if isinstance(header, NetworkHeader):
        if (header.network.in_channels, header.network.out_channels) != (d, n_classes):
            raise ValueError(f"the network is not one from {d} features to {n_classes} classes")
    elif header.metric not in (header.ensemble.metric, "precomputed"):
        raise ValueError(f"the metric is {header.metric!r}, and that of the scaling {header.ensemble.metric!r}")
    elif sparse is not None and "basis" not in of_model and d > MAX_DENSE_WIDTH:
        raise ValueError(f"{d} columns of sparse features are propagated, more than {MAX_DENSE_WIDTH}")
    if graph.n_neighbors != header.n_neighbors:
        raise ValueError(f"rows have {header.n_neighbors} neighbours, and in the graph {graph.n_neighbors}")
    # What a prediction for a new row asks of the lists.
    check_graph_options(n_neighbors=graph.n_neighbors, beta=graph.beta, gamma=graph.gamma, rule=graph.rule)
    check_candidates(neighborhood, n_neighbors=graph.n_neighbors, gamma=graph.gamma, rule=graph.rule)
    if isinstance(header, NetworkHeader):
        network = ANGPN.from_state(header.network, of_model, rows.dtype)
        return FittedNetwork(network, rows, neighborhood, header.metric, header.unit_rows, header.coverage, index)
    ensemble = Ensemble.from_state(header.ensemble, of_model, n_rows=n, n_features=d, n_classes=n_classes)
    if ensemble.graph_probabilities is not None:
        _check_sums(ensemble.graph_probabilities.numpy(), "graph_probabilities")
    return FittedEnsemble(ensemble, rows, neighborhood, header.metric, own["label_distributions"], index)


def _sparse_rows(parts: Mapping[str, Array], n: int, d: int, largest: float) -> scipy.sparse.csr_array:
    specs = {
        "data": floats("z", low=-largest, high=largest),
        "indices": integers("z", low=0, high=d - 1),
        "indptr": integers(n + 1, low=0, high=parts["data"].size if "data" in parts else 0),
    }
    check_arrays(parts, specs)
    rows = scipy.sparse.csr_array(tuple(parts[part] for part in _SPARSE_PARTS), shape=(n, d))
    rows.check_format(full_check=True)  # compiled code will trust its indices
    return rows
