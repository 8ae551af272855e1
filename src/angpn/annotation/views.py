"""What the page is told, as plain values for JSON."""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np

from angpn.annotation.actions import Action, ActionError
from angpn.annotation.estimate import describe_estimate
from angpn.annotation.queue import AUDIT_REASON
from angpn.annotation.session import Session
from angpn.annotation.state import describe_action
from angpn.annotation.votes import OTHER, RANDOM
from angpn.utils.typing import Array

N_LISTED = 60  # rows that a list has at most
NO_CODE = 255  # of a row without a class on the map
OPEN, LABELLED, PUT_ASIDE, SKIPPED = range(4)  # states of a row on the map

Json = dict[str, Any]


class NotReadyError(RuntimeError):
    """Something that is still being computed."""


def state_view(session: Session, user: str | None = None) -> Json:
    """Return the state of an annotation, as a user sees it."""
    user = user or session.user
    with session.lock:
        state, votes = session.state, session.state.votes
        n_labelled, n_other = len(votes.final), votes.counts[OTHER]
        skipped = len(votes.skipped)
        return {
            "seq": state.seq,
            "project": session.name,
            "kind": session.contents.kind,
            "title": session.title,
            "n_rows": state.n_rows,
            "user": user,
            "shared": session.shared,
            "target": session.target,
            "classes": [{**one._asdict(), "count": votes.counts[one.id]} for one in state.classes.values()],
            "counts": {
                "labelled": n_labelled - n_other,
                "other": n_other,
                "skipped": skipped,
                "audit": votes.n_audited,
                "left": state.n_rows - n_labelled - skipped,
            },
            "model": {
                "version": session.version,
                "fitting": session.is_fitting,
                "ready": session.prepared is not None,
                "mapped": session.mapped is not None,
                "labels": 0 if session.fitted is None else session.fitted.n_labels,
                "seconds": 0.0 if session.fitted is None else round(session.fitted.seconds, 3),
                "error": session.error,
            },
            "estimate": _estimate(session),
            "undo": _described(session, state.to_undo(user)),
            "redo": _described(session, state.to_redo(user)),
            "suspects": len(suspect_rows(session)),
            "disagreements": votes.counts[None],
        }


def _described(session: Session, action: Action | None) -> str | None:
    return None if action is None else describe_action(action, session.id_of)


def _estimate(session: Session) -> Json | None:
    state, votes = session.state, session.state.votes
    n_other = sum(found.label == OTHER and found.source == RANDOM for found in votes.final.values())
    return describe_estimate(
        None if session.fitted is None else session.fitted.measured,
        state.curve,
        session.target,
        session.queue.audit,
        {number: one.name for number, one in state.classes.items()},
        votes.n_audited,
        n_other,
        votes.n_skipped_audits,
    )


def row_view(session: Session, row: int, *, reason: str | None = None, neighbors: bool = True) -> Json:
    """Return all that is shown of a row.

    Raises:
        ActionError: If there is no such row.
    """
    n_rows = len(session.contents)
    if not 0 <= row < n_rows:
        raise ActionError(f"a row must lie between 0 and {n_rows - 1}, got {row}; reload the page")
    with session.lock:
        votes = session.state.votes
        found = votes.final.get(row)
        hidden = row in session.hidden()
        guess = None if hidden else _guess(session, row)
        near = session.nearest_labelled(row) if neighbors and not hidden else []
        view: Json = {
            "row": row,
            "id": session.id_of(row),
            "content": None,
            "label": None if found is None else _name(session, found.label),
            "other": found is not None and found.label == OTHER,
            "skipped": row in votes.skipped,
            "audit": hidden or (found is not None and found.source == RANDOM),
            "disputed": found is not None and found.label is None,
            "guess": guess,
            "reason": AUDIT_REASON if hidden else reason,
            "votes": _votes(session, row),
        }
        labels = {other: _name(session, votes.final[other].label) for other in near}
    view["content"] = session.contents.of(row)  # may read a file, which others should not wait for
    if neighbors:
        view["neighbors"] = [
            {"row": other, "id": session.id_of(other), "label": labels[other], "content": session.contents.of(other)}
            for other in near
        ]
    return view


def _votes(session: Session, row: int) -> dict[str, str | None]:
    people = session.state.votes.people(row)
    if len(people) < 2:
        return {}
    return {user: _name(session, vote) for user, vote in people.items()}


def _name(session: Session, label: int | None) -> str | None:
    return None if label is None or label == OTHER else session.state.classes[label].name


def _guess(session: Session, row: int) -> Json | None:
    fitted = session.fitted
    if fitted is None or fitted.best[row] < 0:
        return None
    best, second = (session.state.class_of(fitted.classes[place[row]]) for place in (fitted.best, fitted.second))
    if best is None:  # its creation was undone since
        return None
    return {
        "name": best.name,
        "confidence": round(float(fitted.confidence[row]), 4),
        "second": None if second is None or second.id == best.id else second.name,
    }


