"""``angpn.annotate``: label the rows of an array from Python, in a notebook or in a browser."""

import threading
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse
from sklearn.utils import check_array

from angpn.annotation.results import Results, row_labels
from angpn.labelling.input_options import InputOptions
from angpn.labelling.input_rows import Rows, check_unique
from angpn.utils.inputs import without_torch
from angpn.utils.optional import require
from angpn.utils.typing import Array

if TYPE_CHECKING:
    from angpn.annotation.command import AnnotationServer

_START_SECONDS = 60.0
_HEIGHT = 720  # pixels of the frame in a notebook


class Annotation:
    """A server that goes on beside your code; a notebook shows its page where this is the value of a cell.

    Attributes:
        address: Where the page is, with its token.
    """

    def __init__(self, server: "AnnotationServer") -> None:
        self._server = server
        self.address = server.address
        ready = threading.Event()
        self._thread = threading.Thread(target=server.serve, args=(ready.set,), daemon=True)
        self._thread.start()
        if not ready.wait(_START_SECONDS):
            self.stop()
            raise RuntimeError(f"the server must answer within {_START_SECONDS:.0f} s, got none; call annotate again")

    @property
    def labels(self) -> Array:  # (n,) object
        """The name of the class of each row so far, None where it has none."""
        session = self._server.session
        with session.lock:
            found = row_labels(session.state)
        labels = np.full(len(session.contents), None, dtype=object)
        for one in found:
            labels[one.row] = one.label
        return labels

    @property
    def labelled_at_random(self) -> Array:  # (n,) bool
        """Which rows were audits, for :meth:`ANGPNClassifier.estimate_accuracy`."""
        session = self._server.session
        with session.lock:
            found = row_labels(session.state)
        at_random = np.zeros(len(session.contents), dtype=bool)
        at_random[[one.row for one in found if one.source == "random" and one.label is not None]] = True
        return at_random

    def export(self) -> Results:
        """Write labels, predictions, model and report to the output folder, and go on.

        Returns:
            The names of the files, and why there are no predictions, if so.
        """
        return self._server.write_results()

    def stop(self) -> None:
        """End the server; all labels are in the output folder, and the same call goes on with them."""
        self._server.stop()
        self._thread.join()
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"Annotation({self.address})"

    def _repr_html_(self) -> str:
        address = escape(self.address, quote=True)
        return f'<iframe src="{address}" width="100%" height="{_HEIGHT}" title="angpn annotate"></iframe>'


def annotate(
    X: Any,  # (n, d)
    *,
    images: Any = None,  # (n, h, w[, 3])
    texts: Sequence[str] | None = None,  # (n,)
    ids: Sequence[str] | None = None,  # (n,)
    output: str | Path = "angpn-annotation",
    target: float | None = None,
    audit: float = 0.2,
    user: str | None = None,
    port: int = 0,
    random_state: int = 0,
) -> Annotation:
    """Serve a page on this machine in which the rows of X are labelled while a model learns.

    Every action is in a log in the output folder before it is answered; the same call goes on with it. The page is
    shown in a notebook where the result is the value of a cell; elsewhere, open its ``address`` in a browser.

    Args:
        X: features: dense or sparse, numpy, pandas, polars or torch.
        images: an image to show for each row: an array, a folder or files.
        texts: a text to show for each row.
        ids: a name of each row; None numbers them.
        output: folder of the log and of the results.
        target: the accuracy that is wanted: the page says when it is reached.
        audit: share of rows that are drawn at random, their guess hidden, to measure accuracy on.
        user: who labels; None is the name of the login.
        port: port on the loopback address; 0 picks a free one.
        random_state: seed of all that is drawn.

    Returns:
        The running server, with the labels so far.

    Raises:
        ValueError: if the input cannot be used; the message says what to change.
        OSError: if the folder or the port cannot be used.
        ImportError: if the extra ``annotate`` is not installed.
    """
    for package in ("starlette", "uvicorn"):
        require(package, 'pip install "angpn[annotate]"')
    from angpn.annotation.command import AnnotationOptions, AnnotationServer

    X = check_array(without_torch(X), accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=3)
    X = scipy.sparse.csr_array(X) if scipy.sparse.issparse(X) else X
    names = [str(row) for row in range(X.shape[0])] if ids is None else [str(name) for name in ids]
    if len(names) != X.shape[0]:
        raise ValueError(f"ids must be one for each of the {X.shape[0]} rows, got {len(names)}; pass as many")
    check_unique(names, "ids")
    options = InputOptions(input="array", seed=random_state)
    settings = AnnotationOptions(
        output=Path(output),
        images=images,
        texts=texts,
        user=user,
        target=target,
        audit=audit,
        port=port,
        frame=True,
        in_memory=True,
    )
    return Annotation(AnnotationServer(options, Rows("array", names, X, None), settings))
