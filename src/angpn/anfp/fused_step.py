"""One alternation of Algorithm 1 on candidate lists, compiled: forward, and its hand-derived backward.

With S fixed, F = P H with P = alpha A + (1 - alpha) I, where A is S or made from S and its transpose. For a loss with
gradient G at F, the inputs get P^T G and the weights of S get alpha <g_i, h_j>, which the Jacobian of the projection
and F F^T carry on to the F that the graph was made from.

Where rows are distributed among processes, lists also name rows of the halo: a halo exchange appends those to the
features before they are used, and a halo reduction sends their gradients back. For one process both do nothing.
"""

from typing import Any, NamedTuple

import numpy as np
import torch

from angpn import kernels
from angpn.anfp.algorithm import Options
from angpn.anfp.neighbor_graph import neighbor_weights, resolve_gamma
from angpn.anfp.support_graph import SupportGraph
from angpn.kernels.threads import over_rows
from angpn.neighbors.neighborhood import Neighborhood
from angpn.utils.typing import Array


class Step(NamedTuple):
    """One alternation, as far as the backward pass needs it."""

    graph_features: Array  # (n, d) the F that the graph was made from
    inverse: Array  # (n,) 1 / |f_i| where the graph was made from rows of unit length, else 1
    graph: SupportGraph
    queried_rows: Array | None = None  # the rows whose lists were needed, None: all
    scale: Array | None = None  # (n, 1) degree^-1/2, for direction "normalized"
    received: Array | None = None  # (n, d) (S + S^T) (scale * H), for direction "normalized"


def halo_exchange(
    neighborhood: Neighborhood, features: Array, queried_rows: Array | None = None
) -> Array:  # (n_columns, d)
    """Append the halo rows to an array, see :meth:`Neighborhood.halo_exchange`."""
    return neighborhood.halo_exchange(torch.from_numpy(features), queried_rows).numpy()


def halo_reduce(neighborhood: Neighborhood, gradient: Array, queried_rows: Array | None = None) -> Array:  # (n_rows, d)
    """Add the gradients of halo rows to those of their owners' rows, see :meth:`Neighborhood.halo_reduce`."""
    return neighborhood.halo_reduce(torch.from_numpy(gradient), queried_rows).numpy()


