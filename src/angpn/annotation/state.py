"""The state of an annotation: what the log says, and nothing else."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from angpn.annotation.actions import (
    IMPORTED,
    Action,
    ActionError,
    AddClass,
    Clear,
    Confirm,
    Entry,
    Import,
    Label,
    LabelMany,
    Measured,
    MergeClass,
    Other,
    Redo,
    RenameClass,
    Settle,
    Skip,
    Undo,
    check_class,
)
from angpn.annotation.votes import OTHER, Votes

KEYS = "123456789qwetyiopafhjkbvz"  # that choose a class; other letters are commands of the page
_LATE_IDS = 10_000  # of classes whose name was that of another one before


class LabelClass(NamedTuple):
    """A class: its number stays when its name changes."""

    id: int
    name: str
    key: str | None


class AnnotationState:
    """Fold of the entries of a log that are not undone, in their order.

    Each user undoes own actions, the last one first, so the actions of one person are a stack. What another person did
    in between stays; a class that it needs is created again, and a change of a class that is no longer there is none.

    Args:
        n_rows: How many rows there are.
        entries: The log.

    Attributes:
        classes: The classes by their number, in the order of creation.
        votes: What was said of the rows.
        merged: Which class took over the rows of another, by number.
        confirmed: Rows whose label was suspected, and is right.
        curve: Accuracy as it was measured after each fit.
        seq: The number of the last entry.
    """

    def __init__(self, n_rows: int, entries: Iterable[Entry] = ()) -> None:
        self.n_rows = n_rows
        self.seq = 0
        self.curve: list[Measured] = []
        self._done: dict[str, list[int]] = {}
        self._undone: dict[str, list[int]] = {}
        self._ineffective: set[int] = set()
        self._entries: dict[int, Entry] = {}
        self._first_ids: dict[str, int] = {}
        self._of_page: dict[str, int] = {}
        self._clear()
        for entry in entries:
            self._record(entry)
        self._fold()

    def _clear(self) -> None:
        self.classes: dict[int, LabelClass] = {}
        self._numbers: dict[str, int] = {}  # of classes by name
        self.votes = Votes()
        self.merged: dict[int, int] = {}
        self.confirmed: set[int] = set()
        self.digests: set[str] = set()  # of files that were imported

    def apply(self, entry: Entry) -> None:
        """Take an entry that was just logged into account."""
        self._record(entry)
        if isinstance(entry.action, Undo | Redo):
            self._fold()
        else:
            self._do(entry)

    def _record(self, entry: Entry) -> None:
        """Keep an entry, and which ones it undoes."""
        self.seq = entry.seq
        action, user = entry.action, entry.user
        done, undone = self._done.setdefault(user, []), self._undone.setdefault(user, [])
        if entry.id:
            self._of_page[entry.id] = entry.seq
        if isinstance(action, Measured):
            self.curve.append(action)
        elif isinstance(action, Undo):
            if done:  # always so in a log that nobody took lines out of
                undone.append(done.pop())
                self._ineffective.add(undone[-1])
        elif isinstance(action, Redo):
            if undone:
                done.append(undone.pop())
                self._ineffective.discard(done[-1])
        else:
            self._entries[entry.seq] = entry
            for name in _new_names(action):
                self._first_ids.setdefault(name, len(self._first_ids))
            if not isinstance(action, Import):
                done.append(entry.seq)
                undone.clear()  # what was undone cannot come back after something else was done

    def _fold(self) -> None:
        self._clear()
        for seq, entry in self._entries.items():
            if seq not in self._ineffective:
                self._do(entry)

    def _do(self, entry: Entry) -> None:
        action, user = entry.action, entry.user
        match action:
            case Label():
                number = self._create(action.name, entry.seq)
                self.votes.give(action.row, user, number, "suggested", audit=entry.audit)
                self.confirmed.discard(action.row)
            case LabelMany():
                number = self._create(action.name, entry.seq)
                for row in action.rows:
                    self.votes.give(row, user, number, action.source)
                self.confirmed.difference_update(action.rows)
            case Other():
                self.votes.give(action.row, user, OTHER, "suggested", audit=entry.audit)
                self.confirmed.discard(action.row)
            case Skip():
                self.votes.skip(action.row, audit=entry.audit)
            case Clear():
                self.votes.clear(action.row, user)
                self.confirmed.discard(action.row)
            case AddClass():
                self._create(action.name, entry.seq)
            case RenameClass():
                self._rename(action.name, action.to)
            case MergeClass():
                self._merge(action.name, action.into)
            case Settle():
                self.votes.settle(action.row, OTHER if action.name is None else self._create(action.name, entry.seq))
            case Confirm():
                self.confirmed.add(action.row)
            case Import():
                self._import(action, entry.seq)

    def _import(self, action: Import, seq: int) -> None:
        self.digests.add(action.digest)
        for row, name, source in action.labels:
            self.votes.give(row, IMPORTED, self._create(name, seq), source)
        for row in action.other:
            self.votes.give(row, IMPORTED, OTHER, "")
        for row in action.skipped:
            self.votes.skip(row)

    def _create(self, name: str, seq: int) -> int:
        """Return the number of the class of that name, which is created where there is none."""
        if name in self._numbers:
            return self._numbers[name]
        number = self._first_ids[name]
        if number in self.classes or number in self.merged:  # that class has another name now
            number = _LATE_IDS + seq
        taken = {known.key for known in self.classes.values()}
        key = next((key for key in KEYS if key not in taken), None)
        self.classes[number] = LabelClass(number, name, key)
        self._numbers[name] = number
        return number

    def _rename(self, name: str, to: str) -> None:
        if name in self._numbers and to not in self._numbers:
            number = self._numbers[to] = self._numbers.pop(name)
            self.classes[number] = self.classes[number]._replace(name=to)

    def _merge(self, name: str, into: str) -> None:
        if name in self._numbers and into in self._numbers and name != into:
            number, other = self._numbers.pop(name), self._numbers[into]
            del self.classes[number]
            self.merged[number] = other
            self.votes.merge(number, other)

    def check(self, action: Action, user: str) -> Action:
        """Return the action with names in their final form, if it can be done now.

        Raises:
            ActionError: If it cannot, with the remedy.
        """
        self._check_rows(action)
        match action:
            case Undo():
                if not self._done.get(user):
                    raise ActionError(f"there must be something to undo, got no action of {user} that is left")
            case Redo():
                if not self._undone.get(user):
                    raise ActionError(f"there must be something undone, got none of {user} since the last action")
            case RenameClass():
                to = check_class(action.to)
                self._check_known(action.name)
                if to in self._numbers:
                    raise ActionError(f"the new name must be free, got {to!r}, a class of its own; merge them instead")
                return RenameClass(action.name, to)
            case MergeClass():
                self._check_known(action.name)
                self._check_known(action.into)
                if action.name == action.into:
                    raise ActionError(f"a class must be merged into another one, got {action.name!r} twice")
            case AddClass():
                name = check_class(action.name)
                if name in self._numbers:
                    raise ActionError(f"a new class must have a name of its own, got {name!r}, which is there; use it")
                return AddClass(name)
            case Label():
                return Label(action.row, check_class(action.name))
            case LabelMany():
                return LabelMany(sorted(set(action.rows)), check_class(action.name), action.source)
            case Settle():
                return Settle(action.row, None if action.name is None else check_class(action.name))
            case Confirm():
                if action.row not in self.votes.final:
                    raise ActionError(f"only a label can be confirmed, got row {action.row}, which has none")
        return action

    def _check_rows(self, action: Any) -> None:
        rows = getattr(action, "rows", None)
        if rows is not None and not rows:
            raise ActionError("some rows must be chosen, got none; choose a few")
        for row in rows if rows is not None else [getattr(action, "row", 0)]:
            if not 0 <= row < self.n_rows:
                raise ActionError(f"a row must lie between 0 and {self.n_rows - 1}, got {row}; reload the page")

    def _check_known(self, name: str) -> None:
        if name not in self._numbers:
            raise ActionError(f"there must be a class {name!r}, got none of that name; reload the page")

    def seq_of_page(self, id: str) -> int | None:
        """Return the number of the entry that a page has named so, or None."""
        return self._of_page.get(id)

    def class_of(self, number: int) -> LabelClass | None:
        """Return the class that has this number now, or that it was merged into; None where it was undone."""
        seen = 0
        while number in self.merged and number not in self.classes and seen <= len(self.merged):
            number, seen = self.merged[number], seen + 1
        return self.classes.get(number)

    def number_of(self, name: str) -> int | None:
        """Return the number of the class of that name, or None."""
        return self._numbers.get(name)

    def to_undo(self, user: str) -> Action | None:
        """Return what this user would undo."""
        done = self._done.get(user)
        return self._entries[done[-1]].action if done else None

    def to_redo(self, user: str) -> Action | None:
        """Return what this user would do again."""
        undone = self._undone.get(user)
        return self._entries[undone[-1]].action if undone else None

    def snapshot(self) -> dict[str, Any]:
        """Return all that the state says, to compare it."""
        return {
            "classes": list(self.classes.values()),
            "votes": self.votes.snapshot(),
            "merged": self.merged,
            "confirmed": sorted(self.confirmed),
            "curve": self.curve,
            "digests": sorted(self.digests),
        }


def _new_names(action: Action) -> list[str]:
    """Return the names of classes that an action may create."""
    if isinstance(action, Import):
        return [name for _, name, _ in action.labels]
    if isinstance(action, Label | LabelMany | AddClass | Settle) and action.name is not None:
        return [action.name]
    return []


def describe_action(action: Action, id_of: Callable[[int], str]) -> str:
    """Say in a few words what an action does, with rows named by their ids."""
    match action:
        case Label() | Settle():
            return f"label of row {id_of(action.row)}"
        case LabelMany():
            return f"label of {len(action.rows)} rows"
        case AddClass():
            return f"new class {action.name}"
        case RenameClass():
            return f"renaming {action.name} to {action.to}"
        case MergeClass():
            return f"merging {action.name} into {action.into}"
        case Other():
            return f"none of these for row {id_of(action.row)}"
        case Skip() | Clear() | Confirm():
            return f"{type(action).__name__.lower()} of row {id_of(action.row)}"
    return type(action).__name__.lower()
