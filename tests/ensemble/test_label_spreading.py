"""Labels that spread by themselves, against Eq. (3) written out."""

import numpy as np
import pytest
import scipy.sparse
import torch
from numpy.testing import assert_allclose
from torch.testing import assert_close

from angpn import nearest_candidates
from angpn.ensemble.base_learners import GraphOptions, PropagationMatrix, learnt_graph
from angpn.ensemble.label_spreading import Spread
from angpn.ensemble.label_spreading import settled as labels_settled

ROWS, CODES = np.array([0, 3, 4, 9]), np.array([0, 1, 1, 2])


@pytest.fixture(scope="module")
def graph():
    """Of 20 rows on a plane."""
    points = np.random.default_rng(0).normal(size=(20, 2))
    return learnt_graph(
        nearest_candidates(points, 10, "euclidean"), GraphOptions(4, 0.0, "auto", "simplex", "directed"), None
    )


def ring(n):
    """Every row takes from its two neighbours."""
    return scipy.sparse.csr_array((np.roll(np.eye(n), 1, axis=1) + np.roll(np.eye(n), -1, axis=1)) / 2)


def spread(graph, rows, codes, weights, alpha, n_classes):
    return Spread.of(PropagationMatrix(graph, "normalized"), rows, codes, weights, [alpha], n_classes)[0]


def settled(graph, sources, alpha):
    """(I - alpha A)^-1 (1 - alpha) Y, with A the normalised graph."""
    dense = (graph + graph.T).toarray().astype(np.float64)
    normalized = dense / np.sqrt(np.outer(dense.sum(axis=1), dense.sum(axis=1)))
    return (1 - alpha) * np.linalg.solve(np.eye(len(dense)) - alpha * normalized, sources)


@pytest.mark.parametrize(
    ("alpha", "weights"),
    [(0.01, None), (0.5, None), (0.9, np.array([1.0, 3.0, 1.0, 0.2])), (0.99, None), (0.999, None)],
)
def test_labels_settle_at_the_closed_form_up_to_scale(graph, alpha, weights):
    sources = np.zeros((20, 3))
    sources[ROWS, CODES] = 1 if weights is None else weights
    expected = settled(graph, sources / sources.sum(axis=0), alpha)
    found = spread(graph, ROWS, CODES, weights, alpha, 3).scores.numpy()
    assert_allclose(found / found.max(), expected / expected.max(), atol=1e-4)


def test_several_alphas_at_once_are_each_as_if_alone(graph):
    sources = torch.eye(20)[:, :3]
    mixing, alphas = PropagationMatrix(graph, "normalized"), [0.97, 0.5, 0.9]
    expected = [settled(graph, sources.numpy(), alpha) for alpha in alphas]
    found = labels_settled(sources, mixing, alphas)
    assert len(found) == 3
    for of_alpha, truth in zip(found, expected, strict=True):
        assert_allclose(of_alpha, truth, atol=1e-4)
    assert labels_settled(sources, mixing, []) == []


def test_no_more_products_than_the_farthest_reach_needs(graph):
    mixing, counts = PropagationMatrix(graph, "normalized"), []

    def counted(features):
        counts.append(1)
        return mixing(features)

    labels_settled(torch.eye(20)[:, :3], counted, [0.9, 0.97])
    assert len(counts) == 46


def test_each_class_sends_out_equally_much_whatever_its_number_of_labels():
    rows, codes = np.array([0, 5, 6, 7, 8]), np.array([0, 1, 1, 1, 1])
    sent = spread(ring(12), rows, codes, None, 0.9, 2).scores.sum(dim=0)
    assert float(sent[0]) == pytest.approx(float(sent[1]), rel=1e-3)


def test_a_row_is_most_probably_of_the_class_whose_labels_are_nearer():
    probabilities = spread(ring(12), np.array([0, 6]), np.array([0, 1]), None, 0.99, 2).log_probabilities().exp()
    assert (probabilities[[10, 11, 0, 1, 2], 0] > 0.5).all()
    assert (probabilities[4:9, 1] > 0.5).all()


def test_a_label_of_weight_zero_sends_out_nothing(graph):
    weights = np.array([1.0, 0.0, 1.0, 1.0])
    without = spread(graph, ROWS[[0, 2, 3]], CODES[[0, 2, 3]], None, 0.9, 3)
    assert_close(spread(graph, ROWS, CODES, weights, 0.9, 3).scores, without.scores)


def test_a_class_without_a_label_is_never_the_most_probable(graph):
    probabilities = spread(graph, ROWS, np.array([1, 2, 2, 1]), None, 0.9, 4).log_probabilities().exp()
    assert np.isin(probabilities.argmax(dim=1), [1, 2]).all()


def test_rows_without_neighbours_have_probabilities_too(graph):
    apart = scipy.sparse.csr_array(scipy.sparse.block_diag([graph, np.zeros((3, 3))]))
    probabilities = spread(apart, np.append(ROWS, 20), np.append(CODES, 1), None, 0.9, 3).log_probabilities().exp()
    assert torch.isfinite(probabilities).all()
    assert_close(probabilities.sum(dim=1), torch.ones(23))
    assert probabilities[20].argmax() == 1  # it has its own label
    assert_close(probabilities[21:], torch.full((2, 3), 1 / 3))  # nothing reaches these


def test_a_new_row_says_what_those_say_that_it_takes_from(graph):
    member = spread(graph, ROWS, CODES, None, 0.9, 3)
    takes = np.zeros((3, 20))
    takes[0, 7], takes[1, [2, 11]] = 1.0, 0.5
    found = member.unseen(scipy.sparse.csr_array(takes))
    assert_close(found[0], member.log_probabilities()[7])
    assert_close(found[1], member.scores[[2, 11]].mean(dim=0).log_softmax(dim=0))
    assert_close(found[2].exp(), torch.full((3,), 1 / 3))
