"""Algorithm 1 as one differentiable operation on candidate lists: forward and hand-derived backward for all T steps.

With S fixed in a step, F = P H with P = alpha A + (1 - alpha) I, where A is S or made from S and its transpose. For a
loss with gradient G at F, the inputs get P^T G and the weights of S get alpha <g_i, h_j>, which the Jacobian of the
projection and F F^T carry on to the F of the step before; that F came from H in the same way, and so on down to F = H.

Where rows are distributed among processes, lists also name rows of the halo: a halo exchange appends those to the
features before they are used, and a halo reduction sends their gradients back. For one process both do nothing.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from angpn.anfp.graph import Gamma, Rule, neighbor_weights, resolve_gamma
from angpn.anfp.propagation import Direction
from angpn.kernels import rows
from angpn.kernels.threads import over_rows
from angpn.neighbors.neighborhood import Neighborhood
from angpn.utils.typing import Array


class Options(NamedTuple):
    """What :func:`angpn.anfp.algorithm.algorithm1` takes beside the neighbourhood and the features."""

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


class Graph:
    """Some rows of S, or all, by their non-zero entries, see :mod:`angpn.kernels.rows`."""

    def __init__(self, chosen: Array, sizes: Array, columns: Array, weights: Array) -> None:
        self.chosen = chosen  # (r,) the rows of the data it has, int32
        self.sizes = sizes  # (r,) int32: entries in each row
        self.columns = columns  # (r, m) int32
        self.weights = weights  # (r, m)

    def aggregate(self, keep: float, factor: float, features: Array, out: Array) -> None:
        """out += keep * features[chosen] + factor * S features."""
        kind = features.dtype.type
        parts = self.chosen, self.sizes, self.columns, self.weights, kind(keep), kind(factor)
        over_rows(rows.aggregate_rows, len(out), *parts, features, out)

    def aggregate_transposed(self, factor: float, features: Array, out: Array) -> None:
        """out += factor * S^T features, these being by row of the graph."""
        ends, sources, places = self._transposed(len(out))
        parts = ends, sources, places, self.weights.reshape(-1), features[:0, 0], features.dtype.type(factor)
        over_rows(rows.aggregate_transposed_rows, len(out), *parts, features, out)

    def pass_back(self, of_affinities: Array, inverse: Array, graph_features: Array, of_graph_features: Array) -> None:
        """Add what the affinities' gradients give the features of the other end."""
        ends, sources, places = self._transposed(len(graph_features))
        if len(self.chosen) < len(graph_features):
            sources = self.chosen[sources]
        parts = ends, sources, places, of_affinities.reshape(-1), inverse, graph_features.dtype.type(1)
        over_rows(rows.aggregate_transposed_rows, len(graph_features), *parts, graph_features, of_graph_features)

    def _transposed(self, n: int) -> tuple[Array, Array, Array]:
        """By column: where its list ends, the rows of the graph it is an entry of, and where in the weights."""
        if self._lists is None:
            total = int(self.sizes.sum())
            self._lists = np.empty(n, np.int32), np.empty(total, np.int32), np.empty(total, np.int32)
            rows.transpose(self.sizes, self.columns, *self._lists)
        return self._lists

    _lists: tuple[Array, Array, Array] | None = None


class Step(NamedTuple):
    """One alternation, as far as the backward pass needs it."""

    graph_features: Array  # (n, d) the F that the graph was made from
    inverse: Array  # (n,) 1 / |f_i| where the graph saw rows of unit length, else 1
    graph: Graph
    queried_rows: Array | None = None  # the rows whose lists alone it needed, where it was not those of all
    scale: Array | None = None  # (n, 1) degree^-1/2, for direction "normalized"
    received: Array | None = None  # (n, d) (S + S^T) (scale * H), for direction "normalized"


def algorithm1_fused(
    neighborhood: Neighborhood, features: Tensor, chosen: Tensor | None = None, **options: Any
) -> Tensor:
    """F of :func:`angpn.anfp.algorithm.algorithm1`, compiled; all its rows, or those ``chosen`` (distinct), (r, d).

    A row of the last step depends on no other row of that step, so with direction "directed" only the chosen ones are
    computed. The other directions need the choices of all rows, and select at the end; so does a choice of all rows,
    since a graph with n rows has them in their order.
    """
    unpacked = Options(**options)
    if chosen is None:
        return _Algorithm1.apply(neighborhood, unpacked, features, neighborhood.all_rows, False)
    if unpacked.direction != "directed":
        return algorithm1_fused(neighborhood, features, **options)[chosen]
    if len(chosen) == neighborhood.n_rows:
        return _Algorithm1.apply(neighborhood, unpacked, features, neighborhood.all_rows, True)[chosen]
    return _Algorithm1.apply(neighborhood, unpacked, features, chosen.numpy().astype(np.int32), True)


