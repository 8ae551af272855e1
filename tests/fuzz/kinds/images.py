"""Folders of images, some of them damaged, through ``angpn predict``."""

import io
import os
import struct
import zlib

import numpy as np
from PIL import Image

from fuzz import good_files
from fuzz.commands import Command, run_command
from fuzz.mutations import damaged, pick

FORMATS = {"png": "PNG", "jpg": "JPEG", "gif": "GIF", "webp": "WEBP", "tif": "TIFF", "bmp": "BMP"}
MODES = ("RGB", "RGB", "L", "1", "P", "RGBA", "LA", "I;16", "I", "F", "CMYK", "YCbCr", "LAB", "HSV")
NAMES = (
    *(b"a b.png", b"=1+1.png", b"'\".png", b"\xc3\xa4.PNG", b"-o.jpg", b"n" * 240 + b".png"),
    *(b"\xff\xfe.png", b"\x1b[2Jx.png", b"new\nline.png"),
)
EVERY = 2  # each image passes through a network


def make(seed, folder):
    """Write a folder of a few images of which at least one is odd."""
    generator = np.random.default_rng(seed)
    photos = folder / "photos"
    photos.mkdir()
    for number in range(generator.integers(1, 4)):
        suffix = pick(generator, sorted(FORMATS))
        content = _image(suffix, generator)
        if generator.random() < 0.4:
            content = damaged(content, generator)
        name = pick(generator, NAMES) if generator.random() < 0.15 else f"{number}.{suffix}".encode()
        with open(os.path.join(os.fsencode(photos), name), "wb") as file:
            file.write(content)
    if generator.random() < 0.1:
        pick(generator, [lambda: (photos / "d.png").mkdir(), lambda: (photos / "l.png").symlink_to("nowhere")])()
    arguments = ("predict", good_files.labelling_model("images"), photos, "-o", folder / "new.csv")
    return Command(folder, (*map(str, arguments), *pick(generator, [(), ("--skip-bad",)])))


run = run_command


def _image(suffix, generator):
    """Return the bytes of an image file of some mode and size; a mode that the format lacks becomes RGB."""
    if suffix == "png" and generator.random() < 0.3:
        return _claimed_png(generator)
    size = pick(generator, [(8, 8), (12, 9), (1, 1), (1, 300), (300, 1), (97, 64)])
    image = Image.fromarray(generator.integers(256, size=(*size[::-1], 3), dtype=np.uint8))
    mode = pick(generator, MODES)
    image = (
        Image.fromarray(np.asarray(image.convert("L"), np.uint16) * 257) if mode == "I;16" else _converted(image, mode)
    )
    options = {}
    if generator.random() < 0.2:
        options["exif"] = pick(
            generator, [b"", b"Exif\x00\x00", b"Exif\x00\x00II*\x00" + generator.bytes(40), _exif(generator)]
        )
    if generator.random() < 0.15 and suffix in ("gif", "webp", "png", "tif"):
        options |= {"save_all": True, "append_images": [image.rotate(90), image]}
    for choice in (options, {}):
        try:
            buffer = io.BytesIO()
            image.save(buffer, FORMATS[suffix], **choice)
            return buffer.getvalue()
        except (OSError, ValueError, KeyError, TypeError, SystemError):
            image = image.convert("RGB")
    raise AssertionError(f"{suffix} has no RGB")


def _converted(image, mode):
    return image.convert("RGB").convert(mode) if mode != "LAB" else Image.new("LAB", image.size, (50, 9, 9))


def _exif(generator):
    exif = Image.Exif()
    exif[0x0112] = pick(generator, [0, 1, 3, 6, 8, 9, 65535])  # orientation
    return exif.tobytes()


def _claimed_png(generator):
    """Return a PNG whose header claims some size and type, with little behind it."""
    width, height = pick(
        generator, [(0, 0), (0, 8), (8, 8), (13_300, 13_300), (2**31 - 1, 1), (60_000, 60_000), (1, 10**6)]
    )
    depth, colour = pick(generator, [(8, 2), (16, 2), (1, 3), (8, 3), (8, 9), (7, 0), (16, 6)])
    body = zlib.compress(bytes(pick(generator, [10, 1000, 10**6])))
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, pick(generator, [0, 0, 1, 7])))]
    parts += pick(
        generator, [[], [(b"PLTE", b"\x00\x01\x02" * 3)], [(b"tEXt", b"k\x00" + b"v" * 10**6)], [(b"eXIf", b"II*\x00")]]
    )
    parts += [(b"IDAT", body), (b"IEND", b"")]
    chunks = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
