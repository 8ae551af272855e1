"""The routes of the page: small functions that read a request, call the session, and answer as JSON."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from angpn.annotation.actions import ActionError, check_name, decode_post
from angpn.annotation.session import Session
from angpn.annotation.views import (
    N_LISTED,
    Json,
    NotReadyError,
    clusters_view,
    grid_rows,
    grid_view,
    list_view,
    map_view,
    next_view,
    row_view,
    state_view,
    suspect_rows,
)
from angpn.inspection.page_parts import shared_files

PAGE = Path(str(files("angpn.annotation"))) / "page"
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html"}
_POLL_SECONDS, _BEAT_SECONDS = 0.2, 15.0  # of events
_MOST_AT_ONCE = 200  # rows of one answer

Export = Callable[[], list[str]]  # writes the results and returns the names of their files


class Routes:
    """Answers to requests.

    Args:
        session: The annotation.
        export: Writes the results.

    Attributes:
        closing: Whether streams of events are to end.
    """

    def __init__(self, session: Session, export: Export) -> None:
        self._session, self._export = session, export
        self.closing = False

    def app(self) -> Starlette:
        """Return the application without its guard."""
        reads: dict[str, Callable[[Request], Any]] = {
            "/api/state": lambda request: state_view(self._session, _user(request)),
            "/api/next": self._next,
            "/api/rows": self._rows,
            "/api/rows/{row}": lambda request: row_view(self._session, _number(request.path_params["row"], "row")),
            "/api/grid": self._grid,
            "/api/clusters": lambda request: clusters_view(self._session),
            "/api/map": lambda request: map_view(self._session),
            "/api/search": self._search,
            "/api/suspects": lambda request: list_view(self._session, suspect_rows(self._session), neighbors=True),
            "/api/disagreements": self._disagreements,
            "/api/image/{row}": self._image,
        }
        writes: dict[str, Callable[[bytes], Json]] = {
            "/api/actions": self._act,
            "/api/export": self._write_results,
            "/api/refit": self._refit,
        }
        routes = [
            Route("/", _answered(lambda request: _page_file("index.html"))),
            Route("/static/{name}", _answered(lambda request: _page_file(request.path_params["name"]))),
            Route("/api/events", self._events),
            *(Route(path, _answered(read)) for path, read in reads.items()),
            *(Route(path, _posted(write), methods=["POST"]) for path, write in writes.items()),
        ]
        handlers: Any = {404: _not_found, 405: _not_found}
        return Starlette(routes=routes, exception_handlers=handlers)

    def _next(self, request: Request) -> Json:
        client = check_name(request.query_params.get("client", ""), "the client")
        count = min(_query_number(request, "count", 20), _MOST_AT_ONCE)
        return next_view(self._session, client, count)

    def _rows(self, request: Request) -> Json:
        names = [name for name in request.query_params.get("rows", "").split(",") if name]
        return list_view(self._session, [_number(name, "a row") for name in names])

    def _grid(self, request: Request) -> Json:
        query = request.query_params
        order = query.get("order", "sure")
        if order not in ("sure", "doubtful"):
            raise ActionError(f"the order must be sure or doubtful, got {order!r}; choose one")
        cluster = _query_number(request, "cluster", 0) if "cluster" in query else None
        rows = grid_rows(self._session, query.get("class"), cluster, order)
        count = min(_query_number(request, "count", N_LISTED), _MOST_AT_ONCE)
        return grid_view(self._session, rows, _query_number(request, "offset", 0), count)

    def _search(self, request: Request) -> Json:
        query = request.query_params.get("q", "").strip()
        return list_view(self._session, self._session.contents.search(query) if query else [])

    def _disagreements(self, request: Request) -> Json:
        with self._session.lock:
            rows = self._session.state.votes.disputed
        return list_view(self._session, rows, neighbors=True)

    def _image(self, request: Request) -> Response:
        row = _number(request.path_params["row"], "row")
        if not 0 <= row < len(self._session.contents):
            raise ActionError(f"a row must lie between 0 and {len(self._session.contents) - 1}, got {row}; reload")
        size = _query_number(request, "size", 0) or None
        content, media_type = self._session.contents.image(row, size)
        return Response(content, media_type=media_type, headers={"cache-control": "private, max-age=3600"})

    def _act(self, body: bytes) -> Json:
        post = decode_post(body)
        outcome = self._session.act(post)
        state = state_view(self._session, post.user)
        return {**outcome._asdict(), "undo": state["undo"], "state": state}

    def _write_results(self, body: bytes) -> Json:
        return {"files": self._export(), "folder": self._session.project.folder.name}

    def _refit(self, body: bytes) -> Json:
        self._session.ask_for_model()
        return {}

    async def _events(self, request: Request) -> Response:
        return StreamingResponse(self.events(), media_type="text/event-stream")

    async def events(self) -> AsyncIterator[bytes]:
        """Send an event whenever the log or the model changed, and a comment when nothing did for long."""
        seen, silent = -1, 0.0
        while not self.closing:
            if self._session.change != seen:
                seen, silent = self._session.change, 0.0
                event = {"seq": self._session.state.seq, "model": self._session.version}
                yield f"data: {json.dumps(event)}\n\n".encode()
            elif silent >= _BEAT_SECONDS:
                silent = 0.0
                yield b": still here\n\n"
            await asyncio.sleep(_POLL_SECONDS)
            silent += _POLL_SECONDS


def _answered(read: Callable[[Request], Any]) -> Any:
    """Return an endpoint that reads in a thread, and turns errors into answers."""

    async def endpoint(request: Request) -> Response:
        return await run_in_threadpool(_response, lambda: read(request))

    return endpoint


def _posted(write: Callable[[bytes], Json]) -> Any:
    async def endpoint(request: Request) -> Response:
        body = await request.body()
        return await run_in_threadpool(_response, lambda: write(body))

    return endpoint


def _response(answer: Callable[[], Any]) -> Response:
    try:
        found = answer()
    except FileNotFoundError as error:
        return _error(404, error)
    except ActionError as error:
        return _error(400, error)
    except NotReadyError as error:
        return _error(503, error)
    except (ValueError, OSError, RuntimeError, MemoryError) as error:  # of what could not be read, written or fitted
        return _error(500, error)
    return found if isinstance(found, Response) else JSONResponse(found)


def _error(status: int, error: object) -> Response:
    return JSONResponse({"error": " ".join(str(error).split()) or type(error).__name__}, status_code=status)


async def _not_found(request: Request, error: Exception) -> Response:
    return _error(404, "the address must be one of the page, got another; reload the page")


def _page_file(name: str) -> Response:
    """Return a file of the page; there are no others under this address."""
    known = {path.name: path for path in PAGE.iterdir() if path.suffix in _TYPES}
    shared = shared_files()
    if name not in known and name not in shared:
        raise FileNotFoundError(f"{name!r} must be a file of the page, got none; install angpn anew")
    content = known[name].read_text(encoding="utf-8") if name in known else shared[name]
    return Response(content, media_type=_TYPES[Path(name).suffix], headers={"cache-control": "no-cache"})


def _user(request: Request) -> str | None:
    user = request.query_params.get("user")
    return None if not user else check_name(user, "the user")


def _query_number(request: Request, name: str, default: int) -> int:
    return _number(request.query_params.get(name, str(default)), name)


def _number(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        raise ActionError(f"{what} must be a whole number >= 0, got {text[:40]!r}; reload the page")
    return int(text)
