"""Annotations of a few digits, with the real application around them and the learner in the same process."""

import itertools

import numpy as np
import pytest
from sklearn.datasets import load_digits
from starlette.testclient import TestClient

from angpn.annotation.command import AnnotationOptions, AnnotationServer
from angpn.annotation.learning import RowLearner
from angpn.annotation.messages import Begin
from angpn.annotation.security import Guard
from angpn.labelling.input_options import InputOptions

N_ROWS = 150


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    """An array of digits of three classes, its images, and the truth."""
    found = load_digits(n_class=3)
    folder = tmp_path_factory.mktemp("digits")
    np.save(folder / "digits.npy", found.data[:N_ROWS])
    np.save(folder / "images.npy", np.uint8(255 - found.images[:N_ROWS] * 255 / 16))
    return folder / "digits.npy", folder / "images.npy", [f"digit {label}" for label in found.target[:N_ROWS]]


class Annotation:
    """A server without a socket's clients: requests go straight to its application."""

    def __init__(self, server, options):
        self.server, self.session, self.input_options = server, server.session, options
        self.token = server.address.split("token=")[1]
        self.app = Guard(server._routes.app(), token=self.token, host="127.0.0.1")
        self.client = TestClient(self.app, base_url="http://127.0.0.1", headers={"X-Angpn-Token": self.token})
        self._ids = itertools.count()

    def get(self, path, **query):
        answer = self.client.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, kind, *, user=None, id=None, client="page", **fields):
        """Post an action and return the answer, whatever its status."""
        body = {"client": client, "user": user, "id": id or f"id{next(self._ids)}", "action": {"type": kind, **fields}}
        return self.client.post("/api/actions", json=body)

    def act(self, kind, **fields):
        answer = self.post(kind, **fields)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def learn(self):
        """Do what the learner's process does, here and now."""
        session = self.session
        if not hasattr(self, "_learner"):
            self._learner = RowLearner(Begin(self.input_options, session.contents.rows))
            session._on_message(self._learner.prepared())
            session._on_message(self._learner.mapped())
        session._on_message(self._learner.learn(session._to_learn()))

    def label(self, truth, count, **fields):
        """Label the next rows by the truth."""
        for _ in range(count):
            (row,) = self.get("/api/next", client="page", count=1)["rows"]
            self.act("label", row=row["row"], name=truth[row["row"]], **fields)

    def close(self):
        self.session.close()
        self.server._socket.close()
        self.server.close()


@pytest.fixture
def annotate(tmp_path):
    """Return a function that opens an annotation; all are closed in the end."""
    opened = []

    def open_annotation(path, output=tmp_path / "out", input_options=None, **fields):
        options = InputOptions(input=path, skip_bad=True, **(input_options or {}))
        server = AnnotationServer(options, options.read(), AnnotationOptions(output=output, user="anna", **fields))
        opened.append(Annotation(server, options))
        return opened[-1]

    yield open_annotation
    for one in opened:
        one.close()


@pytest.fixture
def annotation(annotate, digits):
    """An annotation of digits, with nothing labelled."""
    return annotate(digits[0], images=np.load(digits[1]))
