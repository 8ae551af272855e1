"""The compiled loops of a linear map of many rows to few channels, and of the gradient of its weights.

Every sum has an order of its own, whatever the threads, so the result is the same to the bit for any number of them.
That of a BLAS need not be. For 50 channels they take about as long as torch's products.
"""

# mypy: disable-error-code="no-untyped-def"

from angpn.kernels.rows import compile_loop

ROWS_TOGETHER = 24  # ranges start at a multiple of these: rows are taken so many at a time
_COLUMNS_TOGETHER = 512  # so many of some rows fit the fastest cache


@compile_loop
def map_rows(start, stop, rows, weight, rectify, out):
    """Compute out_i = W r_i, W being (c, d); negative entries become 0 if ``rectify``."""
    zero = rows.dtype.type(0)
    n_channels, width = weight.shape
    for top in range(start, stop, ROWS_TOGETHER):
        bottom = min(top + ROWS_TOGETHER, stop)
        for c in range(0, n_channels - 3, 4):
            p, q, r, s = weight[c], weight[c + 1], weight[c + 2], weight[c + 3]
            for i in range(top, bottom, 3):
                j, k = min(i + 1, bottom - 1), min(i + 2, bottom - 1)  # a row is summed alike wherever it stands
                x, y, z = rows[i], rows[j], rows[k]
                xp, xq, xr, xs = zero, zero, zero, zero
                yp, yq, yr, ys = zero, zero, zero, zero
                zp, zq, zr, zs = zero, zero, zero, zero
                for column in range(width):  # seven numbers are loaded for twelve products
                    of_x, of_y, of_z = x[column], y[column], z[column]
                    of_p, of_q, of_r, of_s = p[column], q[column], r[column], s[column]
                    xp, xq, xr, xs = xp + of_x * of_p, xq + of_x * of_q, xr + of_x * of_r, xs + of_x * of_s
                    yp, yq, yr, ys = yp + of_y * of_p, yq + of_y * of_q, yr + of_y * of_r, ys + of_y * of_s
                    zp, zq, zr, zs = zp + of_z * of_p, zq + of_z * of_q, zr + of_z * of_r, zs + of_z * of_s
                out[i, c], out[i, c + 1], out[i, c + 2], out[i, c + 3] = xp, xq, xr, xs
                out[j, c], out[j, c + 1], out[j, c + 2], out[j, c + 3] = yp, yq, yr, ys
                out[k, c], out[k, c + 1], out[k, c + 2], out[k, c + 3] = zp, zq, zr, zs
        for i in range(top, bottom):
            for c in range(n_channels // 4 * 4, n_channels):
                total = zero
                for column in range(width):
                    total += rows[i, column] * weight[c, column]
                out[i, c] = total
            if rectify:
                for c in range(n_channels):
                    out[i, c] = zero if out[i, c] < zero else out[i, c]  # NaN stays


@compile_loop
def weight_gradients(start, stop, rows, gradient, out):
    """Compute out_b = sum_i g_i r_i^T over the rows i of block b, for the blocks from start to stop.

    A thread so reads rows that it also worked on in other loops, and no others.
    """
    n, width = rows.shape
    n_blocks, n_channels = out.shape[0], out.shape[1]
    for block in range(start, stop):
        first, last = n * block // n_blocks, n * (block + 1) // n_blocks
        rest = last - (last - first) % 6
        mine = out[block]
        mine[:] = 0
        for low in range(0, width, _COLUMNS_TOGETHER):
            high = min(low + _COLUMNS_TOGETHER, width)
            for i in range(first, rest, 6):
                u, v, w = rows[i, low:high], rows[i + 1, low:high], rows[i + 2, low:high]
                x, y, z = rows[i + 3, low:high], rows[i + 4, low:high], rows[i + 5, low:high]
                for c in range(0, n_channels - 1, 2):
                    a, b = mine[c, low:high], mine[c + 1, low:high]
                    au, av, aw = gradient[i, c], gradient[i + 1, c], gradient[i + 2, c]
                    ax, ay, az = gradient[i + 3, c], gradient[i + 4, c], gradient[i + 5, c]
                    bu, bv, bw = gradient[i, c + 1], gradient[i + 1, c + 1], gradient[i + 2, c + 1]
                    bx, by, bz = gradient[i + 3, c + 1], gradient[i + 4, c + 1], gradient[i + 5, c + 1]
                    for column in range(high - low):  # ten numbers are loaded or stored for twelve products
                        of_u, of_v, of_w = u[column], v[column], w[column]
                        of_x, of_y, of_z = x[column], y[column], z[column]
                        a[column] += au * of_u + av * of_v + aw * of_w + ax * of_x + ay * of_y + az * of_z
                        b[column] += bu * of_u + bv * of_v + bw * of_w + bx * of_x + by * of_y + bz * of_z
            for i in range(first, last):
                for c in range(n_channels // 2 * 2 if i < rest else 0, n_channels):
                    for column in range(low, high):
                        mine[c, column] += gradient[i, c] * rows[i, column]
