"""What a person may do, as the page posts it and as the log keeps it."""

from typing import Literal

from msgspec import Struct, ValidationError, json, structs

IMPORTED = "(imported)"  # who gave labels that came from a file: any person's label of the row counts instead
SERVER = "(server)"  # who wrote what nobody did
MAX_NAME = 200  # characters of the name of a class, a user, a client or an action
_NO_CLASS = {"-1", "nan", "NaN", "NaT", "<NA>"}  # which label files take for a missing label


class ActionError(ValueError):
    """An action that cannot be done; nothing was changed."""


class Label(Struct, frozen=True, tag="label", forbid_unknown_fields=True):
    """Give a row a class; one that is not there yet is created."""

    row: int
    name: str


class LabelMany(Struct, frozen=True, tag="label_many", forbid_unknown_fields=True, rename={"source": "from"}):
    """Give many rows a class, chosen in the grid or on the map."""

    rows: list[int]
    name: str
    source: Literal["grid", "map"] = "grid"


class Other(Struct, frozen=True, tag="other", forbid_unknown_fields=True):
    """Say that a row belongs to none of the classes."""

    row: int


class Skip(Struct, frozen=True, tag="skip", forbid_unknown_fields=True):
    """Leave a row out of the queue."""

    row: int


class Clear(Struct, frozen=True, tag="clear", forbid_unknown_fields=True):
    """Take back what was said of a row."""

    row: int


class AddClass(Struct, frozen=True, tag="add_class", forbid_unknown_fields=True):
    """Create a class."""

    name: str


class RenameClass(Struct, frozen=True, tag="rename_class", forbid_unknown_fields=True):
    """Give a class another name."""

    name: str
    to: str


class MergeClass(Struct, frozen=True, tag="merge_class", forbid_unknown_fields=True):
    """Give the rows of a class to another one."""

    name: str
    into: str


class Settle(Struct, frozen=True, tag="settle", forbid_unknown_fields=True):
    """Decide a row that users labelled differently; without a name it belongs to none of the classes."""

    row: int
    name: str | None


class Confirm(Struct, frozen=True, tag="confirm", forbid_unknown_fields=True):
    """Say that a suspected label is right as it is."""

    row: int


class Undo(Struct, frozen=True, tag="undo", forbid_unknown_fields=True):
    """Undo the last action of this user that is not undone."""


class Redo(Struct, frozen=True, tag="redo", forbid_unknown_fields=True):
    """Do again what this user undid last."""


class Import(Struct, frozen=True, tag="import", forbid_unknown_fields=True):
    """Labels from files, by the server; a file is known by the digest of its content."""

    digest: str
    labels: list[tuple[int, str, str]] = []  # row, class, source
    other: list[int] = []
    skipped: list[int] = []


class Measured(Struct, frozen=True, tag="measured", forbid_unknown_fields=True):
    """A point of the accuracy curve, by the server."""

    labels: int
    accuracy: float
    low: float
    high: float
    n: int


PageAction = (
    Label | LabelMany | Other | Skip | Clear | AddClass | RenameClass | MergeClass | Settle | Confirm | Undo | Redo
)
Action = PageAction | Import | Measured


class Post(Struct, frozen=True, forbid_unknown_fields=True):
    """What a page posts: ``id`` is its own name of the action, by which a retry is recognised."""

    client: str
    id: str
    action: PageAction
    user: str | None = None


class Entry(Struct, frozen=True, forbid_unknown_fields=True):
    """A line of the log.

    Attributes:
        seq: Its number, from 1.
        time: When it was written, UTC.
        user: Who did it.
        client: The page that posted it.
        id: The page's name of the action.
        action: What was done.
        audit: Whether it is about a row that was drawn at random, whose guess was hidden.
    """

    seq: int
    time: str
    user: str
    client: str
    id: str
    action: Action
    audit: bool = False


def decode_post(body: bytes) -> Post:
    """Return what a page posted.

    Raises:
        ActionError: If it is not JSON, or not an action that is known.
    """
    try:
        post = json.decode(body, type=Post)
    except (ValidationError, ValueError) as error:
        raise ActionError(f"the body must be an action as JSON, got another: {error}; reload the page") from None
    for what, value in (("client", post.client), ("id", post.id)):
        check_name(value, f"the {what}")
    if post.user is not None:
        post = structs.replace(post, user=check_name(post.user, "the user"))
    if post.user in (IMPORTED, SERVER):
        raise ActionError(f"the user must be a person, got {post.user!r}; choose another name")
    return post


def check_name(name: str, what: str) -> str:
    """Return a name without spaces around it, if it can be shown and kept in a file.

    Raises:
        ActionError: If it is empty, too long or holds control characters.
    """
    name = name.strip()
    if not 0 < len(name) <= MAX_NAME:
        raise ActionError(f"{what} must have 1 to {MAX_NAME} characters, got {len(name)}; choose another")
    if not name.isprintable():
        raise ActionError(f"{what} must have printable characters only, got {name!r}; choose another")
    return name


def check_class(name: str) -> str:
    """Return the name of a class without spaces around it.

    Raises:
        ActionError: If it cannot be one, or label files would take it for a missing label.
    """
    name = check_name(name, "the name of a class")
    if name in _NO_CLASS:
        raise ActionError(f"the name of a class must not mean a missing label, got {name!r}; choose another")
    return name
