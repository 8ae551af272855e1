"""Features from what people have: folders of images and lists of texts.

Images need ``pip install angpn[images]`` when their features are computed; texts need nothing more.
"""

from angpn.features.images import image_features
from angpn.features.reading import image_files
from angpn.features.text import TextFeatures, text_features
from angpn.features.text_files import read_texts

__all__ = ["TextFeatures", "image_features", "image_files", "read_texts", "text_features"]
