"""Good inputs and the models fitted to them, which the kinds damage; made once in a process."""

import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars
import scipy.sparse

from angpn import ANGPNClassifier, ANGPNNetworkClassifier
from angpn.labelling import LabellingOptions, read_task, run_task, write_output

RowKind = Literal["images", "text", "table", "array"]

N_ROWS = 24
CLASSES = ("cat", "dog")
NETWORK = {"hidden_layer_sizes": (6,), "n_neighbors": 4, "random_state": 0}
_WORDS = {"cat": "purr meow whisker claw milk", "dog": "bark wag fetch leash bone"}


@cache
def folder() -> Path:
    """Return a folder of this process, in that of its worker."""
    return Path(tempfile.mkdtemp(prefix="good"))


def rows(sparse: bool = False, n: int = N_ROWS) -> Any:  # (n, 5)
    """Return features of two classes, which alternate."""
    X = np.random.default_rng(0).normal(size=(n, 5)) + 2 * np.eye(5)[np.arange(n) % 2]
    return scipy.sparse.csr_array(np.where(np.abs(X) < 0.7, 0, X)) if sparse else X


def labels(n: int = N_ROWS) -> np.ndarray[Any, Any]:
    """Return the label of every other pair of rows, None for the rest."""
    return np.array([CLASSES[row % 2] if row % 4 < 2 else None for row in range(n)], dtype=object)


@cache
def model(name: str, sparse: bool = False) -> Path:
    """Return the file of a fitted estimator: "ensemble" or "network"."""
    path = folder() / f"{name}-{sparse}.angpn"
    kind: Any = ANGPNNetworkClassifier(max_iter=5, **NETWORK)
    if name == "ensemble":
        kind = ANGPNClassifier(n_neighbors=4, max_rounds=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind.fit(rows(sparse), labels()).save(path)
    return path


@cache
def checkpoint() -> Path:
    """Return the checkpoint of a fit that ran for five epochs."""
    path = folder() / "fit.ckpt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ANGPNNetworkClassifier(max_iter=5, checkpoint=path, **NETWORK).fit(rows(), labels())
    return path


@cache
def label_file() -> Path:
    """Return a label file for rows that are named by their number."""
    lines = [f"{row},{label}" for row, label in enumerate(labels()) if label]
    path = folder() / "labels.csv"
    path.write_text("\n".join(["id,label", *lines]) + "\n")
    return path


def table() -> polars.DataFrame:
    """Return a table with ids, numbers, categories, texts and labels."""
    X, y = rows(), labels()
    generator = np.random.default_rng(1)
    return polars.DataFrame(
        {
            "id": [f"r{row}" for row in range(N_ROWS)],
            "size": X[:, 0].round(3),
            "count": (10 * X[:, 1]).astype(int),
            "colour": ["red" if value > 0 else "blue" for value in X[:, 2]],
            "note": [" ".join(generator.choice(_WORDS[CLASSES[row % 2]].split(), 4)) for row in range(N_ROWS)],
            "label": list(y),
        }
    )


@cache
def labelling_input(kind: RowKind) -> tuple[Path, tuple[str, ...]]:
    """Return a good input of a kind of rows, and the options of ``angpn label`` for it."""
    place = folder() / kind
    place.mkdir()
    if kind == "images":
        from PIL import Image

        (place / "photos").mkdir()
        for row, values in enumerate(np.random.default_rng(0).integers(256, size=(N_ROWS, 12, 12, 3), dtype=np.uint8)):
            values[..., row % 2] //= 4
            Image.fromarray(values).save(place / "photos" / f"{row}.png")
        ids = place / "labels.csv"
        ids.write_text(label_file().read_text().replace(",", ".png,").replace("id.png", "id"))
        return place / "photos", ("--labels", str(ids))
    if kind == "array":
        np.save(place / "rows.npy", rows())
        return place / "rows.npy", ("--labels", str(label_file()))
    table().write_csv(place / "table.csv")
    columns = ("--label-column", "label", "--id-column", "id")
    return place / "table.csv", (*columns, "--text", "note") if kind == "text" else (*columns, "--drop", "note")


@cache
def labelled(kind: RowKind, model: str = "auto") -> Any:
    """Return the result of labelling that input."""
    path, options = labelling_input(kind)
    values: dict[str, Any] = {
        name[2:].replace("-", "_"): value for name, value in zip(*[iter(options)] * 2, strict=True)
    }
    if "drop" in values:
        values["drop"] = [values["drop"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return run_task(read_task(LabellingOptions(input=path, model=model, **values)))  # type: ignore[arg-type]


@cache
def labelling_model(kind: RowKind) -> Path:
    """Return the model folder that ``angpn predict`` takes, for a kind of rows."""
    return write_output(labelled(kind), folder() / f"{kind}-out")["model"]
