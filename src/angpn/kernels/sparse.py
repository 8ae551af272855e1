"""The compiled product of a sparse matrix with a wide dense one."""

# mypy: disable-error-code="no-untyped-def"

from collections.abc import Callable
from typing import Any

from numba import njit

# Sums may be reordered, so that they can be vectorised; infinities and NaN keep their meaning.
_compile: Callable[[Callable[..., Any]], Callable[..., Any]] = njit(
    nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"}
)


@_compile
def hop_rows(start, stop, alpha, starts, columns, values, features, out):
    """Compute (1 - alpha) X + alpha A X for rows ``start`` to ``stop`` of A, which is in CSR format.

    X may have more rows than A, or fewer where alpha is 1.
    """
    keep, alpha = features.dtype.type(1 - alpha), features.dtype.type(alpha)
    for i in range(start, stop):
        mine = out[i]
        if keep == 0:
            mine[:] = 0
        else:
            own = features[i]
            for channel in range(len(mine)):
                mine[channel] = keep * own[channel]
        place, end = starts[i], starts[i + 1]
        while place + 8 <= end:  # eight at once, to touch ``mine`` less often
            a, b = features[columns[place]], features[columns[place + 1]]
            c, d = features[columns[place + 2]], features[columns[place + 3]]
            e, f = features[columns[place + 4]], features[columns[place + 5]]
            g, h = features[columns[place + 6]], features[columns[place + 7]]
            weight_a, weight_b = alpha * values[place], alpha * values[place + 1]
            weight_c, weight_d = alpha * values[place + 2], alpha * values[place + 3]
            weight_e, weight_f = alpha * values[place + 4], alpha * values[place + 5]
            weight_g, weight_h = alpha * values[place + 6], alpha * values[place + 7]
            for channel in range(len(mine)):
                mine[channel] += (
                    weight_a * a[channel]
                    + weight_b * b[channel]
                    + weight_c * c[channel]
                    + weight_d * d[channel]
                    + weight_e * e[channel]
                    + weight_f * f[channel]
                    + weight_g * g[channel]
                    + weight_h * h[channel]
                )
            place += 8
        while place + 2 <= end:
            a, b = features[columns[place]], features[columns[place + 1]]
            weight_a, weight_b = alpha * values[place], alpha * values[place + 1]
            for channel in range(len(mine)):
                mine[channel] += weight_a * a[channel] + weight_b * b[channel]
            place += 2
        if place < end:
            a, weight_a = features[columns[place]], alpha * values[place]
            for channel in range(len(mine)):
                mine[channel] += weight_a * a[channel]
