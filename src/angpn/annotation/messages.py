"""What the server and the learner tell each other."""

from typing import NamedTuple

from angpn.annotation.queue import Wanted
from angpn.labelling.input_options import InputOptions
from angpn.labelling.input_rows import Rows
from angpn.utils.typing import Array


class Begin(NamedTuple):
    """The rows to learn; content None is read again from the input, as it is mapped from a file."""

    options: InputOptions
    rows: Rows


class Learn(NamedTuple):
    """Labels to fit a model to."""

    labels: dict[int, int]  # the number of the class by row
    audited: list[int]  # rows that were drawn at random
    closed: list[int]  # rows not to suggest: skipped, in dispute, or of no class


class Prepared(NamedTuple):
    """Features are there: what can be said without labels."""

    suggested: list[Wanted]
    directions: Array  # (n, p) float32, rows to compare by inner products
    unreadable: dict[int, str]  # why an image could not be read, by row


class ClusterOfRows(NamedTuple):
    """A group of rows that are alike."""

    name: str | None
    rows: list[int]  # the most typical first


class Mapped(NamedTuple):
    """The map, and the clusters."""

    positions: Array  # (n, 2) float32, from 0 to 1
    clusters: list[ClusterOfRows]


class MeasuredAccuracy(NamedTuple):
    """Accuracy on audit rows, each predicted by a model that did not know its label."""

    accuracy: float
    low: float
    high: float
    n: int
    base_rate: float
    recalls: dict[int, float]  # by the number of the class


class Fitted(NamedTuple):
    """Predictions of a model."""

    n_labels: int
    seconds: float
    classes: list[int]  # numbers of the classes
    best: Array  # (n,) int32 place in classes, -1 where nothing is known
    second: Array  # (n,) int32
    confidence: Array  # (n,) float32
    suggested: list[Wanted]
    suspects: list[tuple[int, int]]  # row and the number of the class that is more probable, the worst first
    measured: MeasuredAccuracy | None


class Suggested(NamedTuple):
    """Rows to label while labels are of fewer than two classes."""

    n_labels: int
    suggested: list[Wanted]


class Failed(NamedTuple):
    """Why there is no result."""

    error: str


Message = Prepared | Mapped | Fitted | Suggested | Failed  # of the learner
