"""Features of images, texts and tables.

Features of images need ``pip install "angpn[images]"``; the others need nothing more.

A name is imported when it is first used, see ``__init__.pyi``: who reads rows or images alone needs no torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
