"""Compiled loops, and the threads that run them.

A module here is imported when a loop of it is first used: numba takes a third of a second, which the import of an
estimator need not.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