def alternate(
    neighborhood: Neighborhood, options: Options, inputs: Array, graph_features: Array, chosen: Array
) -> tuple[Step, Array]:
    """Run one alternation: the graph from F, then the next F, in the chosen rows."""
    if options.beta == 0:
        step = Step(graph_features, inputs[:0, 0], _fixed_graph(neighborhood, options, inputs.dtype, chosen))
        return _propagate(neighborhood, step, inputs, options)
    n, m, r = len(graph_features), neighborhood.n_candidates, len(chosen)
    kind = inputs.dtype.type
    inverse = np.ones(n, inputs.dtype)
    if options.normalize:
        over_rows(kernels.rows.inverse_lengths, n, graph_features, inverse)
        affinity_bound = np.ones(n, inputs.dtype)
    else:
        length = np.sqrt(np.einsum("ij,ij->i", graph_features, graph_features))
        affinity_bound = length * length.max(initial=0)
    affinity_bound *= kind(1 + 1e-4)  # more than the rounding of lengths and products
    graph = SupportGraph(chosen, np.empty(r, np.int32), np.empty((r, m), np.int32), np.empty((r, m), inputs.dtype))
    propagated, directed = np.empty((r, inputs.shape[1]), inputs.dtype), options.direction == "directed"
    over_rows(
        kernels.rows.step_rows,
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
    if graph.sizes.min(initial=0) < 0:
        raise ValueError(
            "each row needs finite scores, got NaN or an overflow; look for NaN or huge features, raise gamma, or let "
            "the graph see rows of unit length (normalize)"
        )
    step = Step(graph_features, inverse, graph)
    return (step, propagated) if directed else _propagate(neighborhood, step, inputs, options)


def _fixed_graph(neighborhood: Neighborhood, options: Options, dtype: np.dtype[Any], chosen: Array) -> SupportGraph:
    """Return the graph at beta = 0, which depends on the distances alone: made once for each neighbourhood."""
    key = ("graph", options.n_neighbors, options.gamma, options.rule, dtype)
    if key not in neighborhood.memo:
        distances = torch.from_numpy(neighborhood.as_arrays(dtype)[1])
        gamma = resolve_gamma(distances, options.n_neighbors, options.gamma, mean_over_rows=neighborhood.partition.mean)
        k, rule = options.n_neighbors, options.rule
        weights = neighbor_weights(distances, None, n_neighbors=k, beta=0.0, gamma=gamma, rule=rule).numpy()
        sizes = (weights > 0).sum(axis=1)
        first = np.argsort(weights <= 0, axis=1, kind="stable")[:, : sizes.max()]
        columns = np.take_along_axis(neighborhood.as_arrays(dtype)[0], first, axis=1)
        weights = np.take_along_axis(weights, first, axis=1)
        neighborhood.memo[key] = SupportGraph(neighborhood.all_rows, sizes.astype(np.int32), columns, weights)
    full: SupportGraph = neighborhood.memo[key]
    if chosen is neighborhood.all_rows:
        return full
    return SupportGraph(chosen, full.sizes[chosen], full.columns[chosen], full.weights[chosen])


def _gamma(neighborhood: Neighborhood, options: Options, dtype: np.dtype[Any]) -> Array:  # (n,)
    key = ("gamma", options.n_neighbors, options.gamma, dtype)
    if key not in neighborhood.memo:
        distances = torch.from_numpy(neighborhood.as_arrays(dtype)[1])
        gamma = resolve_gamma(
            distances, options.n_neighbors, options.gamma, mean_over_rows=neighborhood.partition.mean
        ).flatten()
        neighborhood.memo[key] = np.ascontiguousarray(np.broadcast_to(gamma.numpy(), (neighborhood.n_rows,)))
    return neighborhood.memo[key]


def _propagate(neighborhood: Neighborhood, step: Step, inputs: Array, options: Options) -> tuple[Step, Array]:
    """Apply Eq. (13) on the graph of a step; return the step with what the backward pass needs, and F."""
    alpha, graph, own = options.alpha, step.graph, slice(neighborhood.n_rows)
    if options.direction == "normalized":
        degree = _aggregate_symmetric(neighborhood, graph, np.ones((len(inputs), 1), inputs.dtype))
        scale = halo_exchange(neighborhood, 1 / np.sqrt(np.where(degree > 0, degree, 1)))
        received = _aggregate_symmetric(neighborhood, graph, scale * inputs)
        propagated = (1 - alpha) * inputs[own] + alpha * scale[own] * received
        return step._replace(scale=scale, received=received), propagated
    if options.direction == "directed":
        propagated = np.zeros((len(graph.chosen), inputs.shape[1]), inputs.dtype)
        graph.aggregate(1 - alpha, alpha, inputs, propagated)
        return step, propagated
    propagated = np.zeros_like(inputs)
    graph.aggregate(1 - alpha, alpha / 2, inputs, propagated[own])
    graph.aggregate_transposed(alpha / 2, inputs[own], propagated)
    return step, halo_reduce(neighborhood, propagated)


def _aggregate_symmetric(neighborhood: Neighborhood, graph: SupportGraph, features: Array) -> Array:  # (n_rows, d)
    """Return (S + S^T) features, for a graph with all rows."""
    out = np.zeros_like(features)
    graph.aggregate(0, 1, features, out[: neighborhood.n_rows])
    graph.aggregate_transposed(1, features[: neighborhood.n_rows], out)
    return halo_reduce(neighborhood, out)


def propagate_backward(
    neighborhood: Neighborhood, step: Step, of_output: Array, of_inputs: Array, options: Options
) -> None:
    """Add the gradient of Eq. (13) with respect to the inputs, for a constant graph."""
    alpha, graph, own = options.alpha, step.graph, slice(neighborhood.n_rows)
    kept = of_output * of_inputs.dtype.type(1 - alpha)
    if len(graph.chosen) == neighborhood.n_rows:
        of_inputs[own] += kept
    else:
        of_inputs[graph.chosen] += kept
    if step.scale is not None:
        scale = step.scale[own]
        of_inputs[own] += scale * _aggregate_symmetric(
            neighborhood, graph, halo_exchange(neighborhood, alpha * scale * of_output)
        )
    elif options.direction == "directed":
        graph.aggregate_transposed(alpha, of_output, of_inputs)
    else:
        graph.aggregate(0, alpha / 2, halo_exchange(neighborhood, of_output), of_inputs[own])
        graph.aggregate_transposed(alpha / 2, of_output, of_inputs)


def set_to_zero(values: Array) -> None:
    """Set to zero on the threads that work on those rows: from another core's cache a line takes long to fetch."""
    over_rows(kernels.rows.clear_rows, len(values), values)


def alternate_backward(
    neighborhood: Neighborhood, step: Step, inputs: Array, of_output: Array, of_inputs: Array, options: Options
) -> Array:  # gradient of the F that the graph was made from
    """Go back through one alternation: add to the gradient of the inputs, return that of the graph features."""
    n, kind, alpha, graph, own = len(inputs), inputs.dtype.type, options.alpha, step.graph, slice(neighborhood.n_rows)
    directed = options.direction == "directed"
    of_graph_features, of_affinities = np.empty_like(inputs), np.empty_like(graph.weights)
    if len(graph.chosen) < n:  # the loop over the rows of the graph sets only theirs
        set_to_zero(of_graph_features)
    of_degree = np.zeros(n, inputs.dtype)
    keep, factor, a, b = 1 - alpha, alpha, of_output, inputs
    if step.scale is not None:
        assert step.received is not None
        scale = step.scale[own]
        keep, factor, a, b = 0.0, 1.0, halo_exchange(neighborhood, alpha * scale * of_output), step.scale * inputs
        of_scaled = _aggregate_symmetric(neighborhood, graph, a)
        of_inputs[own] += (1 - alpha) * of_output + scale * of_scaled
        of_scale = alpha * np.einsum("ij,ij->i", of_output, step.received)
        of_scale += np.einsum("ij,ij->i", of_scaled, inputs[own])
        of_degree = halo_exchange(neighborhood, -of_scale * scale[:, 0] ** 3 / 2)
    elif not directed:
        keep, factor, a = 0.0, alpha / 2, halo_exchange(neighborhood, of_output)
        propagate_backward(neighborhood, step, of_output, of_inputs, options)
    of_score = (options.beta / (2 * _gamma(neighborhood, options, inputs.dtype))).astype(inputs.dtype, copy=False)
    over_rows(
        kernels.rows.gradient_rows,
        len(graph.chosen),
        *(graph.chosen, graph.sizes, graph.columns, kind(factor), a, b, not directed, of_degree, of_score),
        *(options.rule == "printed", step.graph_features, step.inverse, of_affinities, of_graph_features),
        *(kind(keep), of_inputs),
    )
    graph.add_gradients(
        *(alpha if directed else 0.0, of_output, of_inputs, of_affinities),
        *(step.graph_features, step.inverse, options.normalize, of_graph_features),
    )
    return of_graph_features