def list_view(session: Session, rows: Sequence[int], *, neighbors: bool = False) -> Json:
    """Return rows as a list, and how many there are."""
    return {
        "total": len(rows),
        "rows": [row_view(session, row, neighbors=neighbors) for row in rows[:N_LISTED]],
    }


def next_view(session: Session, client: str, count: int) -> Json:
    """Return the rows to label next."""
    wanted = session.next(client, count)
    return {"rows": [row_view(session, one.row, reason=one.reason) for one in wanted]}


def suspect_rows(session: Session) -> list[int]:
    """Return rows whose label is probably wrong, as long as nobody said that it is right or changed it."""
    if session.fitted is None:
        return []
    with session.lock:
        state = session.state
        rows = []
        for row, better in session.fitted.suspects:
            found, suggested = state.votes.final.get(row), state.class_of(better)
            if found is None or found.label is None or row in state.confirmed or suggested is None:
                continue
            if found.label not in (OTHER, suggested.id):
                rows.append(row)
        return rows


def grid_rows(session: Session, name: str | None, cluster: int | None, order: str) -> list[int]:
    """Return open rows that are predicted to be of a class, or are in a cluster; surest or most doubtful first.

    Raises:
        NotReadyError: If there are no clusters yet.
        ActionError: If there is no such cluster.
    """
    with session.lock:
        votes, hidden, fitted = session.state.votes, session.hidden(), session.fitted
        if cluster is not None:
            clusters = _mapped(session).clusters
            if not 0 <= cluster < len(clusters):
                raise ActionError(f"the cluster must lie between 0 and {len(clusters) - 1}, got {cluster}; reload")
            rows = clusters[cluster].rows
            rows = [*reversed(rows)] if order == "doubtful" else rows
        elif fitted is None:
            rows = []
        else:
            numbers = [session.state.class_of(number) for number in fitted.classes]
            places = [place for place, one in enumerate(numbers) if one is not None and one.name == name]
            found = np.flatnonzero(np.isin(fitted.best, places))
            keys = fitted.confidence[found] * (1 if order == "doubtful" else -1)
            rows = found[np.argsort(keys, kind="stable")].tolist()
        return [row for row in rows if votes.is_open(row) and row not in hidden]


def grid_view(session: Session, rows: Sequence[int], offset: int, count: int) -> Json:
    """Return a page of the grid."""
    return {
        "total": len(rows),
        "rows": [row_view(session, row, neighbors=False) for row in rows[offset : offset + count]],
    }


def clusters_view(session: Session) -> Json:
    """Return the clusters, with rows that are typical of each."""
    with session.lock:
        found = _mapped(session).clusters
    return {
        "clusters": [
            {"number": number, "size": len(one.rows), "name": one.name, "typical": one.rows[:10]}
            for number, one in enumerate(found)
        ]
    }


def map_view(session: Session) -> Json:
    """Return the place of each row, its class and its state."""
    with session.lock:
        positions = _mapped(session).positions
        state, votes = session.state, session.state.votes
        names = [one.name for one in state.classes.values()]
        codes = {number: min(code, NO_CODE) for code, number in enumerate(state.classes)}
        code = np.full(state.n_rows, NO_CODE, np.uint8)
        kind = np.zeros(state.n_rows, np.uint8)
        if session.fitted is not None:
            classes = [state.class_of(number) for number in session.fitted.classes]
            of_place = [NO_CODE if one is None else codes[one.id] for one in classes]
            code = np.array([*of_place, NO_CODE], np.uint8)[session.fitted.best]  # the last one for -1
            code[[*session.hidden()]] = NO_CODE
        for row, found in votes.final.items():
            code[row] = NO_CODE if found.label is None else codes.get(found.label, NO_CODE)
            kind[row] = PUT_ASIDE if found.label == OTHER else LABELLED
        kind[[*votes.skipped]] = SKIPPED
        version = session.version
    x, y = (packed(positions[:, axis], "<f4") for axis in (0, 1))
    return {"version": version, "x": x, "y": y, "code": packed(code, "u1"), "state": packed(kind, "u1"), "names": names}


def _mapped(session: Session) -> Any:
    if session.mapped is None:
        reason = session.error or "it takes a few seconds after the start"
        raise NotReadyError(f"map and clusters must be computed first, got none yet: {reason}; try again soon")
    return session.mapped


def packed(values: Array, dtype: str) -> str:
    """Return the bytes of an array in base64."""
    return base64.b64encode(np.ascontiguousarray(values, dtype=dtype).tobytes()).decode()
