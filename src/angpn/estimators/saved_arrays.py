"""The arrays of a model file: what each must be, and the fitted model that is made of them."""

from collections.abc import Mapping

import numpy as np
import scipy.sparse

from angpn.anfp.neighbor_graph import check_candidates, check_graph_options
from angpn.ensemble.config import MAX_DENSE_WIDTH
from angpn.ensemble.ensemble import Ensemble
from angpn.estimators.fitted_models import Fitted, FittedEnsemble, FittedNetwork
from angpn.estimators.saved_model import EnsembleHeader, NetworkHeader
from angpn.neighbors.inverted_index import IndexState
from angpn.neighbors.neighborhood import Neighborhood
from angpn.network.model import ANGPN
from angpn.utils.array_checks import MAX_WEIGHT, check_arrays, flags, floats, integers
from angpn.utils.typing import Array

NETWORK, ENSEMBLE, INDEX = "network.", "ensemble.", "index."  # prefixes
FEATURES = "features"  # the name of dense ones, and with a dot the prefix of sparse ones
SPARSE_PARTS = ("data", "indices", "indptr")
_LARGEST = float(np.finfo(np.float64).max)
_SUM_TOLERANCE = 1e-3  # of the probabilities, or the squares, of a row in float32

Header = EnsembleHeader | NetworkHeader


def by_prefix(arrays: Mapping[str, Array]) -> dict[str, dict[str, Array]]:
    """Return the arrays of the network, of the ensemble, of the index, of sparse features, and under "" all others."""
    parts: dict[str, dict[str, Array]] = {"": {}}
    for name, array in arrays.items():
        prefix = next((p for p in (NETWORK, ENSEMBLE, INDEX, f"{FEATURES}.") if name.startswith(p)), "")
        parts.setdefault(prefix, {})[name.removeprefix(prefix)] = array
    return parts


def check_common(header: Header, arrays: Mapping[str, Array], n_classes: int) -> None:
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
    if "validation_distributions" in arrays:
        specs["validation_distributions"] = floats("h", n_classes, low=0, high=1 + _SUM_TOLERANCE)
    if "validation_scores" in arrays:
        specs["validation_scores"] = floats("e", low=0, high=1)
    if FEATURES in arrays:
        specs[FEATURES] = floats(n, d, low=-_largest(header), high=_largest(header))
    lengths = check_arrays(arrays, specs)
    if lengths["h"] != arrays["validation_mask"].sum():
        raise ValueError(f"{lengths['h']} rows have predictions while they were held out, but others were")
    if not 1 <= header.best_iter <= lengths["e"]:
        raise ValueError(f"the best of {lengths['e']} rounds or epochs is number {header.best_iter}")
    if header.feature_names is not None and len(header.feature_names) != d:
        raise ValueError(f"{d} features have {len(header.feature_names)} names")
    for name in ("label_distributions", "validation_distributions"):
        if name in arrays:
            _check_sums(arrays[name], name)


def _largest(header: Header) -> float:
    """Return a limit of the scaled features."""
    if isinstance(header, NetworkHeader):
        scaling = "unit" if header.unit_rows else "none"
    else:
        scaling = header.ensemble.scaling
    return {"none": _LARGEST, "standard": MAX_WEIGHT}.get(scaling, 1 + _SUM_TOLERANCE)


def _check_sums(probabilities: Array, name: str) -> None:
    sums = probabilities.sum(axis=1)
    if len(sums) and not (np.abs(sums - 1) <= _SUM_TOLERANCE).all():
        raise ValueError(f"rows of {name!r} sum to {sums.min():g} to {sums.max():g} and not to 1")


def restore_fitted(
    header: Header,
    own: Mapping[str, Array],
    parts: dict[str, dict[str, Array]],
    neighborhood: Neighborhood,
    n_classes: int,
) -> Fitted:
    """Return the fitted model, after a check of its own arrays and of what it asks of the lists.

    Args:
        header: The header.
        own: The arrays that both estimators have.
        parts: All others, by prefix.
        neighborhood: The candidates.
        n_classes: How many classes there are.

    Returns:
        The fitted network or ensemble.

    Raises:
        ValueError: If parts do not fit together.
    """
    n, d = header.shape
    sparse = parts.pop(f"{FEATURES}.", None)
    if (sparse is None) != (FEATURES in own):
        raise ValueError("features must be either dense or sparse")
    rows = own[FEATURES] if sparse is None else _sparse_rows(sparse, n, d, _largest(header))
    of_index = parts.pop(INDEX, None)
    of_model = parts.pop(NETWORK if isinstance(header, NetworkHeader) else ENSEMBLE, {})
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
        index = None if of_index is None else IndexState.from_arrays(of_index, rows)
        return FittedNetwork(network, rows, neighborhood, header.metric, header.unit_rows, header.coverage, index)
    ensemble = Ensemble.from_state(header.ensemble, of_model, n_rows=n, n_features=d, n_classes=n_classes)
    index = None if of_index is None else IndexState.from_arrays(of_index, ensemble.scaling.coordinates(rows))
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
    rows = scipy.sparse.csr_array(tuple(parts[part] for part in SPARSE_PARTS), shape=(n, d))
    rows.check_format(full_check=True)  # compiled code will trust its indices
    return rows