def graph_fused(neighborhood: Neighborhood, features: Tensor, **options: Any) -> scipy.sparse.csr_array:
    """S of :func:`angpn.anfp.algorithm.algorithm1`, compiled, as a sparse matrix without its zeros."""
    o = Options(**options)
    inputs = _halo_exchange(neighborhood, features.detach().contiguous().numpy())
    limit = 1 if o.beta == 0 else o.num_steps or o.max_steps
    propagated = inputs[: neighborhood.n_rows]
    for number in range(1, limit + 1):
        previous = propagated
        graph_features = inputs if number == 1 else _halo_exchange(neighborhood, propagated)
        step, propagated = _step(neighborhood, o, inputs, graph_features, neighborhood.all_rows)
        if o.num_steps is None and o.beta > 0 and _settled(neighborhood, propagated, previous, o.tol):
            break
    graph = step.graph
    held = np.arange(graph.columns.shape[1]) < graph.sizes[:, None]
    starts = np.concatenate([[0], np.cumsum(graph.sizes, dtype=np.int64)])
    parts = graph.weights[held], graph.columns[held].astype(np.int64), starts
    return scipy.sparse.csr_array(parts, shape=(neighborhood.n_rows, neighborhood.n_columns))


class _Algorithm1(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, neighborhood: Neighborhood, options: Options, features: Tensor, chosen: Array, some: bool
    ) -> Tensor:
        # ``some``: whether rows were chosen, which is so in all processes or in none, even where one chose all it has.
        inputs = _halo_exchange(neighborhood, features.detach().contiguous().numpy())
        limit = 1 if options.beta == 0 else options.num_steps or options.max_steps
        propagated, steps = inputs[: neighborhood.n_rows], []
        for number in range(1, limit + 1):
            previous = propagated
            last = (options.num_steps is not None and number == limit) or options.beta == 0
            queried_rows = chosen if last and some else None
            graph_features = inputs if number == 1 else _halo_exchange(neighborhood, propagated, queried_rows)
            step, propagated = _step(
                neighborhood, options, inputs, graph_features, chosen if last else neighborhood.all_rows
            )
            steps.append(step._replace(queried_rows=queried_rows))
            if not (ctx.needs_input_grad[2] and options.graph_gradient):
                steps = steps[-1:]  # the last graph alone carries the gradient
            if (
                options.num_steps is None
                and options.beta > 0
                and _settled(neighborhood, propagated, previous, options.tol)
            ):
                break
        ctx.neighborhood, ctx.options, ctx.inputs, ctx.steps = neighborhood, options, inputs, steps
        ctx.chosen_after = None
        if len(propagated) != len(chosen):  # how many steps it would take was not known before
            ctx.chosen_after, propagated = chosen, propagated[chosen]
        return torch.from_numpy(propagated)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, Tensor, None, None]:
        neighborhood, options, inputs = ctx.neighborhood, ctx.options, ctx.inputs
        of_output = gradient.contiguous().numpy()
        if ctx.chosen_after is not None:
            of_chosen, of_output = of_output, np.zeros((neighborhood.n_rows, inputs.shape[1]), inputs.dtype)
            of_output[ctx.chosen_after] = of_chosen
        of_inputs = np.zeros_like(inputs)
        through_graph = options.graph_gradient and options.beta > 0
        for number, step in reversed(list(enumerate(ctx.steps))):
            if not through_graph:
                _propagate_backward(neighborhood, step, of_output, of_inputs, options)
                break
            of_graph_features = _step_backward(neighborhood, step, inputs, of_output, of_inputs, options)
            if number == 0:
                of_inputs += of_graph_features
            else:
                of_output = _halo_reduce(neighborhood, of_graph_features, step.queried_rows)
        return None, None, torch.from_numpy(_halo_reduce(neighborhood, of_inputs)), None, None


def _halo_exchange(
    neighborhood: Neighborhood, features: Array, queried_rows: Array | None = None
) -> Array:  # (n_columns, d)
    return neighborhood.halo_exchange(torch.from_numpy(features), queried_rows).numpy()


def _halo_reduce(
    neighborhood: Neighborhood, gradient: Array, queried_rows: Array | None = None
) -> Array:  # (n_rows, d)
    return neighborhood.halo_reduce(torch.from_numpy(gradient), queried_rows).numpy()


