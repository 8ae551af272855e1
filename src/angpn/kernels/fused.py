"""Algorithm 1 as one differentiable operation on candidate lists: forward and hand-derived backward for all T steps."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from angpn.graph import Gamma, Rule, neighbor_weights, resolve_gamma
from angpn.kernels import rows
from angpn.kernels.threads import over_rows
from angpn.neighborhood import Neighborhood
from angpn.propagation import Direction

Array = np.ndarray[Any, Any]


class Options(NamedTuple):
    """What :func:`angpn.anfp.algorithm1` takes beside the neighbourhood and the features."""

    n_neighbors: int
    alpha: float
    beta: float
    gamma: Gamma
    rule: Rule
    num_steps: int | None
    direction: Direction
    graph_gradient: bool
    normalize: bool
    max_steps: int = 100
    tol: float = 1e-5


class Support(NamedTuple):
    """A graph by its non-zero entries, see :mod:`angpn.kernels.rows`."""

    sizes: Array  # (n,) int32: entries in each row
    columns: Array  # (n, m) int32
    weights: Array  # (n, m)

    def gather(self, weights: Array, factor: float, features: Array, out: Array) -> None:
        """out += factor * S features, with these weights on the support."""
        kind = features.dtype.type
        over_rows(rows.gather_rows, len(out), self.sizes, self.columns, weights, kind(factor), features, out)

    def scatter(self, weights: Array, factor: float, features: Array, out: Array) -> None:
        """out += factor * S^T features, with these weights on the support."""
        kind = features.dtype.type
        over_rows(rows.scatter_rows, len(out), self.sizes, self.columns, weights, kind(factor), features, out)

    def products(self, factor: float, a: Array, b: Array, both: bool) -> Array:
        """factor * <a_i, b_j> on the support, plus factor * <b_i, a_j> if both."""
        out = np.empty_like(self.weights)
        over_rows(rows.product_rows, len(out), self.sizes, self.columns, a.dtype.type(factor), a, b, both, out)
        return out


class Step(NamedTuple):
    """One alternation, as far as the backward pass needs it."""

    support: Support
    seen: Array  # (n, d) what the graph was made from: F, or its rows at unit length
    inverse_length: Array | None  # (n, 1) by which F was made `seen`
    scale: Array | None  # (n, 1) degree^-1/2, for direction "normalized"
    received: Array | None  # (n, d) (S + S^T) (scale * H), for direction "normalized"


def algorithm1_fused(hood: Neighborhood, features: Tensor, **options: Any) -> Tensor:  # (n, d)
    """F of :func:`angpn.anfp.algorithm1`, compiled."""
    return _Algorithm1.apply(hood, Options(**options), features)


class _Algorithm1(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hood: Neighborhood, options: Options, features: Tensor) -> Tensor:
        inputs = features.detach().contiguous().numpy()
        gamma = _gamma(hood, options, inputs.dtype)
        limit = 1 if options.beta == 0 else options.num_steps or options.max_steps
        propagated, steps = inputs, []
        for _ in range(limit):
            seen, inverse_length = _unit_rows(propagated) if options.normalize else (propagated, None)
            support = _fixed_support(hood, options, inputs) if options.beta == 0 else None
            if support is None:
                support = _adaptive_support(hood, options, seen, inverse_length, gamma)
            previous = propagated
            propagated, scale, received = _propagate(support, inputs, options)
            steps.append(Step(support, seen, inverse_length, scale, received))
            if not ctx.needs_input_grad[2] or not options.graph_gradient:
                steps = steps[-1:]  # the last graph alone carries the gradient
            if options.num_steps is None and _settled(propagated, previous, options.tol):
                break
        ctx.options, ctx.inputs, ctx.steps, ctx.gamma = options, inputs, steps, gamma
        return torch.from_numpy(propagated)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, Tensor]:
        options, inputs, gamma = ctx.options, ctx.inputs, ctx.gamma
        of_output = gradient.contiguous().numpy()
        of_inputs = np.zeros_like(inputs)
        through_graph = options.graph_gradient and options.beta > 0
        for number, step in reversed(list(enumerate(ctx.steps))):
            of_weights = _propagate_backward(step, inputs, of_output, of_inputs, options, through_graph)
            if of_weights is None:
                break
            printed = options.rule == "printed"
            scale = (options.beta / (2 * gamma)).astype(inputs.dtype)
            over_rows(rows.project_rows, len(inputs), step.support.sizes, scale, printed, of_weights)
            of_seen = np.zeros_like(inputs)
            step.support.gather(of_weights, 1, step.seen, of_seen)
            step.support.scatter(of_weights, 1, step.seen, of_seen)
            if step.inverse_length is not None:
                along = np.einsum("ij,ij->i", step.seen, of_seen)[:, None]
                of_seen = step.inverse_length * (of_seen - along * step.seen)
            if number == 0:
                of_inputs += of_seen
            of_output = of_seen
        return None, None, torch.from_numpy(of_inputs)


def _adaptive_support(
    hood: Neighborhood, options: Options, seen: Array, inverse_length: Array | None, gamma: Array
) -> Support:
    n, m = hood.indices.shape
    indices, distances = hood.as_arrays(seen.dtype)
    if inverse_length is None:
        length = np.sqrt(np.einsum("ij,ij->i", seen, seen))
        reach = length * length.max(initial=0)
    else:
        reach = np.ones(n, seen.dtype)
    reach *= seen.dtype.type(1 + 1e-5)  # rounding of the lengths
    support = Support(np.empty(n, np.int32), np.empty((n, m), np.int32), np.empty((n, m), seen.dtype))
    beta = seen.dtype.type(options.beta)
    printed = options.rule == "printed"
    finite = over_rows(
        rows.graph_rows, n, indices, distances, seen, reach, beta, gamma, options.n_neighbors, printed, *support
    )
    if not all(finite):
        raise ValueError(
            "each row needs a finite largest score, got NaN or an overflow; look for NaN or huge features, raise "
            "gamma, or let the graph see rows of unit length (normalize)"
        )
    return support


def _fixed_support(hood: Neighborhood, options: Options, inputs: Array) -> Support:
    """The graph at beta = 0, which depends on the distances alone: made once for each neighbourhood."""
    key = ("graph", options.n_neighbors, options.gamma, options.rule, inputs.dtype.name)
    if key not in hood.memo:
        distances = hood.distances.to(torch.from_numpy(inputs[:0]).dtype)
        gamma = resolve_gamma(distances, options.n_neighbors, options.gamma)
        full = neighbor_weights(
            distances, None, n_neighbors=options.n_neighbors, beta=0.0, gamma=gamma, rule=options.rule
        ).numpy()
        sizes = (full > 0).sum(axis=1)
        first = np.argsort(full <= 0, axis=1, kind="stable")[:, : sizes.max()]
        hood.memo[key] = Support(
            sizes.astype(np.int32),
            np.take_along_axis(hood.indices.numpy(), first, axis=1).astype(np.int32),
            np.take_along_axis(full, first, axis=1),
        )
    return hood.memo[key]


def _gamma(hood: Neighborhood, options: Options, dtype: np.dtype[Any]) -> Array:  # (n,)
    key = ("gamma", options.n_neighbors, options.gamma, dtype.name)
    if key not in hood.memo:
        distances = hood.distances.to(torch.from_numpy(np.empty(0, dtype)).dtype)
        gamma = resolve_gamma(distances, options.n_neighbors, options.gamma).flatten()
        hood.memo[key] = np.ascontiguousarray(np.broadcast_to(gamma.numpy(), (hood.n_rows,)))
    return hood.memo[key]


def _unit_rows(features: Array) -> tuple[Array, Array]:
    """As :func:`angpn.anfp.unit_rows`, with the factors."""
    squares = np.einsum("ij,ij->i", features, features)[:, None]
    alive = squares > 1e-12
    inverse = np.where(alive, 1 / np.sqrt(np.where(alive, squares, 1)), 0).astype(features.dtype)
    return features * inverse, inverse


def _settled(now: Array, before: Array, tol: float) -> bool:
    return bool(np.abs(now - before).max() <= tol * np.abs(now).max())


def _propagate(support: Support, inputs: Array, options: Options) -> tuple[Array, Array | None, Array | None]:
    """Eq. (13) in the given direction; and for "normalized" the scale and what was received."""
    alpha = options.alpha
    propagated = inputs * inputs.dtype.type(1 - alpha)
    if options.direction == "directed":
        support.gather(support.weights, alpha, inputs, propagated)
        return propagated, None, None
    if options.direction == "symmetric":
        support.gather(support.weights, alpha / 2, inputs, propagated)
        support.scatter(support.weights, alpha / 2, inputs, propagated)
        return propagated, None, None
    degree = np.zeros((len(inputs), 1), inputs.dtype)
    ones = np.ones_like(degree)
    support.gather(support.weights, 1, ones, degree)
    support.scatter(support.weights, 1, ones, degree)
    scale = 1 / np.sqrt(np.where(degree > 0, degree, 1))
    scaled = scale * inputs
    received = np.zeros_like(inputs)
    support.gather(support.weights, 1, scaled, received)
    support.scatter(support.weights, 1, scaled, received)
    propagated += alpha * scale * received
    return propagated, scale, received


def _propagate_backward(
    step: Step, inputs: Array, of_output: Array, of_inputs: Array, options: Options, through_graph: bool
) -> Array | None:
    """Add to the gradient of the inputs; return that of the weights, on the support, if it is wanted."""
    alpha, support = options.alpha, step.support
    of_inputs += (1 - alpha) * of_output
    if options.direction == "directed":
        support.scatter(support.weights, alpha, of_output, of_inputs)
        return support.products(alpha, of_output, inputs, both=False) if through_graph else None
    if options.direction == "symmetric":
        support.gather(support.weights, alpha / 2, of_output, of_inputs)
        support.scatter(support.weights, alpha / 2, of_output, of_inputs)
        return support.products(alpha / 2, of_output, inputs, both=True) if through_graph else None
    assert step.scale is not None
    assert step.received is not None
    scaled = alpha * step.scale * of_output
    of_scaled = np.zeros_like(inputs)
    support.gather(support.weights, 1, scaled, of_scaled)
    support.scatter(support.weights, 1, scaled, of_scaled)
    of_inputs += step.scale * of_scaled
    if not through_graph:
        return None
    of_scale = alpha * np.einsum("ij,ij->i", of_output, step.received) + np.einsum("ij,ij->i", of_scaled, inputs)
    of_degree = -of_scale * step.scale[:, 0] ** 3 / 2
    of_weights = support.products(1, scaled, step.scale * inputs, both=True)
    over_rows(rows.degree_gradient_rows, len(inputs), support.sizes, support.columns, of_degree, of_weights)
    return of_weights
