"""Files of 0.1.0 (format 1), when one estimator was both the ensemble and the network."""

from collections.abc import Mapping
from typing import Any

from angpn.utils.typing import Array

_SCALINGS = {"unit": "unit", "rare": "idf", "standard": "standard", "both": "unit_standard", "none": "none"}
_ARRAYS = {"spread": "scale", "beliefs": "graph_probabilities"}
_OF_NETWORK = (
    "hidden_layer_sizes",
    "normalize",
    "normalize_hidden",
    "num_steps",
    "graph_gradient",
    "dropout",
    "learning_rate",
    "weight_decay",
    "max_iter",
    "n_iter_no_change",
    "tol",
    "validation_fraction",
    "device",
    "checkpoint",
    "resume",
)


def upgrade(header: dict[str, Any], arrays: dict[str, Array]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return header and arrays of such a file as this version writes them."""
    parameters = dict(header["parameters"])
    if "network" in header:
        parameters["metric"] = "chord" if parameters["metric"] == "auto" else parameters["metric"]
        parameters["alpha"] = 0.7 if parameters["alpha"] == "auto" else parameters["alpha"]
        return {**header, "parameters": parameters, "estimator": "ANGPNNetworkClassifier"}, arrays
    of_network = {name: parameters.pop(name) for name in _OF_NETWORK}
    parameters["max_rounds"] = of_network["num_steps"]
    given = parameters["metric"] != "auto"
    parameters["scaling"] = ("unit" if of_network["normalize"] else "none") if given else "auto"
    old = header["committee"]
    learners = [
        _learner(settings, scale, rate)
        for settings, scale, rate in zip(old["settings"], old["scales"], old["rates"], strict=True)
    ]
    ensemble = {
        "scaling": _SCALINGS[old["scaling"]],
        "metric": old["metric"],
        "options": old["options"],
        "temperature": old["temperature"],
        "learners": learners,
    }
    upgraded = {**header, "parameters": parameters, "estimator": "ANGPNClassifier", "ensemble": ensemble}
    return upgraded, {_renamed(name): array for name, array in arrays.items()}


def _learner(settings: list[Any], scale: float | None, rate: float | None) -> Mapping[str, Any]:
    if scale is None:
        return {"kind": "label_spreading", "parameters": settings}
    head = {"kind": "head", "parameters": settings, "scale": scale}
    return head if rate is None else {**head, "rate": rate}


def _renamed(name: str) -> str:
    room, _, part = name.partition(".")
    return name if room != "committee" else f"ensemble.{_ARRAYS.get(part, part)}"
