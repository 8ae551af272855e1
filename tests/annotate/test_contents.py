"""What rows show: images, texts, cells and numbers, and what is said where a file is gone or hostile."""

import io

import numpy as np
import polars
import pytest
import scipy.sparse
from PIL import Image

from angpn.annotation.actions import ActionError
from angpn.annotation.contents import MAX_TEXT, Contents
from angpn.labelling.input_rows import Rows


@pytest.fixture
def images(tmp_path):
    """A folder with a wide image, one that its EXIF tag turns, and one that is none."""
    Image.new("RGB", (40, 20), "red").save(tmp_path / "a.png")
    turned = Image.Exif()
    turned[0x0112] = 6
    Image.new("RGB", (40, 20), "blue").save(tmp_path / "b.jpg", exif=turned)
    (tmp_path / "c.png").write_bytes(b"no image")
    files = [tmp_path / name for name in ("a.png", "b.jpg", "c.png")]
    return Contents(Rows("images", [file.name for file in files], files, None))


def test_an_image_is_told_by_its_number_with_the_size_it_will_have(images):
    assert images.of(0) == {"kind": "image", "url": "/api/image/0", "width": 40, "height": 20}
    assert (images.of(1)["width"], images.of(1)["height"]) == (20, 40)
    content, media_type = images.image(1, None)
    assert media_type == "image/png"
    assert Image.open(io.BytesIO(content)).size == (20, 40)


def test_a_thumbnail_has_at_most_the_pixels_that_were_asked_for(images):
    assert Image.open(io.BytesIO(images.image(0, 16)[0])).size == (16, 8)


def test_a_file_that_is_no_image_or_gone_is_told_by_its_id_and_not_by_its_path(images, tmp_path):
    missing = images.of(2)
    assert missing["kind"] == "missing"
    assert "c.png must be an image that can be read" in missing["error"]
    assert str(tmp_path) not in missing["error"]
    with pytest.raises(ActionError, match=r"^c.png must be an image that can be decoded"):
        images.image(2, 100)
    (tmp_path / "a.png").unlink()
    assert "a.png must be an image that can be read, got No such file" in images.of(0)["error"]
    with pytest.raises(FileNotFoundError, match=r"^a.png must be a file that can be read, got No such file"):
        images.image(0, 100)


def test_an_image_bomb_is_refused(tmp_path):
    Image.new("1", (1200, 1200)).save(tmp_path / "bomb.png")
    contents = Contents(Rows("images", ["bomb.png"], [tmp_path / "bomb.png"], None), max_pixels=1_000_000)
    with pytest.raises(ActionError, match="bomb.png must have at most 1,000,000 pixels, got 1200 x 1200"):
        contents.image(0, None)
    assert "bomb.png must have at most 1,000,000 pixels, got 1200 x 1200" in contents.of(0)["error"]


def test_a_large_image_is_sent_as_jpeg_of_bounded_size(tmp_path):
    noise = np.random.default_rng(0).integers(0, 255, (600, 3000, 3)).astype(np.uint8)
    Image.fromarray(noise).save(tmp_path / "large.png")
    contents = Contents(Rows("images", ["large.png"], [tmp_path / "large.png"], None))
    content, media_type = contents.image(0, None)
    assert media_type == "image/jpeg"
    assert max(Image.open(io.BytesIO(content)).size) <= 2048


def test_a_long_text_is_cut():
    contents = Contents(Rows("text", ["0", "1"], ["short", "x" * (MAX_TEXT + 5)], None))
    assert contents.kind == "texts"
    assert contents.of(0) == {"kind": "text", "text": "short"}
    assert contents.of(1)["cut"]
    assert len(contents.of(1)["text"]) == MAX_TEXT


def test_cells_of_a_table():
    frame = polars.DataFrame({"price": [1.5, None], "brand": ["Acme", "Bolt"]})
    contents = Contents(Rows("table", ["a", "b"], frame, None))
    assert contents.of(1) == {"kind": "cells", "cells": [["price", ""], ["brand", "Bolt"]]}
    assert contents.search("ACME") == [0]
    assert contents.search("1.5") == [0]
    assert contents.search("b") == [1]  # an id, and a brand


def test_columns_beside_texts_and_images_are_shown_and_searched(images):
    frame = polars.DataFrame({"price": [1.5, None], "brand": ["Acme", "Bolt"]})
    contents = Contents(Rows("text", ["a", "b"], ["short", "long"], None, columns=frame))
    assert contents.of(1) == {"kind": "text", "text": "long", "cells": [["price", ""], ["brand", "Bolt"]]}
    assert contents.search("acme") == contents.search("short") == [0]
    pictures = Contents(images.rows._replace(columns=polars.DataFrame({"weight": [3, 4, 5]})))
    assert (pictures.of(0)["kind"], pictures.of(0)["cells"]) == ("image", [["weight", "3"]])
    assert (pictures.of(2)["kind"], pictures.of(2)["cells"]) == ("missing", [["weight", "5"]])
    assert pictures.search("4") == [1]


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
def test_numbers_of_an_array(kind):
    matrix = np.array([[1.0, 0.0, 2.0], [0.0, np.inf, 0.0]])
    contents = Contents(Rows("array", ["0", "1"], kind(matrix), None))
    assert contents.of(0) == {"kind": "array", "values": [1.0, 0.0, 2.0], "image": None}
    assert contents.of(1)["values"] == [0.0, None, 0.0]
    with pytest.raises(FileNotFoundError, match="rows must have images to be shown, got none"):
        contents.image(0, None)


def test_texts_beside_an_array_are_shown_and_searched():
    contents = Contents(Rows("array", ["0", "1"], np.eye(2), None), texts=["One", "Two"])
    assert contents.kind == "texts"
    assert contents.of(1) == {"kind": "text", "text": "Two"}
    assert contents.search("ONE") == [0]


@pytest.mark.parametrize(("what", "given"), [("images", np.zeros((3, 4, 4), np.uint8)), ("texts", ["a", "b", "c"])])
def test_as_many_images_and_texts_as_rows(what, given):
    with pytest.raises(ValueError, match=f"{what} must be one for each of the 2 rows, got 3; pass as many"):
        Contents(Rows("array", ["0", "1"], np.eye(2), None), **{what: given})
