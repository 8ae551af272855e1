"""The axes that a figure is drawn in. matplotlib is imported only here, when there is something to draw."""

from typing import Any


def axes_for(ax: Any, size: tuple[float, float]) -> Any:
    """Return the axes given, or those of a new figure.

    Args:
        ax: Axes of matplotlib, or None.
        size: Width and height of a new figure in inches.

    Returns:
        The axes.
    """
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(figsize=size, layout="constrained")[1]
