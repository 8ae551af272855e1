"""A server that answers the page's requests from a dictionary: for tests of the page alone, in any state wanted."""

import base64
import io
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from urllib.parse import parse_qs, urlsplit

import numpy as np
from PIL import Image

from angpn.inspection.page_parts import shared_files

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
TYPES = {
    "js": "text/javascript",
    "css": "text/css",
    "html": "text/html",
    "json": "application/json",
    "png": "image/png",
}
KEYS = "123456789qwetyiopafhjkbvz"
AUDIT = 3  # every so many rows


class FakeProject:
    """Rows, classes and labels in memory; ``overrides`` replaces parts of the state that the page is told."""

    def __init__(self, contents, classes=(), ids=None, **overrides):
        self.contents, self.overrides = contents, overrides
        self.ids = ids or [f"row {number}" for number in range(len(contents))]
        self.classes = list(classes)
        self.labels, self.actions, self.answers, self.votes = {}, [], {}, {}
        self.undone, self.broken, self.lock = [], None, threading.Lock()
        rng = np.random.default_rng(0)
        self.truth = np.arange(len(contents)) % max(1, len(self.classes))
        angle = 2 * np.pi * self.truth / max(1, len(self.classes))
        self.places = np.column_stack([np.cos(angle), np.sin(angle)]) * 0.35 + 0.5
        self.places += rng.normal(scale=0.04, size=self.places.shape)

    def state(self):
        count = {name: list(self.labels.values()).count(name) for name in self.classes}
        labelled = sum(count.values())
        return {
            "seq": len(self.answers), "kind": "texts", "title": "fake", "n_rows": len(self.contents), "user": "anna",
            "project": "fake", "target": None, "shared": False,
            "classes": [
                {"id": number, "name": name, "key": KEYS[number] if number < len(KEYS) else None, "count": count[name]}
                for number, name in enumerate(self.classes)
            ],
            "counts": {"labelled": labelled, "other": 0, "skipped": 0, "audit": 0, "left": len(self.contents)},
            "model": {"version": 1, "fitting": False, "labels": 20, "seconds": 0.1, "error": None, "ready": True,
                      "mapped": True},
            "estimate": None, "undo": "the last label" if self.actions else None,
            "redo": "it again" if self.undone else None, "suspects": 0, "disagreements": 0,
        } | self.overrides  # fmt: skip

    def row(self, number, neighbors=True):
        label = self.labels.get(number)
        audit = number % AUDIT == AUDIT - 1
        guess = None
        if self.classes and not (audit and label is None):
            guess = {"name": self.classes[self.truth[number]], "confidence": 0.81, "second": self.classes[-1]}
        near = [n for n in (number + 1, number + 2) if n < len(self.contents)] if neighbors and guess else []
        return {
            "row": number, "id": self.ids[number], "content": self.contents[number],
            "label": None if label in ("other", "skip") else label,
            "other": label == "other", "skipped": label == "skip",
            "audit": audit, "guess": guess, "reason": "audit: the guess is hidden" if audit else "typical of many rows",
            "votes": self.votes.get(number, {}),
            "neighbors": [
                {"row": n, "id": self.ids[n], "label": self.classes[0], "content": self.contents[n]} for n in near
            ],
        }  # fmt: skip

    def read(self, path, query):
        unlabelled = [n for n in range(len(self.contents)) if n not in self.labels]
        plain = lambda rows: [self.row(n, neighbors=False) for n in rows]  # noqa: E731
        match path.removeprefix("/api/").split("/"):
            case ["state"]:
                return self.state()
            case ["next"]:
                return {"rows": [self.row(n) for n in unlabelled[: int(query["count"])]]}
            case ["rows"]:
                return {"rows": plain(int(n) for n in query["rows"].split(","))}
            case ["rows", number]:
                return self.row(int(number))
            case ["grid"]:
                number = self.classes.index(query["class"]) if "class" in query else int(query["cluster"])
                rows = [n for n in unlabelled if self.truth[n] == number and n % AUDIT != AUDIT - 1]
                return {"total": len(rows), "rows": plain(rows[: int(query["count"])])}
            case ["clusters"]:
                size = len(self.contents) // 2
                return {"clusters": [{"number": n, "size": size, "name": None, "typical": [0]} for n in range(2)]}
            case ["map"]:
                pack = lambda values, kind: base64.b64encode(np.asarray(values, dtype=kind).tobytes()).decode()  # noqa: E731
                place = {name: number for number, name in enumerate(self.classes)}
                code = [place.get(self.labels.get(n), self.truth[n]) for n in range(len(self.contents))]
                state = [int(n in self.labels) for n in range(len(self.contents))]
                x, y = self.places.T
                return {
                    "version": 1, "x": pack(x, "<f4"), "y": pack(y, "<f4"), "code": pack(code, "u1"),
                    "state": pack(state, "u1"), "names": self.classes,
                }  # fmt: skip
            case ["search"]:
                rows = [n for n, name in enumerate(self.ids) if query["q"].lower() in name.lower()]
                return {"total": len(rows), "rows": plain(rows[:60])}
            case ["suspects" | "disagreements" as kind]:
                return {"rows": [self.row(n) for n in range(self.state()[kind])]}
        raise KeyError(path)

    def act(self, body):
        if body["id"] in self.answers:
            return self.answers[body["id"]]
        action, row = body["action"], None
        match action:
            case {"type": "undo"}:
                row = self.actions[-1].get("row")
                self.undone.append(self.actions.pop())
                for undone in self.undone[-1].get("rows", [row]):
                    self.labels.pop(undone, None)
            case {"type": "add_class", "name": name}:
                self.classes.append(name)
            case {"type": "label_many", "rows": rows, "name": name}:
                self.labels |= dict.fromkeys(rows, name)
            case {"type": "label" | "settle", "row": row, "name": name}:
                self.labels[row] = name or "other"
            case {"type": "other" | "skip" as kind, "row": row}:
                self.labels[row] = kind
            case {"type": "clear", "row": row}:
                self.labels.pop(row, None)
        if action["type"] not in ("undo", "redo"):
            self.actions.append(action)
        answer = {"seq": len(self.answers) + 1, "undo": None, "row": row, "state": self.state()}
        self.answers[body["id"]] = answer
        return answer


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, body, kind="json", status=200):
        data = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{TYPES[kind]}; charset=utf-8" if kind != "png" else TYPES[kind])
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Content-Security-Policy", POLICY)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        project, url = self.server.project, urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        if url.path == "/":
            self.answer(_page_files()["index.html"], "html")
        elif url.path.startswith("/static/"):
            name = url.path.removeprefix("/static/")
            self.answer(_page_files()[name], name.rpartition(".")[2])
        elif url.path == "/api/events":  # an open stream without events: the page reads the state from its answers
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(b": open\n\n")
            self.wfile.flush()
            self.server.closing.wait()
            self.close_connection = True
        elif url.path.startswith("/api/image/"):
            self.answer(_picture(int(url.path.rpartition("/")[2])), "png")
        else:
            with project.lock:
                self.answer(project.read(url.path, query))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        project = self.server.project
        if project.broken is not None:
            self.answer({"error": project.broken}, status=507)
        elif self.path == "/api/export":
            self.answer({"files": ["labels.csv", "predictions.csv"], "folder": "out"})
        else:
            with project.lock:
                self.answer(project.act(body))


def _page_files():
    own = {path.name: path.read_text(encoding="utf-8") for path in files("angpn.annotation").joinpath("page").iterdir()}
    return own | shared_files()


def _picture(number):
    pixels = np.random.default_rng(number).integers(0, 255, (8, 8), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format="PNG")
    return file.getvalue()


class FakeServer:
    """Serves a project on a free port until it is stopped; ``start`` again takes the same port."""

    def __init__(self, project):
        self.project, self.port = project, 0
        self.start()

    def start(self):
        ThreadingHTTPServer.allow_reuse_address = True
        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), _Handler)
        self.server.daemon_threads = True
        self.server.project, self.server.closing = self.project, threading.Event()
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self):
        self.server.closing.set()
        self.server.shutdown()
        self.server.server_close()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}/?token=secret"
