"""Feature vectors of images by a network trained on ImageNet."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from angpn.features.image_file import MAX_PIXELS, MIN_SIDE
from angpn.features.image_networks import MEAN, STD, Layer, feature_network
from angpn.features.image_source import Images, image_source
from angpn.utils.checks import check_finite
from angpn.utils.inputs import find_device
from angpn.utils.progress import count_bar
from angpn.utils.typing import Array

_MAX_BETWEEN = 2**23  # pixels between the two passes of a resize
_MEAN, _STD = torch.tensor(MEAN).view(3, 1, 1), torch.tensor(STD).view(3, 1, 1)


def image_features(
    images: Images,  # arrays are (n, h, w, 3) or (n, h, w), uint8
    *,
    model: str | nn.Module = "efficientnet-lite0",
    layer: Layer = "last",
    pooling: str = "mean",
    size: int = 96,
    batch_size: int = 64,
    max_pixels: int = MAX_PIXELS,
    device: str | torch.device = "cpu",
    progress: bool = False,
) -> Array:  # (n, d) float32
    """Compute a feature vector for each image by a pretrained network.

    Each image is resized to a square, standardised by the mean and standard deviation of ImageNet, and passed through
    the network, whose feature map is pooled to a vector. Images are read in batches, so a folder may exceed memory. A
    file whose shorter side has 2048 pixels or more (eight times ``size``, if that is more) is first shrunk by a whole
    factor.

    Args:
        images: A folder, whose files come in the order of :func:`~angpn.features.image_files`; a list of files; or an
            array.
        model: ``"efficientnet-lite0"`` works offline. ``"timm:NAME"``, ``"torchvision:NAME"`` and
            ``"open_clip:NAME"`` load the pretrained weights of these libraries, if installed. A file named ``.pt`` is
            read as TorchScript, which may run any code that its author put into it; one named ``.safetensors`` has the
            weights of efficientnet-lite0, or of the architecture of timm that a ``config.json`` beside it names. A
            torch module maps (b, 3, size, size) to a feature map (b, c, h, w) or to vectors (b, d); it is moved to
            ``device``.
        layer: ``"last"``, or the number of a block of efficientnet-lite0 from 0. Early blocks represent strokes and
            textures, which suits digits; the last one represents objects.
        pooling: ``"mean"`` or ``"max"`` over the feature map, or ``"grid:K"``, the means on a K x K grid, which keep
            the position.
        size: Width and height in pixels; the time grows with its square.
        batch_size: Number of images that pass through the network at once.
        max_pixels: A file with more pixels is refused before it is decoded; decoding takes 4 bytes a pixel.
        device: Device of the network, as torch takes it.
        progress: Show a progress bar on standard error.

    Returns:
        One row of features for each image.

    Raises:
        ValueError: If an image cannot be decoded or is too large, or an option has no such value.
        OSError: If a file does not exist or cannot be read.
        ImportError: If a package is missing; the message names it.
    """
    batches = feature_batches(
        images,
        model=model,
        layer=layer,
        pooling=pooling,
        size=size,
        batch_size=batch_size,
        max_pixels=max_pixels,
        device=device,
        progress=progress,
    )
    features = torch.cat(list(batches))
    check_finite(features, "image features")
    return features.numpy()


def feature_batches(
    images: Images,
    *,
    model: str | nn.Module,
    layer: Layer,
    pooling: str,
    size: int,
    batch_size: int = 64,
    max_pixels: int = MAX_PIXELS,
    fill: bool = False,
    device: str | torch.device = "cpu",
    progress: bool = False,
) -> Iterator[Tensor]:  # (b, d) float32, on the CPU
    """Yield the features of each batch of images in turn; see :func:`image_features`.

    With ``fill``, a last batch of fewer images is filled with empty ones: for other numbers of images convolutions may
    sum in another order, so that the features of an image would depend on how many others there are.
    """
    for name, value in (("size", size), ("batch_size", batch_size), ("max_pixels", max_pixels)):
        _check_positive(value, name)
    source = image_source(images, max_pixels=max_pixels, min_side=max(MIN_SIDE, 4 * size))
    pool = _pooling(pooling)
    device = find_device(device, sparse=False)
    network = feature_network(model, layer).to(device)
    with _evaluating(network), count_bar("images", source.total, enabled=progress) as advance:
        for start in range(0, source.total, batch_size):
            rows = range(start, min(start + batch_size, source.total))
            batch = torch.cat([as_input(source.read(row), size) for row in rows])  # (b, 3, size, size)
            if fill:
                batch = torch.cat([batch, batch.new_zeros(batch_size - len(rows), *batch.shape[1:])])
            with torch.no_grad():  # not around the yield, where the caller's code runs
                features = _vectors(network(batch.to(device)), len(batch), pool, pooling)
            advance(len(rows))
            yield features[: len(rows)]


def as_input(image: Array, size: int) -> Tensor:  # (h, w, 3) uint8 to (1, 3, size, size)
    """Resize and standardise an image as networks trained on ImageNet expect it.

    Bicubic interpolation overshoots at edges, so values are clipped to the range of colours before they are
    standardised. An image that shrinks is antialiased.
    """
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float().div_(255)
    shrinks = max(pixels.shape[2:]) > size
    if pixels.shape[2] * size > _MAX_BETWEEN:  # torch changes the width first, which would make a narrow strip huge
        shape = size, pixels.shape[3]
        pixels = F.interpolate(pixels, size=shape, mode="bicubic", align_corners=False, antialias=True)
    resized = F.interpolate(pixels, size=(size, size), mode="bicubic", align_corners=False, antialias=shrinks)
    return (resized.clamp(0, 1) - _MEAN) / _STD


def _pooling(pooling: str) -> Callable[[Tensor], Tensor]:
    """Return the function from feature maps (b, c, h, w) to vectors (b, d)."""
    name, _, cells = str(pooling).partition(":")
    if name == "grid" and cells.isdecimal() and int(cells) > 0:
        return lambda maps: _grid(maps, int(cells))
    if pooling == "mean":
        return lambda maps: maps.mean(dim=(2, 3))
    if pooling == "max":
        return lambda maps: maps.amax(dim=(2, 3))
    raise ValueError(
        f"pooling must be 'mean', 'max' or 'grid:K' with a whole number K >= 1, got {pooling!r}; choose one of these"
    )


def _grid(maps: Tensor, cells: int) -> Tensor:  # (b, c, h, w) to (b, c * cells * cells)
    if cells > min(maps.shape[2:]):
        raise ValueError(
            f"pooling='grid:{cells}' needs a map of at least {cells} x {cells}, got {maps.shape[2]} x {maps.shape[3]}; "
            "lower K, raise size or choose an earlier layer"
        )
    return F.adaptive_avg_pool2d(maps, cells).flatten(1)


def _vectors(output: Any, count: int, pool: Callable[[Tensor], Tensor], pooling: str) -> Tensor:  # (b, d) float32
    """Return the output of the network as one vector for each image, on the CPU."""
    if not isinstance(output, Tensor) or output.ndim not in (2, 4) or output.shape[0] != count:
        got = f"shape {tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
        raise ValueError(
            f"model must map {count} images to a tensor ({count}, d) or ({count}, c, h, w), got {got}; wrap it in a "
            "module that does"
        )
    if output.ndim == 2 and pooling != "mean":
        raise ValueError(
            f"pooling={pooling!r} needs a model that returns maps (b, c, h, w), got vectors of shape "
            f"{tuple(output.shape)}; leave pooling at 'mean'"
        )
    return (output if output.ndim == 2 else pool(output)).float().cpu()


@contextmanager
def _evaluating(network: nn.Module) -> Iterator[None]:
    """Put the network in evaluation mode, and restore the mode of each of its modules afterwards."""
    modes = [(part, part.training) for part in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def _check_positive(value: Any, name: str) -> None:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be a whole number >= 1, got {value!r}; choose one")
