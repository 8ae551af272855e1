"""A fitted model to and from one file."""

import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse
import torch

from angpn.container import Array, read_contents, write_contents
from angpn.coverage import Coverage
from angpn.neighborhood import Neighborhood
from angpn.network import ANGPN

_NETWORK = "network."
_FEATURES = "features"
_SPARSE_PARTS = ("data", "indices", "indptr")


def save_model(state: Mapping[str, Any], parameters: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write the fitted attributes and the constructor's parameters of an estimator."""
    classes, features, module = state["classes_"], state["_features"], state["module_"]
    header = {
        "parameters": {name: _to_json(value) for name, value in parameters.items()},
        "classes": {"values": classes.tolist(), "dtype": "object" if classes.dtype.kind == "O" else classes.dtype.str},
        "network": {name: _to_json(value) for name, value in module.config.items()},
        "normalize": state["_normalize"],
        "shape": list(features.shape),
        "metric": state["_metric"],
        "seed": state["_seed"],
        "best_validation_score": state["best_validation_score_"],
        "best_iter": state["best_iter_"],
        "coverage": None if state["coverage_"] is None else list(state["coverage_"]),
        "feature_names": state["feature_names_in_"].tolist() if "feature_names_in_" in state else None,
    }
    arrays = {
        "codes": state["_codes"],
        "validation_mask": state["validation_mask_"],
        "candidates": state["neighborhood_"].indices.numpy().astype(np.int32),
        "distances": state["neighborhood_"].distances.numpy(),
        "label_distributions": state["label_distributions_"],
        "loss_curve": np.array(state["loss_curve_"]),
    }
    if state["validation_scores_"] is not None:
        arrays["validation_scores"] = np.array(state["validation_scores_"])
    for name, value in module.state_dict().items():
        arrays[_NETWORK + name] = value.cpu().numpy()
    if scipy.sparse.issparse(features):
        for part in _SPARSE_PARTS:
            arrays[f"{_FEATURES}.{part}"] = getattr(features, part)
    else:
        arrays[_FEATURES] = features
    write_contents(path, "model", header, arrays)


def load_model(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fitted attributes and the constructor's parameters that :func:`save_model` wrote."""
    header, arrays = read_contents(path, "model")
    try:
        parameters = {name: _from_json(value) for name, value in header["parameters"].items()}
        return _state(header, arrays), parameters
    except (KeyError, TypeError, ValueError, IndexError, RuntimeError, AttributeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"{os.fspath(path)} must hold a model as save writes it, got parts that do not fit together ({reason}); "
            "write it anew"
        ) from error


def _state(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> dict[str, Any]:
    classes = np.array(header["classes"]["values"], dtype=header["classes"]["dtype"])
    shape = tuple(header["shape"])
    distributions, codes, held = arrays["label_distributions"], arrays["codes"], arrays["validation_mask"]
    candidates = torch.from_numpy(arrays["candidates"].astype(np.int64))
    lengths = {len(part) for part in (distributions, codes, held, candidates)}
    if distributions.shape[1:] != classes.shape or codes.ndim != 1 or lengths != {shape[0]}:
        raise ValueError(f"expected {shape[0]} rows and {len(classes)} classes everywhere")
    if not -1 <= codes.min() <= codes.max() < len(classes):
        raise ValueError("a label is not among the classes")
    features = _features(arrays, shape)
    network = {name: _from_json(value) for name, value in header["network"].items()}
    with torch.random.fork_rng(devices=[]):  # making layers draws weights, which the file replaces
        module = ANGPN(**network).to(getattr(torch, features.dtype.name))
    weights = {name: array for name, array in arrays.items() if name.startswith(_NETWORK)}
    module.load_state_dict({name.removeprefix(_NETWORK): torch.from_numpy(value) for name, value in weights.items()})
    state = {
        "classes_": classes,
        "n_features_in_": shape[1],
        "_features": features,
        "_codes": codes,
        "validation_mask_": held,
        "_metric": header["metric"],
        "_normalize": header["normalize"],
        "_seed": header["seed"],
        "neighborhood_": Neighborhood(candidates, torch.from_numpy(arrays["distances"])),
        "module_": module.eval(),
        "n_neighbors_": network["n_neighbors"],
        "label_distributions_": distributions,
        "transduction_": classes[distributions.argmax(axis=1)],
        "loss_curve_": arrays["loss_curve"].tolist(),
        "n_iter_": len(arrays["loss_curve"]),
        "validation_scores_": arrays["validation_scores"].tolist() if "validation_scores" in arrays else None,
        "best_validation_score_": header["best_validation_score"],
        "best_iter_": header.get("best_iter", len(arrays["loss_curve"])),
        "coverage_": None if header["coverage"] is None else Coverage(*header["coverage"]),
    }
    if header["feature_names"] is not None:
        state["feature_names_in_"] = np.array(header["feature_names"], dtype=object)
    return state


def _features(arrays: Mapping[str, Array], shape: tuple[int, ...]) -> Any:
    if _FEATURES in arrays:
        return arrays[_FEATURES].reshape(shape)
    features = scipy.sparse.csr_array(tuple(arrays[f"{_FEATURES}.{part}"] for part in _SPARSE_PARTS), shape=shape)
    features.check_format(full_check=True)  # compiled code will trust its indices
    return features


def _to_json(value: Any) -> Any:
    """Plain values as they are; mappings and sequences marked, since JSON knows fewer kinds than Python."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
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
    if isinstance(value, dict) and "mapping" in value:
        return {_from_json(key): _from_json(item) for key, item in value["mapping"]}
    if isinstance(value, dict):
        return tuple(_from_json(item) for item in value["sequence"])
    return value
