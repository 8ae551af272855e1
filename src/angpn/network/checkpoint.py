"""Checkpoints, by which a fit is resumed after its process was killed."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from angpn.network.training_loop import Epoch, Training
from angpn.utils.container import Contents, read_contents, write_contents
from angpn.utils.fingerprint import fingerprint

SECONDS_BETWEEN_SAVES = 1.0


class Checkpoint:
    """The file that a fit writes its state to; does nothing where there is no path."""

    def __init__(self, path: str | os.PathLike[str] | None, *, resume: bool, problem: Mapping[str, Any]) -> None:
        if resume and path is None:
            raise ValueError("resume=True needs the checkpoint to resume from, got checkpoint=None; name its file")
        self._path, self._saved_at = path, -float("inf")
        self._fingerprint = None if path is None else fingerprint(problem)
        self._contents: Contents | None = None
        self.seed: int | None = None  # that of the fit to resume
        if resume and path is not None and Path(path).exists():
            found = read_contents(path, "checkpoint")
            if found.header["fingerprint"] == self._fingerprint:
                self._contents, self.seed = found, found.header["seed"]
            elif not found.header["finished"]:  # a finished one is not needed any more
                raise ValueError(
                    f"the checkpoint {os.fspath(path)} must be of a fit with the same data, labels and parameters, got "
                    "an unfinished one of another; pass what it was made with, or resume=False to begin anew"
                )

    def restore(self, training: Training) -> list[Epoch]:
        """Restore the state of the training from the file; return the epochs it had run."""
        if self._contents is None:
            return []
        arrays = self._contents.arrays
        training.load_state_dict(
            {
                name.removeprefix("training."): torch.from_numpy(array)
                for name, array in arrays.items()
                if name.startswith("training.")
            }
        )
        return [_epoch(number, figures) for number, figures in enumerate(arrays["epochs"].tolist(), start=1)]

    def save(
        self, training: Training, epochs: list[Epoch], seed: int, *, now: bool = False, finished: bool = False
    ) -> None:
        """Write the file, unless that was done within the last second."""
        if self._path is None or not (now or time.monotonic() - self._saved_at >= SECONDS_BETWEEN_SAVES):
            return
        arrays = {f"training.{name}": value.cpu().numpy() for name, value in training.state_dict().items()}
        arrays["epochs"] = np.array([_figures(epoch) for epoch in epochs], dtype=np.float64).reshape(-1, 4)
        header = {"fingerprint": self._fingerprint, "seed": seed, "finished": finished}
        write_contents(self._path, "checkpoint", header, arrays)
        self._saved_at = time.monotonic()


def _figures(epoch: Epoch) -> tuple[float, ...]:
    missing = float("nan")
    validation = epoch.validation_loss, epoch.validation_accuracy
    return (epoch.loss, *(missing if value is None else value for value in validation), float(epoch.is_best))


def _epoch(number: int, figures: list[float]) -> Epoch:
    loss, validation_loss, accuracy, is_best = figures
    validated = validation_loss == validation_loss
    return Epoch(number, loss, validation_loss if validated else None, accuracy if validated else None, bool(is_best))
