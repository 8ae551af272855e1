"""Cost of the restriction to candidates: S over all rows, for a sample of them, beside S on the lists."""

import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor

from angpn.anfp.algorithm import unit_rows
from angpn.anfp.neighbor_graph import neighbor_weights, resolve_gamma
from angpn.neighbors.exact import Metric, distances_from
from angpn.neighbors.neighborhood import Neighborhood
from angpn.network.conv import ANGPNConv
from angpn.network.model import ANGPN
from angpn.utils.checks import as_float_tensor, as_sparse_rows, warn


class Coverage(NamedTuple):
    """How much of the full graph lies outside the candidates, on a sample of rows.

    Attributes:
        input_mass_outside: mean share of a row of S in the first layer, without rows whose distances all tie.
        hidden_mass_outside: the same in the last hidden layer.
        n_sampled: number of sampled rows.
        n_all_tied: sampled rows to which every other row is equally far, so that S has weight on all of them.
        n_changed: sampled rows whose predicted class would change.
    """

    input_mass_outside: float
    hidden_mass_outside: float
    n_sampled: int
    n_all_tied: int
    n_changed: int


def candidate_coverage(
    network: ANGPN,
    features: Any,  # (n, d), dense or sparse, as the network was trained on
    neighborhood: Neighborhood,
    metric: Metric = "chord",
    *,
    distances: Any = None,  # (n, n), if the metric is "precomputed"
    n_sample: int = 200,
    random_state: int = 0,
) -> Coverage:
    """Compare S on the candidates with S over all rows, for ``n_sample`` random rows.

    In every layer the last graph of Algorithm 1 is solved again for the sampled rows with every other row as a
    candidate, all else as it was. A warning is given if that changes the class of more than one row in a hundred; the
    remedy is more candidates.

    Args:
        network: the trained network.
        features: the rows it was trained on.
        neighborhood: their candidates.
        metric: of the distances to all rows, see :func:`angpn.pairwise_distances`.
        distances: the full matrix, if the metric is "precomputed".
        n_sample: number of rows to sample.
        random_state: seed of the sample.

    Returns:
        The mass of S outside the candidates, and how many predictions it changes.
    """
    generator = torch.Generator().manual_seed(int(random_state))
    sample = torch.randperm(neighborhood.n_rows, generator=generator)[: min(n_sample, neighborhood.n_rows)]
    if network.perceptron.weight.device.type != "cpu":
        network = copy.deepcopy(network).cpu()
    dtype = network.perceptron.weight.dtype
    given = features if metric != "precomputed" else distances
    to_all = distances_from(given, sample.numpy(), metric).to(dtype)
    others = torch.isfinite(to_all)
    tied = to_all.masked_fill(~others, -torch.inf).amax(dim=1) == to_all.amin(dim=1)
    inputs = as_sparse_rows(features, dtype)
    if inputs is None:
        inputs = as_float_tensor(features, "features").to(dtype)
    outside = []
    with torch.no_grad():
        logits = network(inputs, neighborhood)
        moved: Tensor | float = 0.0  # change of the sampled rows by the layers before
        for conv in network.convs:
            assert isinstance(conv, ANGPNConv)
            full = _full_rows(conv, inputs, neighborhood, sample, to_all)
            total = full.sum(dim=1)  # 0 where Eq. (9) to the letter left a row nothing
            inside = full.gather(1, neighborhood.indices[sample].long()).sum(dim=1)
            outside.append(torch.where(total > 0, 1 - inside / total, 0).clamp(min=0))
            restricted = torch.from_numpy(conv.graph_matrix(inputs, neighborhood)[sample.numpy()].toarray())
            received = _share(conv) * _times(full - restricted, inputs)
            propagated = conv.propagate(inputs, neighborhood)
            mapped = propagated[sample] @ conv.weight + (received + (1 - conv.alpha) * moved) @ conv.weight
            hidden = conv.transform(propagated)
            moved = (mapped if conv.activation is None else conv.activation(mapped)) - hidden[sample]
            inputs = hidden
        changed = network.logits(inputs[sample] + moved).argmax(dim=1) != logits[sample].argmax(dim=1)
    untied = ~tied
    means = [float(share[untied].mean()) if untied.any() else 0.0 for share in outside]
    found = Coverage(means[0], means[-1], len(sample), int(tied.sum()), int(changed.sum()))
    if found.n_changed > found.n_sampled / 100:
        warn(
            f"{found.n_changed} of {found.n_sampled} sampled rows would be labelled otherwise with every row as a "
            f"candidate ({found.input_mass_outside:.1%} of the first graph and {found.hidden_mass_outside:.1%} of the "
            f"last lie outside the {neighborhood.n_candidates} candidates); raise n_candidates, and if columns differ "
            "in scale, standardise them"
        )
    return found


def _times(weights: Tensor, inputs: Any) -> Tensor:
    """Return rows of a graph times dense or sparse features."""
    return weights @ inputs if isinstance(inputs, Tensor) else torch.from_numpy(weights.numpy() @ inputs)


def _share(conv: ANGPNConv) -> float:
    """Return the weight of a row's own choices in what it receives; an approximation where degrees are divided out."""
    return conv.alpha if conv.direction == "directed" else conv.alpha / 2


def _full_rows(
    conv: ANGPNConv, inputs: Any, neighborhood: Neighborhood, sample: Tensor, distances: Tensor
) -> Tensor:  # (r, n)
    """Return the last S of Algorithm 1 in the sampled rows, with every other row as a candidate."""
    gamma = resolve_gamma(neighborhood.distances.to(distances.dtype), conv.n_neighbors, conv.gamma)
    graph_features = conv.after_steps(None if conv.num_steps is None else conv.num_steps - 1, inputs, neighborhood)
    if isinstance(graph_features, Tensor):
        graph_features = unit_rows(graph_features) if conv.normalize else graph_features
        affinities = graph_features[sample] @ graph_features.T
    else:
        affinities = torch.from_numpy((graph_features[sample.numpy()] @ graph_features.T).toarray())
    return neighbor_weights(
        distances,
        affinities if conv.beta > 0 else None,
        n_neighbors=conv.n_neighbors,
        beta=conv.beta,
        gamma=gamma if gamma.ndim == 0 else gamma[sample],
        rule=conv.rule,
    )
