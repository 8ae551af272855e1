"""The compiled solver of multinomial logistic regression: L-BFGS, as one function that calls back nobody.

The problems of a fit are many and small: a hundred rows, a hundred columns, ten classes. What they cost in Python are
calls, not arithmetic, so that here an iteration makes none.
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


@compile_loop
def mean_loss(inputs, codes, shares, penalty, point, products, offsets, bits, gradient):
    """Return the objective of :func:`minimize_mean_loss` at a point, and write its gradient.

    Products with the data are in its own dtype. Sums over the rows that cancel, those of the loss and of the gradient
    of the biases, are in float64: in float32 they would depend on the order of the rows, which L-BFGS would amplify.

    ``products`` (n, f), ``offsets`` (n,) and ``bits`` (n f,) are room to work in. There is a column for each class; of
    two classes the first has none, so that the penalty is on the difference of the two.
    """
    n, free = products.shape
    n_weights = len(point) - free
    weights = point[:n_weights].astype(inputs.dtype).reshape(n_weights // free, free)
    bias = point[n_weights:].astype(inputs.dtype)
    bias_gradient = gradient[n_weights:]
    zero = inputs.dtype.type(0)
    np.dot(inputs, weights, products)
    total = 0.0
    for i in range(n):
        row = products[i]
        largest = zero if free == 1 else row[0] + bias[0]
        for k in range(free):
            row[k] += bias[k]
            largest = max(largest, row[k])
        for k in range(free):
            row[k] -= largest
        truth = codes[i] - (free == 1)  # -1 is the class that has no column
        total -= shares[i] * (-largest if truth < 0 else row[truth])
        offsets[i] = largest
    exponentiate(products.reshape(n * free), bits)
    bias_gradient[:] = 0.0
    for i in range(n):
        row, share = products[i], inputs.dtype.type(shares[i])
        sum_ = np.exp(-offsets[i]) if free == 1 else zero
        for k in range(free):
            sum_ += row[k]
        total += shares[i] * np.log(np.float64(sum_))
        factor = share / sum_
        for k in range(free):
            row[k] *= factor
        truth = codes[i] - (free == 1)
        if truth >= 0:
            row[truth] -= share
        for k in range(free):
            bias_gradient[k] += row[k]
    product = np.dot(inputs.T, products).reshape(n_weights)
    squares = 0.0
    for k in range(n_weights):
        gradient[k] = product[k] + penalty * point[k]
        squares += point[k] * point[k]
    return total + penalty / 2 * squares


@compile_loop
def minimize_mean_loss(inputs, codes, shares, penalty, start, preconditioner, tol, band, max_iter):
    r"""Minimise a penalised mean loss by preconditioned L-BFGS.

    .. math:: \min_{W, b} \; - \sum_i s_i \ln softmax(x_i W + b)_{y_i} + \frac{\lambda}{2} \|W\|_F^2

    The last row of ``start`` (p + 1, f) is b, and ``preconditioner`` (p + 1, p + 1) is about the inverse of the Hessian
    of any class. Returned are the mean of the last iterates, see :func:`angpn.ensemble.logistic.fit_logistic`, how many
    iterations and evaluations it took, and the excess of the last: an estimate of what its loss is above the minimum.
    An iterate takes nothing of the weight left where its excess is ``band`` times ``tol``, and all where it is ``tol``
    divided by ``band``.
    """
    size = start.size
    point, gradient = start.copy().reshape(size), np.empty(size)
    trial, trial_gradient = np.empty(size), np.empty(size)
    products = np.empty((inputs.shape[0], start.shape[1]), inputs.dtype)
    offsets, bits = np.empty(inputs.shape[0], inputs.dtype), np.empty(products.size, np.int32)
    steps, changes = np.empty((_HISTORY, size)), np.empty((_HISTORY, size))
    inverse, factors = np.empty(_HISTORY), np.empty(_HISTORY)
    direction = np.empty(size)
    mean, weight_left = np.zeros(size), 1.0
    n_pairs, iteration, n_evaluations = 0, 0, 1
    value = mean_loss(inputs, codes, shares, penalty, point, products, offsets, bits, gradient)
    while True:
        _two_loops(gradient, steps, changes, inverse, factors, n_pairs, preconditioner, direction)
        slope = _inner(gradient, direction)
        excess = -slope / 2  # half of Newton's decrement
        weight = weight_left * _share(excess, tol, band)
        weight_left -= weight
        _add(mean, weight, point)
        if weight_left == 0 or iteration == max_iter:
            break
        step = 1.0
        # The loss is convex: its slope rises along a line, and is zero between low and high. A difference of two values
        # that rounding makes does not count.
        most = value + 1e-7 * abs(value)
        low, low_slope, high, high_slope, found = 0.0, slope, np.inf, np.inf, False
        for _ in range(_MAX_EVALUATIONS):
            for k in range(size):
                trial[k] = point[k] + step * direction[k]
            trial_value = mean_loss(inputs, codes, shares, penalty, trial, products, offsets, bits, trial_gradient)
            trial_slope = _inner(trial_gradient, direction)
            n_evaluations += 1
            found = abs(trial_slope) <= -_ENOUGH * slope and trial_value <= most
            if found:
                break
            if trial_slope < 0 and trial_value <= most:
                low, low_slope = step, trial_slope
            else:
                high, high_slope = step, trial_slope
            if high == np.inf:  # to where the slope would be zero, if it went on like this
                bend = (low_slope - slope) / low
                step = max(2 * low, min(low - low_slope / bend, _LONGEST * low) if bend > 0 else _LONGEST * low)
            else:
                bend = (high_slope - low_slope) / (high - low)
                step = low - low_slope / bend if 0 < bend < np.inf else (low + high) / 2
                step = min(max(step, low + 0.1 * (high - low)), high - 0.1 * (high - low))
        if not found:  # nothing is left but rounding
            break
        place = n_pairs % _HISTORY
        for k in range(size):
            steps[place, k] = trial[k] - point[k]
            changes[place, k] = trial_gradient[k] - gradient[k]
        curvature = _inner(steps[place], changes[place])
        if curvature > 0:
            inverse[place] = 1 / curvature
            n_pairs += 1
        point, trial = trial, point
        gradient, trial_gradient = trial_gradient, gradient
        value = trial_value
        iteration += 1
    _add(mean, weight_left, point)
    return mean.reshape(start.shape), iteration, n_evaluations, excess


@compile_loop
def _two_loops(gradient, steps, changes, inverse, factors, n_pairs, preconditioner, direction):
    """Write minus the product of L-BFGS's inverse Hessian with the gradient."""
    for k in range(len(gradient)):
        direction[k] = -gradient[k]
    first = max(0, n_pairs - _HISTORY)
    for pair in range(n_pairs - 1, first - 1, -1):
        place = pair % _HISTORY
        factors[place] = inverse[place] * _inner(steps[place], direction)
        _add(direction, -factors[place], changes[place])
    direction[:] = _times(preconditioner, direction)
    if n_pairs:
        place = (n_pairs - 1) % _HISTORY
        scale = 1 / (inverse[place] * _inner(changes[place], _times(preconditioner, changes[place])))
        for k in range(len(gradient)):
            direction[k] *= scale
    for pair in range(first, n_pairs):
        place = pair % _HISTORY
        _add(direction, factors[place] - inverse[place] * _inner(changes[place], direction), steps[place])


@compile_loop
def _times(preconditioner, a):
    rows = len(preconditioner)
    return np.dot(preconditioner, a.reshape(rows, len(a) // rows)).reshape(len(a))


@compile_loop
def _inner(a, b):
    total = 0.0
    for k in range(len(a)):
        total += a[k] * b[k]
    return total


@compile_loop
def _add(a, factor, b):
    for k in range(len(a)):
        a[k] += factor * b[k]


@compile_loop
def _share(excess, tol, band):
    """Return the share of the weight left that an iterate with this excess takes."""
    if excess <= tol / band:
        return 1.0
    return max(0.0, np.log(tol * band / excess) / (2 * np.log(band)))
