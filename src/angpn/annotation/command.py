"""Serve an annotation until it is stopped, and write its results."""

import asyncio
import contextlib
import getpass
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from angpn.annotation.actions import check_name
from angpn.annotation.contents import Contents
from angpn.annotation.export import export_apart
from angpn.annotation.label_import import read_imports
from angpn.annotation.project import Project
from angpn.annotation.results import Results, write_results
from angpn.annotation.security import LOOPBACK, Guard
from angpn.annotation.server import Routes
from angpn.annotation.session import Session
from angpn.annotation.state import AnnotationState
from angpn.labelling.input_options import InputOptions
from angpn.labelling.input_rows import Rows
from angpn.labelling.output_folder import check_output_folder, recover_output

_SHUTDOWN_SECONDS = 2


@dataclass(frozen=True, kw_only=True)
class AnnotationOptions:
    """Options of an annotation, beside those of its input.

    Attributes:
        output: The folder of the project, which holds its results as well.
        labels: Files of labels to begin with, see :func:`~angpn.annotation.label_import.read_import`.
        images: Images of rows that are arrays.
        texts: Texts of rows that are arrays.
        user: Who labels where a page does not say; None is the name of the login.
        target: The accuracy that is wanted, or None.
        audit: The share of rows that are audits.
        host: The address to bind to; others than loopback let other machines in.
        port: The port; 0 picks a free one.
        frame: Whether any page may show this one in a frame.
        in_memory: Whether no other process can read the rows.
    """

    output: Path
    labels: Sequence[Path] = ()
    images: Any = None
    texts: Any = None
    user: str | None = None
    target: float | None = None
    audit: float = 0.2
    host: str = "127.0.0.1"
    port: int = 0
    frame: bool = False
    in_memory: bool = False


class AnnotationServer:
    """An annotation that is served to browsers.

    Args:
        input_options: Options of the input.
        rows: Its rows.
        options: Options of the annotation.

    Attributes:
        address: Where the page is, with its token.
        session: The annotation.

    Raises:
        ValueError: If the input, the labels or the folder cannot be used.
        OSError: If the folder or the port cannot be used.
    """

    def __init__(self, input_options: InputOptions, rows: Rows, options: AnnotationOptions) -> None:
        recover_output(options.output)
        check_output_folder(options.output)
        user = check_name(options.user if options.user is not None else _login(), "--user")
        imports = read_imports(options.labels, rows)  # errors come before anything is written
        Contents(rows, images=options.images, texts=options.texts, max_pixels=input_options.max_pixels)
        self._project = Project(options.output)
        try:
            rows = self._project.open(input_options, rows)
            if rows.kind == "images":  # which may have other numbers in the project
                imports = read_imports(options.labels, rows)
            contents = Contents(rows, images=options.images, texts=options.texts, max_pixels=input_options.max_pixels)
            self.session = Session(
                self._project,
                input_options,
                rows,
                contents,
                user=user,
                target=options.target,
                audit=options.audit,
                shared=options.host not in LOOPBACK,
            )
            for one in imports:
                self.session.add_labels(one)
            self._socket = _bind(options.host, options.port)
            token = self._project.token()
            self.address = _address(options.host, self._socket.getsockname()[1], token)
            self._project.write_address(self.address)
        except BaseException:
            self._project.close()
            raise
        self._rows, self._options = rows, input_options
        self._exporting = threading.Lock()
        self._in_memory = options.in_memory
        self._routes = Routes(self.session, lambda: self._export().files)
        app = Guard(self._routes.app(), token=token, host=options.host, frame=options.frame)
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
        self._server = _Server(config)

    def serve(self, on_ready: Callable[[], object]) -> None:
        """Serve until SIGINT or SIGTERM comes, or :meth:`stop` is called.

        Args:
            on_ready: Called when the page can be opened.
        """
        self._server.on_ready = on_ready
        self.session.start()
        try:
            with _ending(self.stop):
                asyncio.run(self._server.serve(sockets=[self._socket]))
        finally:
            self.session.close()
            self._socket.close()

    def stop(self) -> None:
        """Let :meth:`serve` return; what is being answered is answered first."""
        self._routes.closing = True
        self._server.should_exit = True

    def write_results(self) -> Results:
        """Write what there is now, also while people go on."""
        with self._exporting:
            with self.session.lock:
                entries = list(self._project.log.entries)
            state = AnnotationState(len(self._rows.ids), entries)
            return write_results(state, self._options, self._rows, self._project.folder)

    def _export(self) -> Results:
        """Write what there is now while people label."""
        if self._in_memory:
            return self.write_results()
        with self._exporting:
            return export_apart(self._project.folder, self._options.encoder)

    def close(self) -> None:
        """Let others open the project."""
        self._project.close()


class _Server(uvicorn.Server):
    """A server that says when it is ready, and leaves signals to who runs it."""

    on_ready: Callable[[], object]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            self.on_ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.contextmanager
def _ending(stop: Callable[[], None]) -> Iterator[None]:
    """Call a function when SIGINT or SIGTERM comes; only the main thread gets them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda *_: stop()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _bind(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        number = getattr(error, "errno", None)
        reason = str(error) if number is None or number < 0 else os.strerror(number)  # below 0: the name is unknown
        raise OSError(
            f"{host} port {port} must be free to serve the page, got: {reason}; pass another --port, or 0 for any"
        ) from None


def _address(host: str, port: int, token: str) -> str:
    name = socket.gethostname() if host in ("0.0.0.0", "::", "") else f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/?token={token}"


def _login() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user without a name
        return "me"
