"""What people said of the rows, and what follows from it for each row."""

from collections import Counter
from typing import Any, NamedTuple

from angpn.annotation.actions import IMPORTED

OTHER = -1  # the row belongs to none of the classes
RANDOM = "random"  # the source of a label whose row was drawn at random, as label files have it


class Decision(NamedTuple):
    """What is known of a row that somebody labelled.

    Attributes:
        label: The number of its class, OTHER, or None while people disagree.
        source: How it was chosen: "random" for an audit, "suggested", "grid", "map", or what a file says.
    """

    label: int | None
    source: str


class Votes:
    """Labels of rows by user.

    Attributes:
        of_row: The label of each row by user.
        final: What follows for each row that has a label.
        skipped: Rows that were left out of the queue.
        audited: Rows that were drawn at random, and labelled without a guess in sight.
        skipped_audits: How many rows that were drawn at random nobody labelled.
    """

    def __init__(self) -> None:
        self.of_row: dict[int, dict[str, int]] = {}
        self.final: dict[int, Decision] = {}
        self._settled: dict[int, int] = {}
        self._sources: dict[int, str] = {}
        self._skipped: set[int] = set()
        self._audited: set[int] = set()
        self._skipped_audits: set[int] = set()
        self.counts: Counter[int | None] = Counter()  # of rows by their label
        self.n_one_by_one = 0  # rows that were labelled one at a time
        self.n_audited = 0  # of these, drawn at random

    def give(self, row: int, user: str, label: int, source: str, *, audit: bool = False) -> None:
        """Count the label that a user gives a row, in the place of an earlier one."""
        if audit:
            self._audited.add(row)
        self.of_row.setdefault(row, {})[user] = label
        self._settled.pop(row, None)
        if row not in self._sources or user != IMPORTED:
            self._sources[row] = RANDOM if row in self._audited else source
        self._decide(row)

    def settle(self, row: int, label: int) -> None:
        """Decide a row whatever users said."""
        self.of_row.setdefault(row, {})
        self._settled[row] = label
        self._sources.setdefault(row, "suggested")
        self._decide(row)

    def skip(self, row: int, *, audit: bool = False) -> None:
        """Leave a row out of the queue."""
        self._skipped.add(row)
        if audit:
            self._skipped_audits.add(row)

    def clear(self, row: int, user: str) -> None:
        """Take back what a user, a file or a decision says of a row."""
        votes = self.of_row.get(row, {})
        votes.pop(user, None)
        votes.pop(IMPORTED, None)
        self._settled.pop(row, None)
        self._skipped.discard(row)
        self._skipped_audits.discard(row)
        if not votes:
            self.of_row.pop(row, None)
            self._sources.pop(row, None)
            self._audited.discard(row)
        self._decide(row)

    def merge(self, label: int, into: int) -> None:
        """Give the rows of a class to another."""
        for row, votes in self.of_row.items():
            if label in votes.values() or self._settled.get(row) == label:
                self.of_row[row] = {user: into if vote == label else vote for user, vote in votes.items()}
                if self._settled.get(row) == label:
                    self._settled[row] = into
                self._decide(row)

    def _decide(self, row: int) -> None:
        before = self.final.pop(row, None)
        if before is not None:
            self._count(before, -1)
        if row in self.of_row:
            decision = Decision(self._label(row), self._sources[row])
            self.final[row] = decision
            self._count(decision, 1)

    def _label(self, row: int) -> int | None:
        """Return what was settled, or what most people say: as many for another label is a disagreement."""
        if row in self._settled:
            return self._settled[row]
        votes = self.people(row)
        (best, count), *others = Counter(votes.values()).most_common(2)
        return best if not others or others[0][1] < count else None

    def _count(self, decision: Decision, by: int) -> None:
        self.counts[decision.label] += by
        self.n_one_by_one += by * (decision.source in ("suggested", RANDOM))
        self.n_audited += by * (decision.source == RANDOM)

    def people(self, row: int) -> dict[str, int]:
        """Return the labels of a row by user; that of a file only where nobody else gave one."""
        votes = self.of_row.get(row, {})
        return {user: vote for user, vote in votes.items() if user != IMPORTED} or votes

    @property
    def skipped(self) -> set[int]:
        """Rows that were left out of the queue, and that nobody labelled."""
        return self._skipped - self.final.keys()

    @property
    def n_skipped_audits(self) -> int:
        """How many rows that were drawn at random nobody labelled."""
        return len(self._skipped_audits - self.final.keys())

    @property
    def disputed(self) -> list[int]:
        """Rows that people label differently."""
        return sorted(row for row, decision in self.final.items() if decision.label is None)

    def is_open(self, row: int) -> bool:
        """Whether nothing was said of a row."""
        return row not in self.final and row not in self._skipped

    def snapshot(self) -> dict[str, Any]:
        """Return all that is known, to compare it."""
        return {
            "of_row": self.of_row,
            "final": self.final,
            "skipped": sorted(self.skipped),
            "audited": sorted(self._audited),
            "counts": {label: count for label, count in self.counts.items() if count},
            "one_by_one": self.n_one_by_one,
            "n_audited": self.n_audited,
            "skipped_audits": self.n_skipped_audits,
        }