def _step(
    neighborhood: Neighborhood, options: Options, inputs: Array, graph_features: Array, chosen: Array
) -> tuple[Step, Array]:
    """One alternation: the graph from F, then the next F, in the chosen rows."""
    if options.beta == 0:
        step = Step(graph_features, inputs[:0, 0], _fixed_graph(neighborhood, options, inputs.dtype, chosen))
        return _propagate(neighborhood, step, inputs, options)
    n, m, r = len(graph_features), neighborhood.n_candidates, len(chosen)
    kind = inputs.dtype.type
    inverse = np.ones(n, inputs.dtype)
    if options.normalize:
        over_rows(rows.inverse_lengths, n, graph_features, inverse)
        affinity_bound = np.ones(n, inputs.dtype)
    else:
        length = np.sqrt(np.einsum("ij,ij->i", graph_features, graph_features))
        affinity_bound = length * length.max(initial=0)
    affinity_bound *= kind(1 + 1e-4)  # more than the rounding of lengths and products
    graph = Graph(chosen, np.empty(r, np.int32), np.empty((r, m), np.int32), np.empty((r, m), inputs.dtype))
    propagated, directed = np.empty((r, inputs.shape[1]), inputs.dtype), options.direction == "directed"
    finite = over_rows(
        rows.step_rows,
        r,
        *(chosen, *neighborhood.as_arrays(inputs.dtype), graph_features, inverse, affinity_bound),
        *(
            kind(options.beta),
            _gamma(neighborhood, options, inputs.dtype),
            options.n_neighbors,
            options.rule == "printed",
        ),
        *(graph.sizes, graph.columns, graph.weights, directed, kind(options.alpha), inputs, propagated),
    )
    if not all(finite):
        raise ValueError(
            "each row needs finite scores, got NaN or an overflow; look for NaN or huge features, raise gamma, or let "
            "the graph see rows of unit length (normalize)"
        )
    step = Step(graph_features, inverse, graph)
    return (step, propagated) if directed else _propagate(neighborhood, step, inputs, options)


def _fixed_graph(neighborhood: Neighborhood, options: Options, dtype: np.dtype[Any], chosen: Array) -> Graph:
    """The graph at beta = 0, which depends on the distances alone: made once for each neighbourhood."""
    key = ("graph", options.n_neighbors, options.gamma, options.rule, dtype.name)
    if key not in neighborhood.memo:
        distances = torch.from_numpy(neighborhood.as_arrays(dtype)[1])
        gamma = resolve_gamma(distances, options.n_neighbors, options.gamma, mean_over_rows=neighborhood.partition.mean)
        k, rule = options.n_neighbors, options.rule
        weights = neighbor_weights(distances, None, n_neighbors=k, beta=0.0, gamma=gamma, rule=rule).numpy()
        sizes = (weights > 0).sum(axis=1)
        first = np.argsort(weights <= 0, axis=1, kind="stable")[:, : sizes.max()]
        columns = np.take_along_axis(neighborhood.as_arrays(dtype)[0], first, axis=1)
        weights = np.take_along_axis(weights, first, axis=1)
        neighborhood.memo[key] = Graph(neighborhood.all_rows, sizes.astype(np.int32), columns, weights)
    full: Graph = neighborhood.memo[key]
    if chosen is neighborhood.all_rows:
        return full
    return Graph(chosen, full.sizes[chosen], full.columns[chosen], full.weights[chosen])


def _gamma(neighborhood: Neighborhood, options: Options, dtype: np.dtype[Any]) -> Array:  # (n,)
    key = ("gamma", options.n_neighbors, options.gamma, dtype.name)
    if key not in neighborhood.memo:
        distances = torch.from_numpy(neighborhood.as_arrays(dtype)[1])
        gamma = resolve_gamma(
            distances, options.n_neighbors, options.gamma, mean_over_rows=neighborhood.partition.mean
        ).flatten()
        neighborhood.memo[key] = np.ascontiguousarray(np.broadcast_to(gamma.numpy(), (neighborhood.n_rows,)))
    return neighborhood.memo[key]


def _settled(neighborhood: Neighborhood, now: Array, before: Array, tol: float) -> bool:
    change, largest = (
        neighborhood.partition.all_reduce_max(torch.tensor(np.abs(part).max())) for part in (now - before, now)
    )
    return bool(change <= tol * largest)


