"""Checkpoints, by which a fit is resumed after its process was killed."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from msgspec import Meta

from angpn.network.training_loop import Epoch, Training
from angpn.utils.array_checks import ArraySpec, check_arrays
from angpn.utils.container import naming_file, read_contents, write_contents
from angpn.utils.fingerprint import fingerprint
from angpn.utils.schema import Saved, Seed
from angpn.utils.typing import Array

SECONDS_BETWEEN_SAVES = 1.0
_TRAINING, _EPOCHS = "training.", "epochs"


class CheckpointHeader(Saved, frozen=True):
    """The header of a checkpoint."""

    fingerprint: Annotated[str, Meta(max_length=64)]  # of the data and the parameters
    seed: Seed
    finished: bool


class Checkpoint:
    """The file that a fit writes its state to; does nothing where there is no path."""

    def __init__(self, path: str | os.PathLike[str] | None, *, resume: bool, problem: Mapping[str, Any]) -> None:
        if resume and path is None:
            raise ValueError("resume=True needs the checkpoint to resume from, got checkpoint=None; name its file")
        self._path, self._saved_at = path, -float("inf")
        self._fingerprint = None if path is None else fingerprint(problem)
        self._arrays: dict[str, Array] | None = None
        self.seed: int | None = None  # that of the fit to resume
        if resume and path is not None and Path(path).exists():
            header, arrays = read_contents(path, "checkpoint", CheckpointHeader, lambda *found: found)
            if header.fingerprint == self._fingerprint:
                self._arrays, self.seed = arrays, header.seed
            elif not header.finished:  # a finished one is not needed any more
                raise ValueError(
                    f"the checkpoint {os.fspath(path)} must be of a fit with the same data, labels and parameters, got "
                    "an unfinished one of another; pass what it was made with, or resume=False to begin anew"
                )

    def restore(self, training: Training) -> list[Epoch]:
        """Restore the state of the training from the file; return the epochs it had run."""
        if self._arrays is None or self._path is None:
            return []
        with naming_file(self._path, "checkpoint"):
            _check_state(self._arrays, training)
        state = {name.removeprefix(_TRAINING): array for name, array in self._arrays.items() if name != _EPOCHS}
        training.load_state_dict({name: torch.from_numpy(array) for name, array in state.items()})
        return [_epoch(number, figures) for number, figures in enumerate(self._arrays[_EPOCHS].tolist(), start=1)]

    def save(
        self, training: Training, epochs: list[Epoch], seed: int, *, now: bool = False, finished: bool = False
    ) -> None:
        """Write the file, unless that was done within the last second."""
        if self._path is None or not (now or time.monotonic() - self._saved_at >= SECONDS_BETWEEN_SAVES):
            return
        arrays = {_TRAINING + name: value.cpu().numpy() for name, value in training.state_dict().items()}
        arrays[_EPOCHS] = np.array([_figures(epoch) for epoch in epochs], dtype=np.float64).reshape(-1, 4)
        header = CheckpointHeader(fingerprint=self._fingerprint or "", seed=seed, finished=finished)
        write_contents(self._path, "checkpoint", header, arrays)
        self._saved_at = time.monotonic()


def _check_state(arrays: Mapping[str, Array], training: Training) -> None:
    """Check that the arrays of a file are a state of this training, which has not begun."""
    specs = {_EPOCHS: ArraySpec(("float64",), ("e", 4), low=0)}
    for name, value in training.state_dict().items():
        array = value.cpu().numpy()
        specs[_TRAINING + name] = ArraySpec((array.dtype.name,), array.shape)
    specs[f"{_TRAINING}progress"] = ArraySpec(("float64",), (4,), low=0, high=np.inf)  # losses may be infinite
    if any(name.startswith(f"{_TRAINING}adam.") for name in arrays):  # after the first epoch
        for name, weight in [item for item in specs.items() if item[0].startswith(f"{_TRAINING}live.")]:
            prefix = name.replace("live.", "adam.")
            specs[f"{prefix}.step"] = ArraySpec(("float32",), (1,), low=0)  # as files hold a single number
            specs[f"{prefix}.exp_avg"], specs[f"{prefix}.exp_avg_sq"] = weight, weight._replace(low=0)
    without_nan = {name: np.where(np.isnan(array), 0, array) for name, array in arrays.items() if name == _EPOCHS}
    check_arrays({**arrays, **without_nan}, specs)
    epochs = arrays[_EPOCHS]
    missing = np.isnan(epochs)  # NaN stands for the figures of an epoch that was not validated
    if missing[:, [0, 3]].any() or (missing[:, 1] != missing[:, 2]).any():
        raise ValueError("an epoch lacks a figure")
    number, *_, counted_number = arrays[f"{_TRAINING}progress"].tolist()
    if number != len(epochs) or counted_number not in range(len(epochs) + 1):
        raise ValueError(f"there are {len(epochs)} epochs, and the progress is {number:g} and {counted_number:g}")
    try:
        torch.Generator().set_state(torch.from_numpy(arrays[f"{_TRAINING}generator"]))
    except RuntimeError:
        raise ValueError("the state of the random numbers is none") from None


def _figures(epoch: Epoch) -> tuple[float, ...]:
    missing = float("nan")
    validation = epoch.validation_loss, epoch.validation_accuracy
    return (epoch.loss, *(missing if value is None else value for value in validation), float(epoch.is_best))


def _epoch(number: int, figures: list[float]) -> Epoch:
    loss, validation_loss, accuracy, is_best = figures
    validated = validation_loss == validation_loss
    return Epoch(number, loss, validation_loss if validated else None, accuracy if validated else None, bool(is_best))
