"""A fitted model to and from one file."""

import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse
import torch

from angpn.ensemble.base_learners import GraphOptions, Setting
from angpn.ensemble.calibration import Calibration
from angpn.ensemble.ensemble import Committee
from angpn.ensemble.heads import Radial, Readout
from angpn.ensemble.label_spreading import Spread, SpreadSetting
from angpn.ensemble.scaling import View
from angpn.estimators.fitted import FittedCommittee, FittedNetwork
from angpn.neighbors.neighborhood import Neighborhood
from angpn.network.coverage import Coverage
from angpn.network.model import ANGPN
from angpn.utils.container import read_contents, write_contents
from angpn.utils.typing import Array

_NETWORK = "network."
_COMMITTEE = "committee."
_FEATURES = "features"
_SPARSE_PARTS = ("data", "indices", "indptr")


def save_model(state: Mapping[str, Any], parameters: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write the fitted attributes and the constructor's parameters of an estimator."""
    classes, fitted = state["classes_"], state["_fitted"]
    header = {
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
        "coverage": None if state["coverage_"] is None else list(state["coverage_"]),
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
        header["network"] = {name: _to_json(value) for name, value in fitted.module.config.items()}
        arrays |= {_NETWORK + name: value.cpu().numpy() for name, value in fitted.module.state_dict().items()}
    else:
        header["committee"], parts = _committee_parts(fitted.committee)
        arrays |= {_COMMITTEE + name: value for name, value in parts.items()}
    if scipy.sparse.issparse(fitted.rows):
        for part in _SPARSE_PARTS:
            arrays[f"{_FEATURES}.{part}"] = getattr(fitted.rows, part)
    else:
        arrays[_FEATURES] = fitted.rows
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
    if not arrays["validation_codes"].size == held.sum() or (arrays["validation_codes"] >= len(classes)).any():
        raise ValueError("a prediction on a held-out row is not among the classes")
    rows = _features(arrays, shape)
    neighborhood = Neighborhood(candidates, torch.from_numpy(arrays["distances"]))
    state: dict[str, Any] = {
        "classes_": classes,
        "n_features_in_": shape[1],
        "_codes": codes,
        "validation_mask_": held,
        "validation_transduction_": classes[arrays["validation_codes"]],
        "_seed": header["seed"],
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
        "coverage_": None if header["coverage"] is None else Coverage(*header["coverage"]),
    }
    if "network" in header:
        state["module_"] = _network(header, arrays, rows.dtype)
        state["_fitted"] = FittedNetwork(state["module_"], rows, neighborhood, header["metric"], header["unit_rows"])
    else:
        parts = {name.removeprefix(_COMMITTEE): array for name, array in arrays.items() if name.startswith(_COMMITTEE)}
        state["committee_"] = _committee(header["committee"], parts)
        state["_fitted"] = FittedCommittee(state["committee_"], rows, neighborhood, header["metric"], distributions)
    if header["feature_names"] is not None:
        state["feature_names_in_"] = np.array(header["feature_names"], dtype=object)
    return state


def _network(header: Mapping[str, Any], arrays: Mapping[str, Array], dtype: np.dtype[Any]) -> ANGPN:
    config = {name: _from_json(value) for name, value in header["network"].items()}
    with torch.random.fork_rng(devices=[]):  # making layers draws weights, which the file replaces
        module = ANGPN(**config).to(getattr(torch, dtype.name))
    weights = {name: array for name, array in arrays.items() if name.startswith(_NETWORK)}
    module.load_state_dict({name.removeprefix(_NETWORK): torch.from_numpy(value) for name, value in weights.items()})
    return module.eval()


def _committee_parts(committee: Committee) -> tuple[dict[str, Any], dict[str, Array]]:
    """A committee as what JSON holds, and arrays."""
    view = committee.view
    header = {
        "scaling": view.scaling,
        "metric": view.metric,
        "options": list(committee.options),
        "settings": [list(setting) for setting in committee.settings],
        "temperature": committee.calibration.temperature,
        "scales": [getattr(member, "scale", None) for member in committee.readouts],
        "rates": [getattr(getattr(member, "radial", None), "rate", None) for member in committee.readouts],
    }
    parts: dict[str, Any] = {"center": view.center, "spread": view.spread, "basis": view.basis}
    parts |= {"beliefs": committee.beliefs, "shift": committee.calibration.shift}
    for number, readout in enumerate(committee.readouts):
        if isinstance(readout, Spread):
            parts[f"{number}.scores"] = readout.scores
            continue
        parts[f"{number}.weight"], parts[f"{number}.bias"] = readout.weight, readout.bias
        if readout.radial is not None:
            parts[f"{number}.centers"], parts[f"{number}.whitening"] = readout.radial.centers, readout.radial.whitening
    return header, {name: np.asarray(value) for name, value in parts.items() if value is not None}


def _committee(header: Mapping[str, Any], parts: Mapping[str, Array]) -> Committee:
    def tensor(name: str) -> torch.Tensor:
        return torch.from_numpy(parts[name])

    readouts: list[Readout | Spread] = []
    for number, (scale, rate) in enumerate(zip(header["scales"], header["rates"], strict=True)):
        if scale is None:
            readouts.append(Spread(tensor(f"{number}.scores")))
            continue
        radial = None if rate is None else Radial(tensor(f"{number}.centers"), rate, tensor(f"{number}.whitening"))
        readouts.append(Readout(scale, tensor(f"{number}.weight"), tensor(f"{number}.bias"), radial))
    view = View(header["scaling"], header["metric"], *(parts.get(name) for name in ("center", "spread", "basis")))
    return Committee(
        view,
        GraphOptions(*header["options"]),
        [Setting(*values) if len(values) > 1 else SpreadSetting(*values) for values in header["settings"]],
        readouts,
        Calibration(header["temperature"], tensor("shift")),
        tensor("beliefs") if "beliefs" in parts else None,
    )


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