def _propagate(neighborhood: Neighborhood, step: Step, inputs: Array, options: Options) -> tuple[Step, Array]:
    """Eq. (13) on the graph of a step, in the direction asked for; the step, with what the way back needs."""
    alpha, graph, own = options.alpha, step.graph, slice(neighborhood.n_rows)
    if options.direction == "normalized":
        degree = _both_ways(neighborhood, graph, np.ones((len(inputs), 1), inputs.dtype))
        scale = _halo_exchange(neighborhood, 1 / np.sqrt(np.where(degree > 0, degree, 1)))
        received = _both_ways(neighborhood, graph, scale * inputs)
        propagated = (1 - alpha) * inputs[own] + alpha * scale[own] * received
        return step._replace(scale=scale, received=received), propagated
    if options.direction == "directed":
        propagated = np.zeros((len(graph.chosen), inputs.shape[1]), inputs.dtype)
        graph.aggregate(1 - alpha, alpha, inputs, propagated)
        return step, propagated
    propagated = np.zeros_like(inputs)
    graph.aggregate(1 - alpha, alpha / 2, inputs, propagated[own])
    graph.aggregate_transposed(alpha / 2, inputs[own], propagated)
    return step, _halo_reduce(neighborhood, propagated)


def _both_ways(neighborhood: Neighborhood, graph: Graph, features: Array) -> Array:  # (n_rows, d)
    """(S + S^T) features, for a graph with all rows."""
    out = np.zeros_like(features)
    graph.aggregate(0, 1, features, out[: neighborhood.n_rows])
    graph.aggregate_transposed(1, features[: neighborhood.n_rows], out)
    return _halo_reduce(neighborhood, out)


def _propagate_backward(
    neighborhood: Neighborhood, step: Step, of_output: Array, of_inputs: Array, options: Options
) -> None:
    """Add to the gradient of the inputs what Eq. (13) gives them for a constant graph."""
    alpha, graph, own = options.alpha, step.graph, slice(neighborhood.n_rows)
    kept = of_output * of_inputs.dtype.type(1 - alpha)
    if len(graph.chosen) == neighborhood.n_rows:
        of_inputs[own] += kept
    else:
        of_inputs[graph.chosen] += kept
    if step.scale is not None:
        scale = step.scale[own]
        of_inputs[own] += scale * _both_ways(
            neighborhood, graph, _halo_exchange(neighborhood, alpha * scale * of_output)
        )
    elif options.direction == "directed":
        graph.aggregate_transposed(alpha, of_output, of_inputs)
    else:
        graph.aggregate(0, alpha / 2, _halo_exchange(neighborhood, of_output), of_inputs[own])
        graph.aggregate_transposed(alpha / 2, of_output, of_inputs)


def _step_backward(
    neighborhood: Neighborhood, step: Step, inputs: Array, of_output: Array, of_inputs: Array, options: Options
) -> Array:  # gradient of the F that the graph was made from
    """Backward through one alternation: add to the gradient of the inputs, return that of the graph features."""
    n, kind, alpha, graph, own = len(inputs), inputs.dtype.type, options.alpha, step.graph, slice(neighborhood.n_rows)
    both = options.direction != "directed"
    of_graph_features, of_affinities = np.zeros_like(inputs), np.empty_like(graph.weights)
    of_degree = np.zeros(n, inputs.dtype)
    factor, a, b = alpha / (2 if both else 1), _halo_exchange(neighborhood, of_output) if both else of_output, inputs
    if step.scale is not None:
        assert step.received is not None
        scale = step.scale[own]
        factor, a, b = 1.0, _halo_exchange(neighborhood, alpha * scale * of_output), step.scale * inputs
        of_scaled = _both_ways(neighborhood, graph, a)
        of_inputs[own] += (1 - alpha) * of_output + scale * of_scaled
        of_scale = alpha * np.einsum("ij,ij->i", of_output, step.received)
        of_scale += np.einsum("ij,ij->i", of_scaled, inputs[own])
        of_degree = _halo_exchange(neighborhood, -of_scale * scale[:, 0] ** 3 / 2)
    else:
        _propagate_backward(neighborhood, step, of_output, of_inputs, options)
    of_score = (options.beta / (2 * _gamma(neighborhood, options, inputs.dtype))).astype(inputs.dtype, copy=False)
    over_rows(
        rows.gradient_rows,
        len(graph.chosen),
        *(graph.chosen, graph.sizes, graph.columns, kind(factor), a, b, both, of_degree, of_score),
        *(options.rule == "printed", step.graph_features, step.inverse, of_affinities, of_graph_features),
    )
    graph.pass_back(of_affinities, step.inverse, step.graph_features, of_graph_features)
    if options.normalize:
        over_rows(rows.unit_gradient_rows, n, step.graph_features, step.inverse, of_graph_features)
    return of_graph_features
