"""Who may ask what: the address, the token, the origin and the size of requests, before anything else is done."""

import ipaddress
import json
import secrets
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

MAX_BODY = 2**20
TOKEN_HEADER = b"x-angpn-token"
LOOPBACK = ("127.0.0.1", "localhost", "::1")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Guard:
    """ASGI middleware that answers requests that are not allowed, and adds headers to all answers.

    A page of another site may make the browser send requests here. It does not know the token; its Origin is another
    one; and where a name of its own is made to point here (DNS rebinding), the Host is that name.

    Args:
        app: What answers requests that are allowed.
        token: What the address of the page holds.
        host: The address that the server is bound to.
        frame: Whether any page may show this one in a frame, as notebooks do.
    """

    def __init__(self, app: App, *, token: str, host: str, frame: bool = False) -> None:
        self._app, self._token, self._host = app, token, host.lower()
        # Asked once, since the answer may take seconds where no name server is near.
        names = () if self._host in LOOPBACK else (socket.gethostname().lower(), socket.getfqdn().lower())
        self._names = {*LOOPBACK, self._host, *names}
        ancestors = "*" if frame else "'none'"
        policy = (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
            f"base-uri 'none'; form-action 'none'; frame-ancestors {ancestors}"
        )
        self._headers = [
            (b"content-security-policy", policy.encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"no-referrer"),
            (b"cache-control", b"no-store"),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                own = list(message.get("headers", []))
                named = {name for name, _ in own}
                message["headers"] = [*own, *(header for header in self._headers if header[0] not in named)]
            await send(message)

        refused = self._refusal(scope)
        if refused is None and scope["method"] == "POST":
            body = await _read_body(receive)
            if body is None:
                refused = 413, f"a request must have at most {MAX_BODY} bytes, got more; choose fewer rows at once"
            else:
                receive = _replay(body, receive)
        if refused is not None:
            await _answer(send_with_headers, *refused)
            return
        await self._app(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Return status and reason if a request is not allowed."""
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1")
        if not self._is_own_host(host):
            return 400, "the address must be the one that angpn annotate printed, got another host; use that one"
        origin = headers.get(b"origin")
        if scope["method"] == "POST" and origin is not None and _netloc(origin.decode("latin-1")) != host:
            return 403, "a request must come from the page itself, got another origin; reload the page"
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return 405, "the method must be GET or POST, got another one"
        path = scope["path"]
        if not path.startswith("/static/"):
            query = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0]
            given = headers.get(TOKEN_HEADER, query.encode("utf-8", "surrogateescape"))
            if not secrets.compare_digest(given, self._token.encode()):
                return 403, "the address must hold the token that angpn annotate printed, got none or another; use it"
        return None

    def _is_own_host(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:  # brackets without an address
            return False
        if name in self._names:
            return True
        if self._host in LOOPBACK:
            return False
        try:
            ipaddress.ip_address(name)  # a name may be made to point here, a number cannot
        except ValueError:
            return False
        return True


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


async def _read_body(receive: Receive) -> bytes | None:
    """Return the body of a request, or None if it is too large."""
    parts, size = [], 0
    while True:
        message = await receive()
        part = message.get("body", b"")
        size += len(part)
        if size > MAX_BODY:
            return None
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a body that was read before, and then whatever comes."""
    given = False

    async def again() -> MutableMapping[str, Any]:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _answer(send: Send, status: int, reason: str) -> None:
    body = json.dumps({"error": reason}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
