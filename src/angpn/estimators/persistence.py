"""A fitted model to and from one file."""

import math
import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch

from angpn.ensemble.config import EnsembleConfig
from angpn.ensemble.ensemble import Ensemble
from angpn.estimators.fitted_models import Fitted, FittedEnsemble, FittedNetwork
from angpn.estimators.persistence_0_1_0 import upgrade
from angpn.neighbors.inverted_index import IndexState, check_index_state
from angpn.neighbors.neighborhood import Neighborhood
from angpn.network.coverage import Coverage
from angpn.network.model import ANGPN
from angpn.utils.container import read_contents, write_contents
from angpn.utils.typing import Array

_NETWORK = "network."
_ENSEMBLE = "ensemble."
_FEATURES = "features"
_INDEX = "index."
_SPARSE_PARTS = ("data", "indices", "indptr")


class SavedModel(NamedTuple):
    """What a file holds."""

    estimator: str  # the name of its class
    parameters: dict[str, Any]  # of the constructor
    attributes: dict[str, Any]  # that a fit sets


def save_model(
    estimator: str, state: Mapping[str, Any], parameters: Mapping[str, Any], path: str | os.PathLike[str]
) -> None:
    """Write the fitted attributes and the constructor's parameters of an estimator."""
    classes, fitted = state["classes_"], state["_fitted"]
    header = {
        "estimator": estimator,
        "parameters": {name: _to_json(value) for name, value in parameters.items()},
        "classes": {"values": classes.tolist(), "dtype": "object" if classes.dtype.kind == "O" else classes.dtype.str},
        "shape": list(fitted.rows.shape),
        "metric": fitted.metric,
        "seed": state["_seed"],
        "n_neighbors": state["n_neighbors_"],
        "best_validation_score": state["best_validation_score_"],
        "best_iter": state["best_iter_"],
        "recall": state["recall_"],
        "neighbor_seconds": state["neighbor_seconds_"],
        "feature_names": state["feature_names_in_"].tolist() if "feature_names_in_" in state else None,
    }
    arrays = {
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
    if isinstance(fitted, FittedNetwork):
        header["unit_rows"] = fitted.unit_rows
        header["coverage"] = None if fitted.coverage is None else list(fitted.coverage)
        header["network"] = {name: _to_json(value) for name, value in fitted.module.config.items()}
        arrays |= {_NETWORK + name: value.cpu().numpy() for name, value in fitted.module.state_dict().items()}
    else:
        header["ensemble"], parts = fitted.ensemble.state()
        arrays |= {_ENSEMBLE + name: value for name, value in parts.items()}
    if scipy.sparse.issparse(fitted.rows):
        for part in _SPARSE_PARTS:
            arrays[f"{_FEATURES}.{part}"] = getattr(fitted.rows, part)
    else:
        arrays[_FEATURES] = fitted.rows
    searches = [search.state for search in fitted.searches.values()] or [fitted.index]
    if searches[0] is not None:  # 4 bytes a row and the centres, for which a first prediction need not learn them
        parts = {name: np.atleast_1d(value) for name, value in searches[0]._asdict().items() if value is not None}
        arrays |= {_INDEX + name: part for name, part in parts.items()}
    write_contents(path, "model", header, arrays)


def load_model(path: str | os.PathLike[str]) -> SavedModel:
    """Read what :func:`save_model` wrote, of this version or of 0.1.0."""
    contents = read_contents(path, "model")
    try:
        header, arrays = upgrade(*contents[:2]) if contents.format == 1 else contents[:2]
        parameters = {name: _from_json(value) for name, value in header["parameters"].items()}
        if header["estimator"] != ("ANGPNNetworkClassifier" if "network" in header else "ANGPNClassifier"):
            raise ValueError(f"the estimator is called {header['estimator']}")
        return SavedModel(header["estimator"], parameters, _attributes(header, arrays))
    except (KeyError, TypeError, ValueError, IndexError, RuntimeError, AttributeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"{os.fspath(path)} must hold a model as save writes it, got parts that do not fit together ({reason}); "
            "write it anew"
        ) from error


def _attributes(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> dict[str, Any]:
    classes = np.array(header["classes"]["values"], dtype=header["classes"]["dtype"])
    shape = tuple(header["shape"])
    distributions, codes, held = arrays["label_distributions"], arrays["codes"], arrays["validation_mask"]
    candidates = torch.from_numpy(arrays["candidates"].astype(np.int64))
    lengths = {len(part) for part in (distributions, codes, held, candidates)}
    if distributions.shape[1:] != classes.shape or codes.ndim != 1 or lengths != {shape[0]}:
        raise ValueError(f"expected {shape[0]} rows and {len(classes)} classes everywhere")
    if not -1 <= codes.min() <= codes.max() < len(classes):
        raise ValueError("a label is not among the classes")
    if not arrays["validation_codes"].size == held.sum() or (arrays["validation_codes"] >= len(classes)).any():
        raise ValueError("a prediction on a held-out row is not among the classes")
    neighborhood = Neighborhood(candidates, torch.from_numpy(arrays["distances"]))
    attributes: dict[str, Any] = {
        "_fitted": _fitted(header, arrays, neighborhood),
        "_codes": codes,
        "_seed": header["seed"],
        "classes_": classes,
        "n_features_in_": shape[1],
        "validation_mask_": held,
        "validation_transduction_": classes[arrays["validation_codes"]],
        "neighborhood_": neighborhood,
        "n_neighbors_": header["n_neighbors"],
        "recall_": header["recall"],
        "neighbor_seconds_": header["neighbor_seconds"],
        "label_distributions_": distributions,
        "transduction_": classes[distributions.argmax(axis=1)],
        "loss_curve_": arrays["loss_curve"].tolist(),
        "n_iter_": len(arrays["loss_curve"]),
        "validation_scores_": arrays["validation_scores"].tolist() if "validation_scores" in arrays else None,
        "best_validation_score_": header["best_validation_score"],
        "best_iter_": header["best_iter"],
    }
    if header["feature_names"] is not None:
        attributes["feature_names_in_"] = np.array(header["feature_names"], dtype=object)
    return attributes


def _fitted(header: Mapping[str, Any], arrays: Mapping[str, Array], neighborhood: Neighborhood) -> Fitted:
    rows = _features(arrays, tuple(header["shape"]))
    index = _index(arrays, rows)
    if "network" in header:
        coverage = None if header["coverage"] is None else Coverage(*header["coverage"])
        module = _network(header, arrays, rows.dtype)
        return FittedNetwork(module, rows, neighborhood, header["metric"], header["unit_rows"], coverage, index)
    parts = {name.removeprefix(_ENSEMBLE): array for name, array in arrays.items() if name.startswith(_ENSEMBLE)}
    ensemble = Ensemble.from_state(header["ensemble"], parts)
    return FittedEnsemble(ensemble, rows, neighborhood, header["metric"], arrays["label_distributions"], index)


def _network(header: Mapping[str, Any], arrays: Mapping[str, Array], dtype: np.dtype[Any]) -> ANGPN:
    with torch.device("meta"):  # shapes alone: the file has the weights
        module = ANGPN(**{name: _from_json(value) for name, value in header["network"].items()})
    module = module.to(getattr(torch, dtype.name)).to_empty(device="cpu")
    weights = {name: array for name, array in arrays.items() if name.startswith(_NETWORK)}
    module.load_state_dict({name.removeprefix(_NETWORK): torch.from_numpy(value) for name, value in weights.items()})
    return module.eval()


def _features(arrays: Mapping[str, Array], shape: tuple[int, ...]) -> Any:
    if _FEATURES in arrays:
        return arrays[_FEATURES].reshape(shape)
    features = scipy.sparse.csr_array(tuple(arrays[f"{_FEATURES}.{part}"] for part in _SPARSE_PARTS), shape=shape)
    features.check_format(full_check=True)  # compiled code will trust its indices
    return features


def _index(arrays: Mapping[str, Array], rows: Any) -> IndexState | None:
    parts = {name.removeprefix(_INDEX): array for name, array in arrays.items() if name.startswith(_INDEX)}
    if not parts:
        return None
    n_probed, recall = int(parts["n_probed"][0]), float(parts["recall"][0])
    state = IndexState(parts["centres"], parts["sizes"], parts["rows"], n_probed, recall, parts.get("basis"))
    check_index_state(state, rows)
    return state


def _to_json(value: Any) -> Any:
    """Return plain values as they are; mappings and sequences marked, since JSON knows fewer kinds than Python."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, EnsembleConfig):
        return {"config": {name: _to_json(item) for name, item in asdict(value).items()}}
    if isinstance(value, Mapping):
        return {"mapping": [[_to_json(key), _to_json(item)] for key, item in value.items()]}
    if isinstance(value, list | tuple | np.ndarray):
        return {"sequence": [_to_json(item) for item in value]}
    if isinstance(value, os.PathLike | torch.device):
        return str(value)
    return None  # a generator of random numbers: the fitted model does not need it


def _from_json(value: Any) -> Any:
    if isinstance(value, dict) and "number" in value:
        return float(value["number"])
    if isinstance(value, dict) and "config" in value:
        return EnsembleConfig(**{name: _from_json(item) for name, item in value["config"].items()})
    if isinstance(value, dict) and "mapping" in value:
        return {_from_json(key): _from_json(item) for key, item in value["mapping"]}
    if isinstance(value, dict):
        return tuple(_from_json(item) for item in value["sequence"])
    return value
