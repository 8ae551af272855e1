from .image_source import image_files
from .images import image_features
from .table import TableEncoder, table_features
from .text import TextFeatures, text_features
from .text_files import read_texts

__all__ = [
    "TableEncoder",
    "TextFeatures",
    "image_features",
    "image_files",
    "read_texts",
    "table_features",
    "text_features",
]
