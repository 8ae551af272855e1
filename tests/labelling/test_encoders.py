import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal

from angpn.labelling.encoder_choice import encoder_for
from angpn.labelling.encoders import ArrayEncoder, TextEncoder
from angpn.labelling.image_encoder import ImageEncoder
from angpn.labelling.input_rows import Rows


def reloaded(encoder):
    """Return the encoder after a round trip through its state."""
    return type(encoder).from_state(*encoder.to_state())


def test_arrays_are_unchanged_or_imputed():
    rows = np.array([[1, 2], [3, np.nan], [5, 6]], dtype=np.float32)
    with pytest.raises(ValueError, match="got 1 missing, the first in row 1; fill them, or pass --impute"):
        ArrayEncoder().fit_transform(rows)
    encoder = ArrayEncoder(impute=True)
    assert_array_equal(encoder.fit_transform(rows), [[1, 2], [3, 4], [5, 6]])
    assert_array_equal(reloaded(encoder).transform(rows[1:2]), [[3, 4]])
    assert encoder.fit_transform(np.array([[1, 2]])).dtype == np.float32
    sparse = scipy.sparse.csr_array(np.eye(3))
    assert ArrayEncoder().fit_transform(sparse) is sparse


def test_texts_are_encoded_alike_after_a_round_trip():
    encoder = TextEncoder()
    texts = ["red roses grow", "red tulips grow", "old cars", "new cars"]
    found = encoder.fit_transform(texts)
    assert_array_equal(reloaded(encoder).transform(texts).toarray(), found.toarray())


def test_an_unreadable_image_is_named_or_skipped(photos, tmp_path):
    folder, *_ = photos
    broken = tmp_path / "broken.png"
    broken.write_bytes((folder / "000.png").read_bytes()[:60])
    files = [folder / "000.png", broken, folder / "001.png"]
    with pytest.raises(ValueError, match=r"broken\.png must be an image .*, or pass --skip-bad"):
        ImageEncoder().fit_transform(files)
    encoder = ImageEncoder(skip_bad=True)
    found = encoder.fit_transform(files)
    assert_allclose(found, ImageEncoder().fit_transform([files[0], files[2]]), rtol=1e-4, atol=1e-5)
    assert list(encoder.unreadable) == [1]
    assert len(encoder.thumbnails) == 2
    assert encoder.thumbnails[0].startswith("data:image/jpeg;base64,")
    with pytest.raises(ValueError, match="at least one image must be readable, got 1 that are not"):
        ImageEncoder(skip_bad=True).fit_transform([broken])


def test_an_image_of_too_many_pixels_is_one_that_cannot_be_read(tmp_path):
    images = pytest.importorskip("PIL.Image", reason="reading images needs pip install angpn[images]")
    files = [tmp_path / "small.png", tmp_path / "large.png"]
    for path, size in zip(files, (10, 11), strict=True):
        images.new("RGB", (size, 10), "red").save(path)
    with pytest.raises(
        ValueError, match=r"large\.png must have at most 100 pixels, got 11 x 10; .*, or pass --skip-bad"
    ):
        ImageEncoder(max_pixels=100).fit_transform(files)
    encoder = encoder_for(Rows("images", ["a", "b"], files, None), max_pixels=100, skip_bad=True)
    assert len(encoder.fit_transform(files)) == 1
    assert list(encoder.unreadable) == [1]
    assert len(ImageEncoder(max_pixels=110).fit_transform(files)) == 2
