"""The compiled solver of multinomial logistic regressions: L-BFGS, as one function that calls back nobody.

The regressions of a fit are many and small: some hundred rows, a hundred columns, ten classes. What they cost in Python
are calls, and one by one their products with the data are too narrow for the machine: ten columns of weights take
nearly as long as forty. So those on the same inputs (other penalties, other folds) are solved side by side.
"""

# mypy: disable-error-code="no-untyped-def"

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from angpn.kernels.rows import compile_loop

# As compile_loop, with sums in their order, where rounding was made to cancel.
compile_in_order: Callable[[Callable[..., Any]], Callable[..., Any]] = njit(
    nogil=True, cache=True, error_model="numpy", fastmath={"contract", "nsz"}
)

_HISTORY = 5  # pairs of L-BFGS
_MAX_EVALUATIONS = 30  # of a line search
_ENOUGH = 0.9  # a line search ends where the slope is at most this part of that at its start
_LONGEST = 100.0  # how many times as long a step may become at once
_ROWS_AT_ONCE = 1024  # so that their products stay in the cache
_NUMBERS_AT_ONCE = 4096  # of a softmax, so that they stay in the nearest cache


@compile_in_order
def exponentiate(values, bits):
    """Replace each value, not above zero, by its exponential.

    In float32 by the polynomial of Cephes' expf, right to the last digits, which the compiler vectorises as it does not
    a call: ``exp(x) = 2^n exp(x - n ln 2)``, with the power of two made of its bits.
    """
    if values.itemsize != 4:
        for k in range(values.size):
            values[k] = np.exp(values[k])
        return
    one, half = np.float32(1), np.float32(0.5)
    for k in range(values.size):
        x = max(np.float32(values[k]), np.float32(-87))  # less is zero in float32
        power = np.floor(x * np.float32(1.44269504) + half)
        x = x - power * np.float32(0.693359375) - power * np.float32(-2.12194440e-4)  # ln 2 in two parts
        found = np.float32(1.9875691500e-4) * x + np.float32(1.3981999507e-3)
        found = found * x + np.float32(8.3334519073e-3)
        found = found * x + np.float32(4.1665795894e-2)
        found = found * x + np.float32(1.6666665459e-1)
        found = found * x + np.float32(5.0000001201e-1)
        values[k] = found * x * x + x + one
        bits[k] = (np.int32(power) + np.int32(127)) << np.int32(23)
    powers = bits.view(np.float32)
    for k in range(values.size):
        values[k] *= powers[k]


