"""Algorithm 1 as one differentiable operation on candidate lists, compiled: all T steps forward, and all T backward.

The F of a step came from H as that of the step before did, so gradients go from the last graph to the F it was made
from, and so on down to F = H; see :mod:`angpn.anfp.fused_step` for one step.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from angpn.anfp.algorithm import Options
from angpn.anfp.fused_step import (
    Step,
    alternate,
    alternate_backward,
    halo_exchange,
    halo_reduce,
    propagate_backward,
    set_to_zero,
)
from angpn.neighbors.neighborhood import Neighborhood
from angpn.utils.typing import Array


def algorithm1_fused(
    neighborhood: Neighborhood,
    features: Tensor,  # (n, d) H
    options: Options,
    chosen: Tensor | None = None,  # (r,) distinct rows; all by default
) -> Tensor:  # (r, d)
    """Return F of :func:`angpn.anfp.algorithm.algorithm1`: all its rows, or those chosen.

    A row of the last step depends on no other row of that step, so with direction "directed" only the chosen ones are
    computed. The other directions need the choices of all rows, and select at the end; so does a choice of all rows,
    since a graph with n rows has them in their order.
    """
    if chosen is None:
        return _Algorithm1.apply(neighborhood, options, features, neighborhood.all_rows, False)
    if options.direction != "directed":
        return algorithm1_fused(neighborhood, features, options)[chosen]
    if len(chosen) == neighborhood.n_rows:
        return _Algorithm1.apply(neighborhood, options, features, neighborhood.all_rows, True)[chosen]
    return _Algorithm1.apply(neighborhood, options, features, chosen.numpy().astype(np.int32), True)


def graph_fused(neighborhood: Neighborhood, features: Tensor, options: Options) -> scipy.sparse.csr_array:
    """Return S of :func:`angpn.anfp.algorithm.algorithm1`, as a sparse matrix without its zeros."""
    inputs = halo_exchange(neighborhood, features.detach().contiguous().numpy())
    for step, _ in _alternations(neighborhood, options, inputs, neighborhood.all_rows, False):
        graph = step.graph
    return graph.to_csr(neighborhood.n_columns)


def _alternations(
    neighborhood: Neighborhood, options: Options, inputs: Array, chosen: Array, some: bool
) -> Iterator[tuple[Step, Array]]:
    """Run Algorithm 1: each step, and the F after it, of the last step in the chosen rows only where that is known.

    ``some`` tells whether rows were chosen, which is so in all processes or in none, even where one chose all it has.
    """
    propagated = inputs[: neighborhood.n_rows]
    for number in range(1, options.step_limit + 1):
        previous = propagated
        last = not options.until_settled and number == options.step_limit
        queried_rows = chosen if last and some else None
        graph_features = inputs if number == 1 else halo_exchange(neighborhood, propagated, queried_rows)
        rows = chosen if last else neighborhood.all_rows
        step, propagated = alternate(neighborhood, options, inputs, graph_features, rows)
        yield step._replace(queried_rows=queried_rows), propagated
        if options.until_settled and _settled(neighborhood, propagated, previous, options.tol):
            return


def _settled(neighborhood: Neighborhood, now: Array, before: Array, tol: float) -> bool:
    sizes = (torch.tensor(np.abs(part).max()) for part in (now - before, now))
    change, largest = map(neighborhood.partition.all_reduce_max, sizes)
    return bool(change <= tol * largest)


class _Algorithm1(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, neighborhood: Neighborhood, options: Options, features: Tensor, chosen: Array, some: bool
    ) -> Tensor:
        inputs = halo_exchange(neighborhood, features.detach().contiguous().numpy())
        steps: list[Step] = []
        for step, output in _alternations(neighborhood, options, inputs, chosen, some):
            propagated = output
            if not (ctx.needs_input_grad[2] and options.graph_gradient):
                steps.clear()  # only the last graph has a part in the gradient
            steps.append(step)
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
        of_inputs = np.empty_like(inputs)
        set_to_zero(of_inputs)
        through_graph = options.graph_gradient and options.beta > 0
        for number, step in reversed(list(enumerate(ctx.steps))):
            if not through_graph:
                propagate_backward(neighborhood, step, of_output, of_inputs, options)
                break
            of_graph_features = alternate_backward(neighborhood, step, inputs, of_output, of_inputs, options)
            if number == 0:
                of_inputs += of_graph_features
            else:
                of_output = halo_reduce(neighborhood, of_graph_features, step.queried_rows)
        return None, None, torch.from_numpy(halo_reduce(neighborhood, of_inputs)), None, None
