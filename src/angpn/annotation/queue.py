"""Which rows to label next: audits, drawn at random, among what the model wants to know."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from angpn.annotation.votes import Votes

LEASE_SECONDS = 120.0
FIRST = 20  # rows without audits, which find the classes: what no model predicts needs no audit
WINDOW = 10  # audit rows that are drawn ahead, so that several people get others
AUDIT_REASON = "audit: the guess is hidden"


class Wanted(NamedTuple):
    """A row to label, and why."""

    row: int
    reason: str


class Queue:
    """The order of the rows, and which page has which.

    All rows are in one random order. Audits are the first of it that nothing was said of, so they are a random sample
    of the rows that were left at the time, whoever asks, and after a restart the same. Their guesses are hidden.

    Before the learner has suggested any, other rows come in the random order, too. They are no audits: a page fetches
    rows ahead, so some of them are labelled when guesses can be seen, and the share of audits stays as it was asked.

    Args:
        n_rows: How many rows there are.
        audit: The share of rows that are audits.
        seed: Seed of the random order.
        clock: What tells the time in seconds.
    """

    def __init__(self, n_rows: int, audit: float, seed: int, clock: Callable[[], float] = time.monotonic) -> None:
        if not 0 <= audit < 1:
            raise ValueError(f"--audit must lie between 0 and 1, got {audit}; 0.2 makes one row in five an audit")
        self.audit = audit
        self._order = np.random.default_rng(seed).permutation(n_rows).tolist()
        self._clock = clock
        self._leases: dict[int, tuple[str, float]] = {}
        self.suggested: Sequence[Wanted] = ()  # by the learner, best first
        self.unreadable: set[int] = set()

    def pending_audits(self, votes: Votes) -> list[int]:
        """Return the rows that are the next audits."""
        return [] if self.audit == 0 else list(_first(WINDOW, self._open(votes)))

    def _open(self, votes: Votes) -> Iterator[int]:
        """Go through the rows of which nothing was said, in the random order."""
        for row in self._order:
            if votes.is_open(row) and row not in self.unreadable:
                yield row

    def next(self, votes: Votes, client: str, count: int) -> list[Wanted]:
        """Return the next rows for a page, best first, and lease them to it."""
        now = self._clock()
        self._leases = {row: lease for row, lease in self._leases.items() if lease[1] > now and votes.is_open(row)}
        taken = {row for row, (other, _) in self._leases.items() if other != client}
        window = self.pending_audits(votes)
        hidden = set(window)
        audits = iter([Wanted(row, AUDIT_REASON) for row in window if row not in taken])
        chosen = self._chosen(votes, taken | hidden)
        found: list[Wanted] = []
        n_labelled, n_audited = votes.n_one_by_one, votes.n_audited
        while len(found) < count:
            is_audit = n_audited + 1 <= self.audit * (n_labelled + 1 - FIRST)
            first, then = (audits, chosen) if is_audit else (chosen, audits)
            wanted = next(first, None) or next(then, None)
            if wanted is None:
                break
            found.append(wanted)
            n_labelled, n_audited = n_labelled + 1, n_audited + is_audit
        for row, _ in found:
            self._leases[row] = client, now + LEASE_SECONDS
        return found

    def _chosen(self, votes: Votes, left_out: set[int]) -> Iterator[Wanted]:
        """Go through what the model wants to know, and then through all others."""
        given = set[int]()
        left_out = left_out | self.unreadable
        for wanted in self.suggested:
            if wanted.row not in left_out and votes.is_open(wanted.row):
                given.add(wanted.row)
                yield wanted
        for row in self._open(votes):
            if row not in left_out and row not in given:
                yield Wanted(row, "not looked at yet")


def _first(count: int, rows: Iterable[int]) -> Iterator[int]:
    for _, row in zip(range(count), rows, strict=False):
        yield row
