"""The file format itself: what is no whole file of a kind is refused in one line that names it."""

import json
import struct
from typing import Annotated

import numpy as np
import pytest
from msgspec import Meta
from safetensors.numpy import save_file

from angpn.utils.array_checks import check_arrays, floats
from angpn.utils.container import read_contents, write_contents
from angpn.utils.schema import Saved
from saved_files import SavedFile, read_saved, write_saved


class Header(Saved):
    seed: Annotated[int, Meta(ge=0, le=10)]
    scale: float = 1.0


GOOD = SavedFile("model", 3, {"seed": 3, "scale": 0.5}, {"x": np.arange(4.0)})


def restore(header, arrays):
    check_arrays(arrays, {"x": floats("n", low=0)})
    return header, arrays


def read(path):
    return read_contents(path, "model", Header, restore)


def refusal(path):
    with pytest.raises(ValueError, match="must") as caught:
        read(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    assert len(message) < 1000
    return message


def test_what_is_written_is_read(tmp_path):
    write_contents(tmp_path / "f", "model", Header(seed=3, scale=0.5), GOOD.arrays)
    header, arrays = read(tmp_path / "f")
    assert header == Header(seed=3, scale=0.5)
    np.testing.assert_array_equal(arrays["x"], GOOD.arrays["x"])
    again = read_saved(tmp_path / "f")
    assert again[:3] == GOOD[:3]
    assert read(write_saved(tmp_path / "g", GOOD))[0] == header  # the tests' own writer writes such files too


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Input data was truncated"),
        ("nonsense", "JSON is malformed"),
        ("{}", "missing required field `seed`"),
        ("[]", "Expected `object`, got `array`"),
        ('{"seed": "3"}', "Expected `int`, got `str` - at `$.seed`"),
        ('{"seed": 11}', "Expected `int` <= 10 - at `$.seed`"),
        ('{"seed": -1}', "Expected `int` >= 0 - at `$.seed`"),
        ('{"seed": 1e3}', "at `$.seed`"),
        ('{"seed": true}', "Expected `int`, got `bool` - at `$.seed`"),
        ('{"seed": 123456789012345678901234567890}', "Expected `int` <= 10 - at `$.seed`"),
        ('{"seed": 1, "scale": 1e999}', "Number out of range - at `$.scale`"),
        ('{"seed": 1, "scale": NaN}', "JSON is malformed"),
        ('{"seed": 1, "more": 2}', "unknown field `more`"),
        ('{"seed": 1, "more\\n\\u001b": 2}', "unknown field"),
        ("[" * 100_000, "Expected `object`, got `array`"),
        ('{"more": ' + "[" * 100_000 + "]" * 100_000 + "}", "unknown field `more`"),
    ],
)
def test_a_header_that_is_not_as_declared_is_refused(tmp_path, text, message):
    assert message in refusal(write_saved(tmp_path / "f", GOOD, text))


def test_a_header_nested_too_deep_is_refused(tmp_path):
    path = write_saved(tmp_path / "f", GOOD, '{"value": ' + "[" * 100_000 + "]" * 100_000 + "}")
    with pytest.raises(ValueError, match="maximum recursion depth exceeded"):
        read_contents(path, "model", dict, restore)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "the array 'x' is missing"),
        ({"x": np.arange(4.0), "y": np.arange(4.0)}, "an array 'y' that does not belong there"),
        ({"x": np.array([1.0, np.nan])}, "'x' has values from nan to nan"),
        ({"x": np.array([1, 2])}, "'x' is int64 of shape (2,) and not float32 or float64 of shape (n)"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_by_the_name_of_the_file(tmp_path, arrays, message):
    found = refusal(write_saved(tmp_path / "f", GOOD._replace(arrays=arrays)))
    assert message in found
    assert "must hold a model as angpn writes it, got parts that do not fit together" in found


def raw_file(path, entries, body=b""):
    """Write a file whose safetensors header is whatever is given."""
    header = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + body)
    return path


