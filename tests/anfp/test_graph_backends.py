"""Graph learning as one function, whatever the features."""

import pytest
import scipy.sparse
import torch
from torch.testing import assert_close

from angpn import nearest_candidates, neighbor_graph, pairwise_distances
from angpn.anfp.graph_backends import learn_graph

N, K = 30, 5


@pytest.fixture(scope="module")
def problem():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(N, 4, generator=generator, dtype=torch.float64)
    features = torch.randn(N, 6, generator=generator, dtype=torch.float64)
    return nearest_candidates(x, N - 1), pairwise_distances(x), torch.where(features > 0, features, 0)


@pytest.mark.parametrize(("rule", "gamma"), [("simplex", "auto"), ("simplex", "local"), ("printed", 0.7)])
@pytest.mark.parametrize("kind", ["compiled", "torch", "sparse"])
def test_where_every_row_is_a_candidate_it_is_the_full_graph(problem, rule, gamma, kind, monkeypatch):
    neighborhood, distances, features = problem
    options = {"n_neighbors": K, "beta": 0.2, "gamma": gamma, "rule": rule}
    if kind == "torch":
        monkeypatch.setattr("angpn.anfp.graph_backends.can_compile", lambda features: False)
    given = scipy.sparse.csr_array(features.numpy()) if kind == "sparse" else features
    found = learn_graph(neighborhood, given, **options)
    assert (found.data > 0).all()
    assert_close(torch.from_numpy(found.toarray()), neighbor_graph(distances, features, **options))


def test_without_features_the_distances_alone_decide(problem):
    neighborhood, distances, _ = problem
    found = learn_graph(neighborhood, None, n_neighbors=K, beta=0.3)
    expected = neighbor_graph(distances, n_neighbors=K, beta=0.0)
    assert_close(torch.from_numpy(found.toarray()), expected.float())
