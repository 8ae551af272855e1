"""Image files: what they decode to, whatever their format, and within which limits."""

import re
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from angpn.features import image_features, image_file
from angpn.features.image_file import read_image
from angpn.utils import memory

Image = pytest.importorskip("PIL.Image", reason="reading images needs pip install angpn[images]")
ImageOps = pytest.importorskip("PIL.ImageOps")


def smooth(height, width, channels=3):
    """An image without detail, which no way of shrinking changes much."""
    y, x = np.mgrid[:height, :width]
    waves = [np.sin(x / width * (2 + c)) * np.cos(y / height * (1 + c)) for c in range(channels)]
    return (127.5 + 120 * np.stack(waves, axis=2)).astype(np.uint8)


def whole(path):
    """The image decoded at full size."""
    with Image.open(path) as file:
        image = ImageOps.exif_transpose(file).convert("RGBA")
        return np.array(Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB"))


def zeros_png(path, width, height):
    """A black PNG that is a thousandth of the size of its pixels."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    packer, row = zlib.compressobj(1), bytes(width + 1)
    packed = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", packed) + chunk(b"IEND", b""))
    return path


def saved(path, image, **options):
    image.save(path, **options)
    return path


# Ordinary images


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr"])
@pytest.mark.parametrize("strip", [1, 100, 2**20])
def test_an_image_is_decoded_as_it_is_in_whatever_strips(tmp_path, monkeypatch, mode, strip):
    monkeypatch.setattr(image_file, "_STRIP", strip)
    suffix = {"CMYK": "tif", "YCbCr": "tif", "PA": "tif"}.get(mode, "png")
    path = saved(tmp_path / f"a.{suffix}", Image.fromarray(smooth(37, 23, 4), "RGBA").convert(mode))
    assert_array_equal(read_image(path), whole(path))


def test_a_transparent_colour_of_a_palette_is_white(tmp_path):
    image = Image.fromarray(smooth(20, 20)).convert("P", palette=Image.Palette.ADAPTIVE, colors=8)
    path = saved(tmp_path / "a.png", image, transparency=3)
    assert (np.asarray(image) == 3).any()
    assert (read_image(path)[np.asarray(image) == 3] == 255).all()
    assert_array_equal(read_image(path), whole(path))


@pytest.mark.parametrize("orientation", range(10))
@pytest.mark.parametrize("min_side", [1024, 10])
def test_a_photograph_is_turned_by_its_tag(tmp_path, orientation, min_side):
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = saved(tmp_path / "a.png", Image.fromarray(smooth(40, 60)), exif=exif)
    found, expected = read_image(path, min_side=min_side), whole(path)
    if min_side == 1024:
        assert_array_equal(found, expected)
    else:
        assert_array_equal(found, np.asarray(Image.fromarray(expected).reduce(4)))


def test_of_several_frames_the_first_is_read(tmp_path):
    frames = [Image.fromarray(smooth(20, 30)), Image.new("RGB", (30, 20), "red")]
    for suffix in ("gif", "tif", "webp"):
        path = saved(tmp_path / f"a.{suffix}", frames[0], save_all=True, append_images=frames[1:])
        assert_array_equal(read_image(path), whole(path))


# Large images


@pytest.mark.parametrize("suffix", ["png", "jpg", "webp", "tif", "bmp", "gif"])
def test_a_large_image_is_shrunk_by_a_whole_factor(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(image_file, "_STRIP", 2000)
    path = saved(tmp_path / f"a.{suffix}", Image.fromarray(smooth(333, 500)))
    expected = np.asarray(Image.fromarray(whole(path)).reduce(3))
    found = read_image(path, min_side=100)
    if suffix != "jpg":  # which decodes to a half, a quarter or an eighth: here to the half
        assert_array_equal(found, expected)
    else:
        assert found.shape == (167, 250, 3)
        assert_allclose(found, np.asarray(Image.fromarray(whole(path)).reduce(2)), atol=4)


def test_a_photograph_is_decoded_at_the_size_that_is_needed(tmp_path, monkeypatch):
    path, decoded = saved(tmp_path / "a.jpg", Image.fromarray(smooth(800, 1200))), []
    shrunk = image_file._shrunk
    monkeypatch.setattr(
        image_file, "_shrunk", lambda pil, image, factor: decoded.append(image.size) or shrunk(pil, image, factor)
    )
    assert read_image(path, min_side=100).shape == (100, 150, 3)
    assert read_image(path, min_side=399).shape == (400, 600, 3)
    assert read_image(path, min_side=401).shape == (800, 1200, 3)
    assert decoded == [(150, 100), (600, 400), (1200, 800)]


def test_a_long_image_is_shrunk_to_a_number_of_pixels(tmp_path, monkeypatch):
    monkeypatch.setattr(image_file, "_MAX_KEPT", 10_000)
    path = saved(tmp_path / "a.png", Image.fromarray(smooth(50, 2000)))
    assert read_image(path).shape == (13, 500, 3)  # by 4


def test_features_of_a_large_photograph_are_about_those_of_the_whole(tmp_path):
    """Shrinking first changes what the network sees by less than a shade in a hundred."""
    generator = np.random.default_rng(0)
    detail = generator.normal(scale=10, size=(2100, 3000, 1))
    picture = Image.fromarray(np.clip(smooth(2100, 3000) + detail, 0, 255).astype(np.uint8))
    path = saved(tmp_path / "a.jpg", picture, quality=90)
    found = image_features([path], model=torch.nn.Identity(), pooling="grid:96")
    expected = image_features(whole(path)[None], model=torch.nn.Identity(), pooling="grid:96")
    assert np.abs(found - expected).max() < 0.05  # of values from -2 to 2
    assert np.abs(found - expected).mean() < 0.01


# Limits


def test_an_image_of_too_many_pixels_is_refused(tmp_path):
    path = saved(tmp_path / "a.png", Image.fromarray(smooth(30, 40)))
    assert read_image(path, max_pixels=1200).shape == (30, 40, 3)
    message = f"{path} must have at most 1,199 pixels, got 40 x 30; shrink it, or raise max_pixels"
    with pytest.raises(ValueError, match=re.escape(message)):
        read_image(path, max_pixels=1199)
    with pytest.raises(ValueError, match=r"at most 500 pixels, got more than twice as many; shrink it"):
        read_image(path, max_pixels=500)
    with pytest.raises(ValueError, match="at most 500 pixels"):
        image_features(tmp_path, max_pixels=500)
    with pytest.raises(ValueError, match="max_pixels must be a whole number >= 1, got 0"):
        image_features(tmp_path, max_pixels=0)


def test_the_limit_of_pillow_is_left_as_it_was(tmp_path):
    before = Image.MAX_IMAGE_PIXELS
    read_image(saved(tmp_path / "a.png", Image.fromarray(smooth(30, 40))))
    (tmp_path / "b.png").write_text("no image")
    with pytest.raises(ValueError, match="cannot"):
        read_image(tmp_path / "b.png")
    assert before == Image.MAX_IMAGE_PIXELS


def test_an_image_that_does_not_fit_into_memory_is_refused(tmp_path, monkeypatch):
    path = saved(tmp_path / "a.png", Image.fromarray(smooth(30, 40)))
    monkeypatch.setattr(image_file, "available_bytes", lambda: 4799)
    with pytest.raises(ValueError, match=r"must fit into memory, got 40 x 30 pixels, which need 0.0 GB where 0.0 GB"):
        read_image(path)
    monkeypatch.setattr(image_file, "available_bytes", lambda: 4800)
    assert read_image(path).shape == (30, 40, 3)


def test_a_header_is_refused_before_anything_is_decoded(tmp_path):
    """A canvas of a GIF, the frames of which say more than the canvas, and a PNG of four thousand million pixels."""
    frame = b"," + struct.pack("<HHHHB", 0, 0, 60000, 60000, 0) + b"\x02\x02\x4c\x01\x00;"
    gif = tmp_path / "a.gif"
    gif.write_bytes(b"GIF89a" + struct.pack("<HHBBB", 10, 10, 0x80, 0, 0) + bytes(6) + frame)
    png = zeros_png(tmp_path / "a.png", 10, 10)
    content = bytearray(png.read_bytes())
    content[16:24] = struct.pack(">II", 2**16, 2**16)
    content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    png.write_bytes(content)
    for path in (gif, png):
        with pytest.raises(ValueError, match="must have at most 100,000,000 pixels, got more than twice as many"):
            read_image(path)


@pytest.mark.skipif(memory.peak_bytes() is None, reason="the system does not tell")
@pytest.mark.slow
def test_a_small_file_of_many_pixels_takes_no_more_than_they_do(tmp_path):
    """13,300 x 13,300 pixels, 0.2 MB of file: as RGBA, twice, and as floats they took 5.6 GB."""
    path = zeros_png(tmp_path / "a.png", 13_300, 13_300)
    assert path.stat().st_size < 10**6
    with pytest.raises(
        ValueError, match="must have at most 100,000,000 pixels, got 13300 x 13300; .* raise max_pixels"
    ):
        read_image(path)
    code = f"""
from pathlib import Path
from angpn.features import image_features
from angpn.utils import memory
import torch
memory.forget_peak()
before = memory.resident_bytes()
image_features([Path({str(path)!r})], model=torch.nn.Identity(), max_pixels=200_000_000)
print(memory.peak_bytes() - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 13_300**2 + 150e6  # a byte a pixel, since it is grey