@compile_in_order
def log_softmax_rows(start, stop, scores):
    """Subtract from each row of scores (n, c) the logarithm of the sum of its exponentials."""
    n_classes = scores.shape[1]
    step = max(1, _NUMBERS_AT_ONCE // n_classes)
    room, bits = np.empty((step, n_classes), scores.dtype), np.empty(step * n_classes, np.int32)
    for top in range(start, stop, step):
        part = scores[top : min(top + step, stop)]
        for i in range(len(part)):
            largest = part[i, 0]
            for k in range(1, n_classes):
                largest = max(largest, part[i, k])
            for k in range(n_classes):
                part[i, k] -= largest
                room[i, k] = part[i, k]
        exponentiate(room[: len(part)].reshape(part.size), bits)
        for i in range(len(part)):
            total = room[i, 0]
            for k in range(1, n_classes):
                total += room[i, k]
            rest = np.log(total)
            for k in range(n_classes):
                part[i, k] -= rest


@compile_in_order
def add_softmax_rows(start, stop, scores, inverse, weight, out):
    """Add to each row of ``out`` (n, c) the weighted softmax of that row of scores, at an inverse temperature."""
    n_classes = scores.shape[1]
    step = max(1, _NUMBERS_AT_ONCE // n_classes)
    room, bits = np.empty((step, n_classes), scores.dtype), np.empty(step * n_classes, np.int32)
    factor, one = scores.dtype.type(inverse), scores.dtype.type(weight)
    for top in range(start, stop, step):
        n = min(step, stop - top)
        for i in range(n):
            largest = scores[top + i, 0]
            for k in range(1, n_classes):
                largest = max(largest, scores[top + i, k])
            for k in range(n_classes):
                room[i, k] = factor * (scores[top + i, k] - largest)
        exponentiate(room[:n].reshape(n * n_classes), bits)
        for i in range(n):
            total = room[i, 0]
            for k in range(1, n_classes):
                total += room[i, k]
            share = one / total
            for k in range(n_classes):
                out[top + i, k] += share * room[i, k]


@compile_loop
def mean_losses(inputs, codes, shares, penalties, points, chosen, values, gradients):
    """Write the objectives of :func:`minimize_mean_losses` at points, and their gradients, for the ``chosen`` problems.

    Products with the data are in its own dtype. Sums over the rows that cancel, those of the loss and of the gradient
    of the biases, are in float64: in float32 they would depend on the order of the rows, which L-BFGS would amplify.
    """
    n, p = inputs.shape
    free = points.shape[1]
    width = len(chosen) * free
    weights = np.empty((width, p), inputs.dtype)
    for place, b in enumerate(chosen):
        squares = 0.0
        for k in range(free):
            for j in range(p):
                weights[place * free + k, j] = points[b, k, j]
                gradients[b, k, j] = penalties[b, j] * points[b, k, j]
                squares += gradients[b, k, j] * points[b, k, j]
            gradients[b, k, p] = 0.0
        values[b] = squares / 2
    n_room = min(n, _ROWS_AT_ONCE)
    room, bits = np.empty(n_room * width, inputs.dtype), np.empty(n_room * free, np.int32)
    largest, sums = np.empty(n_room, inputs.dtype), np.empty(n_room, inputs.dtype)
    for start in range(0, n, _ROWS_AT_ONCE):
        part = inputs[start : start + _ROWS_AT_ONCE]
        stop = start + len(part)
        products = room[: len(part) * width].reshape(width, len(part))
        np.dot(weights, part.T, products)
        for place, b in enumerate(chosen):
            values[b] += _residuals(
                products[place * free : (place + 1) * free],
                points[b, :, p],
                codes[b, start:stop],
                shares[b, start:stop],
                largest[: len(part)],
                sums[: len(part)],
                bits[: len(part) * free],
                gradients[b, :, p],
            )
        product = np.dot(products, part)
        for place, b in enumerate(chosen):
            for k in range(free):
                for j in range(p):
                    gradients[b, k, j] += product[place * free + k, j]


@compile_loop
def _residuals(scores, bias, codes, shares, largest, sums, bits, bias_gradient):
    """Replace scores (f, n) by the gradient of the loss with respect to them; return the loss.

    There is a row for each class; of two classes the first has none, so that the penalty is on the difference of the
    two. Columns are the innermost loop everywhere, so that it is vectorised.
    """
    free, n = scores.shape
    zero = scores.dtype.type(0)
    for k in range(free):
        shift = scores.dtype.type(bias[k])
        for i in range(n):
            scores[k, i] += shift
        if k == 0:
            for i in range(n):
                largest[i] = max(scores[k, i], zero) if free == 1 else scores[k, i]
        else:
            for i in range(n):
                largest[i] = max(largest[i], scores[k, i])
    for k in range(free):
        for i in range(n):
            scores[k, i] -= largest[i]
    total, first = 0.0, free == 1  # the class that has no row
    for i in range(n):
        total -= shares[i] * (-largest[i] if codes[i] < first else scores[codes[i] - first, i])
    exponentiate(scores.reshape(scores.size), bits)
    if free == 1:
        for i in range(n):
            sums[i] = np.exp(-largest[i]) + scores[0, i]
    else:
        sums[:] = zero
        for k in range(free):
            for i in range(n):
                sums[i] += scores[k, i]
    for i in range(n):
        total += shares[i] * np.log(np.float64(sums[i]))
        sums[i] = scores.dtype.type(shares[i]) / sums[i]
    for k in range(free):
        for i in range(n):
            scores[k, i] *= sums[i]
    for i in range(n):
        if codes[i] >= first:
            scores[codes[i] - first, i] -= scores.dtype.type(shares[i])
    for k in range(free):
        sum_ = 0.0
        for i in range(n):
            sum_ += scores[k, i]
        bias_gradient[k] += sum_
    return total


@compile_loop
def minimize_mean_losses(inputs, codes, shares, penalties, starts, inverses, tol, band, max_iter):
    r"""Minimise penalised mean losses on the same inputs (n, p) by preconditioned L-BFGS, side by side.

    .. math:: \min_{W, b} \; - \sum_i s_i \ln softmax(x_i W + b)_{y_i} + \frac{1}{2} \sum_j \lambda_j \|W_j\|^2

    Each problem has ``codes`` (n,) and ``shares`` (n,) of its own, 0 for a row that it is not trained on, ``penalties``
    (p,) of the columns, and a start (f, p + 1) whose last column is b. The preconditioner is diagonal: ``inverses``
    (p + 1,) is about the inverse of the second derivative with respect to the weights of a column, in any class.

    Returned are for each problem the mean of the last iterates, see :func:`angpn.ensemble.logistic.fit_logistic`, how
    many iterations and evaluations it took, and the excess of the last: an estimate of what its loss is above the
    minimum. An iterate takes nothing of the weight left where its excess is ``band`` times ``tol``, and all where it is
    ``tol`` divided by ``band``.
    """
    count, shape = len(starts), starts.shape
    points, gradients, values = starts.copy(), np.empty(shape), np.empty(count)
    trials, trial_gradients, trial_values = np.empty(shape), np.empty(shape), np.empty(count)
    directions, means, weights_left = np.empty(shape), np.zeros(shape), np.ones(count)
    steps, changes = np.empty((count, _HISTORY, *shape[1:])), np.empty((count, _HISTORY, *shape[1:]))
    curvatures, n_pairs = np.empty((count, _HISTORY)), np.zeros(count, np.int64)
    iterations, evaluations, excess = np.zeros(count, np.int64), np.ones(count, np.int64), np.empty(count)
    searches = np.empty((count, 8))
    chosen = np.arange(count)
    mean_losses(inputs, codes, shares, penalties, points, chosen, values, gradients)
    begin = np.ones(count, np.bool_)  # which problems are at a new iterate
    while True:
        n_left = 0
        for b in chosen:
            if begin[b]:
                _two_loops(gradients[b], steps[b], changes[b], curvatures[b], n_pairs[b], inverses[b], directions[b])
                slope = _inner(gradients[b], directions[b])
                excess[b] = -slope / 2  # half of Newton's decrement
                weight = weights_left[b] * _share(excess[b], tol, band)
                weights_left[b] -= weight
                _add(means[b], weight, points[b])
                if weights_left[b] == 0 or iterations[b] == max_iter:
                    continue
                _begin_search(searches[b], values[b], slope)
            elif searches[b, _TRIED] == _MAX_EVALUATIONS:  # nothing is left but rounding
                continue
            chosen[n_left] = b
            n_left += 1
            for j in range(shape[1]):
                for k in range(shape[2]):
                    trials[b, j, k] = points[b, j, k] + searches[b, _STEP] * directions[b, j, k]
        chosen = chosen[:n_left]
        if n_left == 0:
            break
        mean_losses(inputs, codes, shares, penalties, trials, chosen, trial_values, trial_gradients)
        for b in chosen:
            evaluations[b] += 1
            begin[b] = _search(searches[b], trial_values[b], _inner(trial_gradients[b], directions[b]))
            if not begin[b]:
                continue
            place = n_pairs[b] % _HISTORY
            for j in range(shape[1]):
                for k in range(shape[2]):
                    steps[b, place, j, k] = trials[b, j, k] - points[b, j, k]
                    changes[b, place, j, k] = trial_gradients[b, j, k] - gradients[b, j, k]
                    points[b, j, k], gradients[b, j, k] = trials[b, j, k], trial_gradients[b, j, k]
            curvatures[b, place] = _inner(steps[b, place], changes[b, place])
            n_pairs[b] += curvatures[b, place] > 0
            values[b] = trial_values[b]
            iterations[b] += 1
    for place in range(count):
        _add(means[place], weights_left[place], points[place])
    return means, iterations, evaluations, excess


# A line search: the step to try, where the slope was last below and above zero and what it was there, the slope at the
# start, the largest value that is no more than at the start, and how many steps were tried.
_STEP, _LOW, _LOW_SLOPE, _HIGH, _HIGH_SLOPE, _SLOPE, _MOST, _TRIED = range(8)


@compile_loop
def _begin_search(search, value, slope):
    search[_STEP], search[_LOW], search[_LOW_SLOPE] = 1.0, 0.0, slope
    search[_HIGH], search[_HIGH_SLOPE] = np.inf, np.inf
    # A difference of two values that rounding makes does not count.
    search[_SLOPE], search[_MOST], search[_TRIED] = slope, value + 1e-7 * abs(value), 0


@compile_loop
def _search(search, value, slope):
    """Tell whether a step is good; else choose the next.

    The loss is convex: its slope rises along a line, and is zero between low and high.
    """
    step, low, low_slope, first_slope = search[_STEP], search[_LOW], search[_LOW_SLOPE], search[_SLOPE]
    if abs(slope) <= -_ENOUGH * first_slope and value <= search[_MOST]:
        return True
    search[_TRIED] += 1
    if slope < 0 and value <= search[_MOST]:
        low, low_slope = step, slope
    else:
        search[_HIGH], search[_HIGH_SLOPE] = step, slope
    high = search[_HIGH]
    if high == np.inf:  # to where the slope would be zero, if it went on like this
        bend = (low_slope - first_slope) / low
        step = max(2 * low, min(low - low_slope / bend, _LONGEST * low) if bend > 0 else _LONGEST * low)
    else:
        bend = (search[_HIGH_SLOPE] - low_slope) / (high - low)
        step = low - low_slope / bend if 0 < bend < np.inf else (low + high) / 2
        step = min(max(step, low + 0.1 * (high - low)), high - 0.1 * (high - low))
    search[_STEP], search[_LOW], search[_LOW_SLOPE] = step, low, low_slope
    return False


@compile_loop
def _two_loops(gradient, steps, changes, curvatures, n_pairs, inverses, direction):
    """Write minus the product of L-BFGS's inverse Hessian with the gradient."""
    factors = np.empty(_HISTORY)
    free, p = gradient.shape
    for j in range(free):
        for k in range(p):
            direction[j, k] = -gradient[j, k]
    first = max(0, n_pairs - _HISTORY)
    for pair in range(n_pairs - 1, first - 1, -1):
        place = pair % _HISTORY
        factors[place] = _inner(steps[place], direction) / curvatures[place]
        _add(direction, -factors[place], changes[place])
    scale = 1.0
    if n_pairs:
        last, squares = changes[(n_pairs - 1) % _HISTORY], 0.0
        for j in range(free):
            for k in range(p):
                squares += inverses[k] * last[j, k] * last[j, k]
        scale = curvatures[(n_pairs - 1) % _HISTORY] / squares
    for j in range(free):
        for k in range(p):
            direction[j, k] *= scale * inverses[k]
    for pair in range(first, n_pairs):
        place = pair % _HISTORY
        factor = factors[place] - _inner(changes[place], direction) / curvatures[place]
        _add(direction, factor, steps[place])


@compile_loop
def _inner(a, b):
    total = 0.0
    for j in range(a.shape[0]):
        for k in range(a.shape[1]):
            total += a[j, k] * b[j, k]
    return total


@compile_loop
def _add(a, factor, b):
    for j in range(a.shape[0]):
        for k in range(a.shape[1]):
            a[j, k] += factor * b[j, k]


@compile_loop
def _share(excess, tol, band):
    """Return the share of the weight left that an iterate with this excess takes."""
    if excess <= tol / band:
        return 1.0
    return max(0.0, np.log(tol * band / excess) / (2 * np.log(band)))
