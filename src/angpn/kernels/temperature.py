"""The compiled search for a temperature: a search over hyper-parameters asks for hundreds, each of a few dozen rows."""

# mypy: disable-error-code="no-untyped-def"

import numpy as np

from angpn.kernels.logistic_regression import compile_in_order

_MAX_STEPS = 100  # of Newton's method; it takes about six, and halving the range to the last bit some sixty


@compile_in_order
def minimize_over_inverse(scores, weights, target, lowest, highest):
    """Return the inverse temperature at which held-out labels are most likely, and minus their log-likelihood there.

    That is the minimum of ``sum_i w_i log sum_k exp(b s_ik) - b target`` over b, a convex function: Newton's method,
    between points that are known to have the zero of the slope between them. ``scores`` (h, c) are not above zero.
    """
    n, n_classes = scores.shape
    low, high, inverse, loss = lowest, highest, 1.0, 0.0
    for _ in range(_MAX_STEPS):
        loss, slope, curvature = -inverse * target, -target, 0.0
        for i in range(n):
            total = first = second = 0.0
            for k in range(n_classes):
                score = scores[i, k]
                weight = np.exp(inverse * score)
                total += weight
                first += weight * score
                second += weight * score * score
            mean = first / total
            loss += weights[i] * np.log(total)
            slope += weights[i] * mean
            curvature += weights[i] * (second / total - mean * mean)
        if slope < 0:
            low = inverse
        else:
            high = inverse
        following = np.inf if slope < 0 else -np.inf
        if curvature > 0:
            following = inverse - slope / curvature
        following = min(max(following, lowest), highest)
        if not low <= following <= high:
            following = np.sqrt(low * high)
        if abs(following - inverse) <= 1e-12 * inverse:
            break
        inverse = following
    return inverse, loss
