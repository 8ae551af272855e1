"""Features of images and texts.

Features of images need ``pip install angpn[images]``; those of texts need nothing more.
"""

from angpn.features.image_source import image_files
from angpn.features.images import image_features
from angpn.features.text import TextFeatures, text_features
from angpn.features.text_files import read_texts

__all__ = ["TextFeatures", "image_features", "image_files", "read_texts", "text_features"]
