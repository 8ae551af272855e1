"""An annotation in progress: log, state, queue and model in one place, each changed under one lock."""

import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from angpn.annotation.actions import (
    SERVER,
    Action,
    Entry,
    Import,
    Label,
    Measured,
    Other,
    Post,
    Redo,
    Skip,
    Undo,
)
from angpn.annotation.contents import Contents
from angpn.annotation.learner import Learner
from angpn.annotation.messages import Begin, Failed, Fitted, Learn, Mapped, Message, Prepared, Suggested
from angpn.annotation.project import Project
from angpn.annotation.queue import Queue, Wanted
from angpn.annotation.state import AnnotationState, describe_action
from angpn.annotation.votes import OTHER
from angpn.labelling.input_options import InputOptions
from angpn.labelling.input_rows import Rows

BATCH = 10  # new labels after which a model is fitted
PAUSE_SECONDS = 2.0  # after which fewer will do
N_NEIGHBORS = 5


class Outcome(NamedTuple):
    """What came of an action.

    Attributes:
        seq: The number of its entry.
        row: The row that was changed, None where it were many or none.
        done: What was done, in a few words.
    """

    seq: int
    row: int | None
    done: str


class Session:
    """An annotation in progress.

    Args:
        project: Its folder, opened.
        options: Options of the input.
        rows: The rows, by their numbers in the project.
        contents: What they show.
        user: Who labels where a page does not say.
        target: The accuracy that is wanted, or None.
        audit: The share of rows that are audits.
        shared: Whether other machines may label, too, so that a page asks who labels there.

    Attributes:
        name: What tells this project from others.
        state: What the log says.
        queue: Which rows come next.
        fitted: What the last model predicts, or None.
        prepared: What is known without labels, or None before features are there.
        mapped: Map and clusters, or None before they are there.
        error: Why there is no newer model, or None.
        version: How many models were fitted.
        change: Grows with whatever changes.
    """

    def __init__(
        self,
        project: Project,
        options: InputOptions,
        rows: Rows,
        contents: Contents,
        *,
        user: str,
        target: float | None = None,
        audit: float = 0.2,
        shared: bool = False,
    ) -> None:
        if target is not None and not 0 < target < 1:
            raise ValueError(f"--target must lie between 0 and 1, got {target}; 0.95 asks for 95 % right")
        self.project, self.options, self.contents = project, options, contents
        self.user, self.target, self.shared = user, target, shared
        self.name = project.name()
        self.title = Path(options.input).name or str(options.input)
        self.state = AnnotationState(len(rows.ids), project.log.entries)
        self.queue = Queue(len(rows.ids), audit, options.seed)
        self.queue.suggested = project.load_queue(len(rows.ids))
        self.fitted: Fitted | None = None
        self.prepared: Prepared | None = None
        self.mapped: Mapped | None = None
        self.error: str | None = None
        self.version, self.change = 0, 0
        self.lock = threading.RLock()
        self._asked: int | None = None  # number of labels that a model is being fitted to
        self._is_wanted, self._seq_asked = False, -1
        self._learnt: dict[int, int] = {}  # labels of the last model that was asked for
        self._labelled = -1, np.zeros(0, np.int64)  # rows with a label, and the entry after which it was so
        self._last_action = 0.0
        self._wake = threading.Condition(self.lock)
        self._closed = False
        mapped_from_file = rows.kind == "array" and isinstance(rows.content, np.memmap)
        begin = Begin(options, rows._replace(content=None) if mapped_from_file else rows)
        self._learner = Learner(begin, self._on_message)
        self._thread = threading.Thread(target=self._teach, daemon=True)

    def start(self) -> None:
        """Start to learn."""
        self._thread.start()

    def close(self) -> None:
        """End the learner; the log is complete at any moment."""
        with self.lock:
            self._closed = True
            self._wake.notify_all()
        self._learner.close()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def is_fitting(self) -> bool:
        """Whether a model is being fitted, or features computed."""
        return self._asked is not None or (self.prepared is None and self.error is None)

    def act(self, post: Post) -> Outcome:
        """Log what a page posted and take it into account.

        Returns:
            What was done; where the page posted it before, that it was done then.

        Raises:
            ActionError: If it cannot be done; nothing was logged.
            OSError: If it cannot be written; nothing was changed.
        """
        user = post.user or self.user
        with self.lock:
            known = self.state.seq_of_page(post.id)
            if known is not None:
                return Outcome(known, None, "done before")
            action = self.state.check(post.action, user)
            outcome = self._outcome(action, user)
            audit = isinstance(action, Label | Other | Skip) and action.row in self.hidden()
            entry = self._log(action, user=user, client=post.client, id=post.id, audit=audit)
            self._last_action = time.monotonic()
            self._wake.notify_all()
            return outcome._replace(seq=entry.seq)

    def add_labels(self, labels: Import) -> None:
        """Log labels from a file, unless this file was imported before."""
        with self.lock:
            if labels.digest not in self.state.digests:
                self._log(labels, user=SERVER)

    def _log(self, action: Action, *, user: str, client: str = "", id: str = "", audit: bool = False) -> Entry:
        entry = self.project.log.append(action, user=user, client=client, id=id, audit=audit)
        self.state.apply(entry)
        self.change += 1
        return entry

    def hidden(self) -> set[int]:
        """Return the rows whose guess is hidden, since they are the next audits."""
        return set(self.queue.pending_audits(self.state.votes))

    def next(self, client: str, count: int) -> list[Wanted]:
        """Return the next rows for a page, best first."""
        with self.lock:
            return self.queue.next(self.state.votes, client, count)

    def id_of(self, row: int) -> str:
        """Return an id that JSON can carry: a file name that is not valid UTF-8 holds lone surrogates."""
        return self.contents.rows.ids[row].encode("utf-8", "surrogateescape").decode("utf-8", "replace")

    def ask_for_model(self) -> None:
        """Ask for a model of the labels that there are."""
        with self.lock:
            self._is_wanted = True
            self._wake.notify_all()

    def labels(self) -> dict[int, int]:
        """Return the number of the class of each labelled row."""
        final = self.state.votes.final
        return {row: found.label for row, found in final.items() if found.label is not None and found.label != OTHER}

    def nearest_labelled(self, row: int) -> list[int]:
        """Return the labelled rows that are most like a row, the most alike first."""
        if self.prepared is None:
            return []
        if self._labelled[0] != self.state.seq:  # a page asks for many rows between two actions
            self._labelled = self.state.seq, np.array([*self.labels()], dtype=np.int64)
        labelled = self._labelled[1][self._labelled[1] != row]
        if not len(labelled):
            return []
        near = self.prepared.directions[labelled] @ self.prepared.directions[row]
        return labelled[np.argsort(-near, kind="stable")[:N_NEIGHBORS]].tolist()

    def _teach(self) -> None:
        """Ask the learner for a model after each batch of labels, and when people pause."""
        self._learner.start()
        while True:
            with self.lock:
                self._wake.wait_for(lambda: self._closed or self._is_due(), timeout=0.5)
                if self._closed:
                    return
                if not self._is_due():
                    continue
                labels = self._to_learn()
                self._asked, self._is_wanted = len(labels.labels), False
                self._learnt, self._seq_asked = labels.labels, self.state.seq
                self.change += 1
            self._learner.learn(labels)

    def _is_due(self) -> bool:
        if self._asked is not None or (self.prepared is None and self.error is None):
            return False
        if self._is_wanted:
            return True
        if self.state.seq == self._seq_asked:
            return False
        labels = self.labels()
        before = self._learnt
        changed = sum(before.get(row) != label for row, label in labels.items()) + len(before.keys() - labels.keys())
        if not changed:
            return False
        return changed >= BATCH or time.monotonic() - self._last_action >= PAUSE_SECONDS

    def _to_learn(self) -> Learn:
        votes, labels = self.state.votes, self.labels()
        audited = [row for row in labels if votes.final[row].source == "random"]
        return Learn(labels, audited, [*votes.skipped, *(votes.final.keys() - labels.keys())])

    def _on_message(self, message: Message) -> None:
        with self.lock:
            if self._closed:
                return
            self.change += 1
            match message:
                case Prepared():
                    self.prepared, self.error = message, None
                    self.queue.unreadable = set(message.unreadable)
                    if not self.queue.suggested:  # else they are those of a model, from before a restart
                        self.queue.suggested = message.suggested
                case Mapped():
                    self.mapped = message
                case Suggested():
                    self._asked, self.error = None, None
                    self.fitted, self.queue.suggested = None, message.suggested
                case Fitted():
                    self._asked, self.error = None, None
                    self.fitted, self.queue.suggested = message, message.suggested
                    self.version += 1
                    self._measure(message)
                case Failed():
                    self._asked, self.error = None, message.error
            suggested = self.queue.suggested
            self._wake.notify_all()
        if isinstance(message, Prepared | Suggested | Fitted):
            with suppress(OSError):  # they can be computed again
                self.project.save_queue(suggested)

    def _measure(self, fitted: Fitted) -> None:
        """Keep a point of the curve in the log; one that cannot be written now is not needed."""
        found = fitted.measured
        if found is None:
            return
        point = Measured(fitted.n_labels, found.accuracy, found.low, found.high, found.n)
        if self.state.curve and self.state.curve[-1] == point:
            return
        try:
            self._log(point, user=SERVER)
        except OSError as error:
            self.error = str(error)

    def _outcome(self, action: Action, user: str) -> Outcome:
        """Say what an action is about to do."""
        what, how = action, ""
        if isinstance(action, Undo):
            what, how = self.state.to_undo(user) or action, "undone: "
        elif isinstance(action, Redo):
            what, how = self.state.to_redo(user) or action, "done again: "
        return Outcome(0, getattr(what, "row", None), how + describe_action(what, self.id_of))
