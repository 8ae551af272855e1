"""The smallest function to compile: its first call makes numba register all that others need."""

# mypy: disable-error-code="no-untyped-def"

from numba import njit


@njit(nogil=True, cache=True)
def same(number):
    """Return the number."""
    return number
