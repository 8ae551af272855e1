"""Who may ask what: token, Host, Origin, sizes, paths, headers."""

import pytest
from starlette.testclient import TestClient

from angpn.annotation.security import MAX_BODY, Guard

ACTION = {"client": "c", "id": "i", "action": {"type": "add_class", "name": "cat"}}


@pytest.fixture
def stranger(annotation):
    """Somebody who does not know the token."""
    return TestClient(annotation.app, base_url="http://127.0.0.1")


@pytest.mark.parametrize("path", ["/", "/api/state", "/api/image/1", "/api/events", "/api/nothing"])
def test_without_the_token_nothing_is_told(stranger, path):
    for answer in (stranger.get(path), stranger.get(path, params={"token": "gu\u20ac\U0001f600ss"})):
        assert answer.status_code == 403
        assert "the address must hold the token that angpn annotate printed" in answer.json()["error"]


def test_without_the_token_nothing_is_done(annotation, stranger):
    assert stranger.post("/api/actions", json=ACTION).status_code == 403
    assert annotation.session.state.seq == 0


def test_the_token_may_be_in_the_query_and_files_of_the_page_need_none(annotation, stranger):
    assert stranger.get("/api/image/1", params={"token": annotation.token}).status_code == 200
    assert stranger.get("/static/base.css").status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "192.168.0.7", "[::1", "[x]", ""]
)
def test_another_host_is_refused_as_a_name_may_be_made_to_point_here(annotation, host):
    answer = annotation.client.get("/api/state", headers={"Host": host})
    assert answer.status_code == 400
    assert "the address must be the one that angpn annotate printed" in answer.json()["error"]


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:1", "[::1]:5"])
def test_names_of_this_machine_are_hosts(annotation, host):
    assert annotation.client.get("/api/state", headers={"Host": host}).status_code == 200


def test_a_server_for_other_machines_takes_their_numbers_and_no_foreign_name(annotation):
    app = Guard(annotation.server._routes.app(), token=annotation.token, host="0.0.0.0")
    client = TestClient(app, headers={"X-Angpn-Token": annotation.token})
    assert client.get("/api/state", headers={"Host": "192.168.0.7:8000"}).status_code == 200
    assert client.get("/api/state", headers={"Host": "evil.example:8000"}).status_code == 400


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1.evil.org", "http://["]
)
def test_a_post_of_another_origin_is_refused(annotation, origin):
    answer = annotation.client.post("/api/actions", json=ACTION, headers={"Origin": origin})
    assert answer.status_code == 403
    assert "a request must come from the page itself" in answer.json()["error"]
    assert annotation.session.state.seq == 0


def test_a_post_of_the_same_origin_is_taken(annotation):
    answer = annotation.client.post("/api/actions", json=ACTION, headers={"Origin": "http://127.0.0.1"})
    assert answer.status_code == 200


def test_a_request_that_is_too_large_is_refused_whatever_length_it_claims(annotation):
    for body in (b"x" * (MAX_BODY + 1), (b"x" * 2**16 for _ in range(20))):
        answer = annotation.client.post("/api/actions", content=body)
        assert answer.status_code == 413
        assert "a request must have at most 1048576 bytes" in answer.json()["error"]


@pytest.mark.parametrize(
    "path",
    ["/static/../server.py", "/static/..%2fserver.py", "/static/%2e%2e/actions.py", "/static//etc/passwd", "/static/"],
)
def test_paths_lead_nowhere_else(annotation, path):
    answer = annotation.client.get(path)
    assert answer.status_code == 404
    assert "import" not in answer.text


@pytest.mark.parametrize("path", ["/", "/api/state", "/static/base.css", "/api/nothing"])
def test_every_answer_forbids_foreign_content(annotation, path):
    headers = annotation.client.get(path).headers
    policy = headers["content-security-policy"]
    assert policy == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_only_notebooks_show_the_page_in_a_frame(annotation):
    app = Guard(annotation.server._routes.app(), token=annotation.token, host="127.0.0.1", frame=True)
    client = TestClient(app, base_url="http://127.0.0.1", headers={"X-Angpn-Token": annotation.token})
    assert client.get("/api/state").headers["content-security-policy"].endswith("frame-ancestors *")


def test_other_methods_are_refused(annotation):
    assert annotation.client.delete("/api/state").status_code == 405


def test_the_token_and_the_address_are_for_the_owner_alone(annotation):
    folder = annotation.session.project.folder / "annotate"
    assert {(folder / name).stat().st_mode & 0o777 for name in ("token", "lock", "log.jsonl")} == {0o600}