def stamp(**changes):
    stamped = {"angpn": "model", "format": "3", "header": "{}", "sha256": "0"} | changes
    return {"__metadata__": {name: value for name, value in stamped.items() if value is not None}}


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (stamp(header=None), "got one without a header"),
        (stamp(sha256=None), "contents that do not match its digest"),
        (stamp(format=None), "must have a format up to 3, got format None"),
        (stamp(format="0"), "got format '0'"),
        (stamp(format="three"), "got format 'three'"),
        (stamp(angpn="encoder\nof rows"), r"got one of kind 'encoder\nof rows'; name another"),
        (stamp(header=5), "cannot be read"),
        (stamp() | {"x": {"dtype": "BF16", "shape": [0], "data_offsets": [0, 0]}}, "do not match its digest"),
        (stamp() | {"x": {"dtype": "F64", "shape": [0, 2**62], "data_offsets": [0, 0]}}, "must be"),
        (stamp() | {"x": {"dtype": "F64", "shape": [2**62, 2**62], "data_offsets": [0, 0]}}, "cannot be read"),
        (stamp() | {"x": {"dtype": "F64", "shape": [2**40], "data_offsets": [0, 2**43]}}, "cannot be read"),
        (b"\xff\xfe{}", "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        ({"__metadata__": {"other": "x"}}, "a safetensors file of something else"),
    ],
)
def test_a_stamp_that_is_none_is_refused(tmp_path, entries, message):
    assert message in refusal(raw_file(tmp_path / "f", entries))


def test_arrays_that_share_their_bytes_or_leave_some_out_are_refused(tmp_path):
    """They would take more memory than the file has."""
    shared = {f"x{number}": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]} for number in range(1000)}
    assert "cannot be read" in refusal(raw_file(tmp_path / "f", stamp() | shared, bytes(8)))
    apart = {"x": {"dtype": "F64", "shape": [1], "data_offsets": [8, 16]}}
    assert "cannot be read" in refusal(raw_file(tmp_path / "f", stamp() | apart, bytes(16)))


def test_a_length_beyond_the_file_is_refused(tmp_path):
    (tmp_path / "f").write_bytes(struct.pack("<Q", 2**62) + b"{}")
    assert "cannot be read" in refusal(tmp_path / "f")
    (tmp_path / "f").write_bytes(b"")
    assert "cannot be read" in refusal(tmp_path / "f")
    with pytest.raises(FileNotFoundError, match="got none there"):
        read(tmp_path / "none")


def test_what_could_not_be_read_is_not_written(tmp_path):
    write_contents(tmp_path / "f", "model", Header(seed=3), GOOD.arrays)
    before = (tmp_path / "f").read_bytes()
    for header in (Header(seed=11), Header(seed=1, scale=float("nan")), Header(seed="3")):
        with pytest.raises(ValueError, match="Expected"):
            write_contents(tmp_path / "f", "model", header, GOOD.arrays)
    assert (tmp_path / "f").read_bytes() == before


def test_each_format_has_its_schema(tmp_path):
    class Old(Saved):
        number: int

    path = write_saved(tmp_path / "f", GOOD._replace(format=2, header={"number": 7}))
    found, _ = read_contents(path, "model", {2: Old, 3: Header}, restore)
    assert found == Old(number=7)
    assert "unknown field `number`" in refusal(path)


def test_a_folder_is_refused_and_the_file_inside_is_named(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "broken.angpn").write_text("no such file")
    write_saved(tmp_path / "model" / "a.angpn", GOOD._replace(kind="encoder"))
    with pytest.raises(IsADirectoryError, match="must be an angpn model file, got a folder; name a file"):
        read(tmp_path)
    inside = write_saved(tmp_path / "model" / "b.angpn", GOOD)
    for folder in (tmp_path, tmp_path / "model"):
        with pytest.raises(IsADirectoryError) as caught:
            read(folder)
        assert str(caught.value) == f"{folder} must be an angpn model file, got a folder; pass {inside}"


def test_another_file_of_tensors_is_refused(tmp_path):
    save_file({"x": np.ones(2)}, tmp_path / "f")
    assert "a safetensors file of something else" in refusal(tmp_path / "f")
