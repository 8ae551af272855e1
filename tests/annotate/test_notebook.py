"""``angpn.annotate`` from Python: the same server beside your code, and the labels when asked."""

import io
import json
import urllib.request

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

import angpn


@pytest.fixture
def rows():
    return load_digits(n_class=2, return_X_y=True)


def post(annotation, row, name):
    base, token = annotation.address.split("/?token=")
    body = {"client": "page", "id": f"{row}", "action": {"type": "label", "row": row, "name": name}}
    request = urllib.request.Request(f"{base}/api/actions", json.dumps(body).encode(), {"X-Angpn-Token": token})
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert "frame-ancestors *" in answer.headers["content-security-policy"]
        return json.loads(answer.read())


@pytest.mark.slow
def test_labels_come_back_and_the_same_call_goes_on(rows, tmp_path):
    X, truth = rows
    with angpn.annotate(X, texts=[f"text {row}" for row in range(len(X))], output=tmp_path / "out") as annotation:
        for row in range(20):
            state = post(annotation, row, f"digit {truth[row]}")["state"]
        assert state["kind"] == "texts"
        assert annotation._repr_html_().startswith('<iframe src="http://127.0.0.1:')
        assert annotation.labels[:20].tolist() == [f"digit {label}" for label in truth[:20]]
        assert not annotation.labels[20:].any()
        assert annotation.labelled_at_random.dtype == bool
        assert annotation.export().missing is None
    assert (tmp_path / "out" / "predictions.csv").exists()
    images = np.uint8(X.reshape(-1, 8, 8) * 15)
    with angpn.annotate(X, images=images, output=tmp_path / "out") as again:
        assert (again.labels != np.array(None)).sum() == 20
        with urllib.request.urlopen(again.address.replace("/?", "/api/image/3?"), timeout=60) as answer:
            assert np.array_equal(np.asarray(Image.open(io.BytesIO(answer.read())).convert("L")), images[3])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ids": ["a"]}, "ids must be one for each of the 360 rows, got 1; pass as many"),
        ({"ids": ["a"] * 360}, "ids must name each row once, got 'a' twice"),
        ({"texts": ["a"]}, "texts must be one for each of the 360 rows, got 1; pass as many"),
    ],
)
def test_what_cannot_be_used_says_why(rows, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        angpn.annotate(rows[0], output=tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_without_the_extra_it_says_what_to_install(rows, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "uvicorn", None)
    with pytest.raises(
        ImportError, match=r'this needs uvicorn, which is not installed; pip install "angpn\[annotate\]"'
    ):
        angpn.annotate(rows[0])
