"""Packages that not every user has, imported when they are needed."""

import importlib
import warnings
from typing import Any


def require(module: str, remedy: str) -> Any:
    """Import a module, or say how to install it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # what such a package says to its own authors
            return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"this needs {module.split('.')[0]}, which is not installed; {remedy}") from error
