import base64
import io

import numpy as np
import pytest
from PIL import Image

from angpn.inspection.thumbnails import ArrayThumbnails, limit_thumbnails


def pixels(uri):
    kind, _, content = uri.partition(",")
    assert kind == "data:image/jpeg;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(content)))).astype(int)


def test_numbers_are_scaled_from_the_smallest_to_the_largest_of_all_images():
    images = np.zeros((2, 8, 8))
    images[0], images[1, :, 4:] = -1, 3
    first, second = map(pixels, ArrayThumbnails(images))
    assert first.shape == (32, 32, 3)
    assert first.max() < 10
    assert np.abs(second[:, 2:12] - 64).max() < 15
    assert second[:, 20:].min() > 240


def test_bytes_stay_as_they_are_and_large_images_are_shrunk():
    image = np.full((1, 300, 200, 3), (200, 100, 50), dtype=np.uint8)
    (found,) = map(pixels, ArrayThumbnails(image))
    assert found.shape[0] == 64
    assert np.abs(found - [200, 100, 50]).max() < 10
    assert pixels(ArrayThumbnails(np.full((1, 40, 40), 7, dtype=np.uint8))[0]).max() < 12


def test_equal_numbers_are_black():
    assert pixels(ArrayThumbnails(np.full((1, 8, 8), 5.0))[0]).max() < 5


@pytest.mark.parametrize("shape", [(5, 8), (5, 3, 8, 8), (0, 8, 8), (5, 0, 8)])
def test_other_shapes_are_refused(shape):
    with pytest.raises(ValueError, match=r"images must have shape \(n, h, w, 3\) or, grey, \(n, h, w\), got"):
        ArrayThumbnails(np.zeros(shape))


@pytest.mark.parametrize("images", [np.full((1, 4, 4), np.nan), np.full((1, 4, 4), "a")])
def test_other_values_are_refused(images):
    with pytest.raises(ValueError, match="images must be finite numbers, got .*; replace NaN and infinity"):
        ArrayThumbnails(images)


def test_listed_rows_come_first_where_a_page_has_no_room_for_all(monkeypatch):
    monkeypatch.setattr("angpn.inspection.thumbnails._MAX_THUMBNAILS", 3)
    found = limit_thumbnails(list("abcdef"), [5, 0], seed=0)
    assert (found[0], found[5], sum(each is not None for each in found)) == ("a", "f", 3)
    assert limit_thumbnails(list("abc"), [], seed=0) == list("abc")
    assert limit_thumbnails(None, [], seed=0) is None
