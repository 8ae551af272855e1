"""Label spreading against Eq. (3) written out."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
import torch
from numpy.testing import assert_allclose
from torch.testing import assert_close

from angpn import nearest_candidates
from angpn.ensemble.config import EnsembleConfig
from angpn.ensemble.folds import Fold, Labels, TrainingSet
from angpn.ensemble.label_spreading import (
    LabelSpreading,
    SpreadingParameters,
    closed_form,
    closed_form_series,
    spread_labels,
)
from angpn.ensemble.propagated_features import Adjacency, Problem
from angpn.ensemble.user_options import GraphOptions
from angpn.neighbors.partition import ALL_ROWS, Reordered
from ensemble_problems import log_proba

CONFIG = EnsembleConfig()
ROWS, CODES = np.array([0, 3, 4, 9]), np.array([0, 1, 1, 2])


@pytest.fixture(scope="module")
def graph():
    """Of 20 rows on a plane."""
    points = np.random.default_rng(0).normal(size=(20, 2))
    options = GraphOptions(4, 0.0, "auto", "simplex", "directed")
    return options.learn_graph(nearest_candidates(points, 10, "euclidean"), None)


def ring(n):
    """Every row takes from its two neighbours."""
    return scipy.sparse.csr_array((np.roll(np.eye(n), 1, axis=1) + np.roll(np.eye(n), -1, axis=1)) / 2)


def features_on(graph):
    """What label spreading takes of propagated features: the normalized graph."""
    return SimpleNamespace(normalized=Adjacency(graph, "normalized"), partition=ALL_ROWS)


def fitted(graph, rows, codes, weights, alpha, n_classes):
    problem = Problem(features_on(graph), TrainingSet(rows, codes, weights))
    return LabelSpreading.fit([SpreadingParameters(alpha)], [problem], n_classes=n_classes, config=CONFIG)[0][0]


def probabilities(graph, *problem):
    return log_proba(fitted(graph, *problem), features_on(graph)).exp()


def eq03(graph, sources, alpha):
    """(I - alpha A)^-1 (1 - alpha) Y, with A the normalised graph."""
    dense = (graph + graph.T).toarray().astype(np.float64)
    normalized = dense / np.sqrt(np.outer(dense.sum(axis=1), dense.sum(axis=1)))
    return (1 - alpha) * np.linalg.solve(np.eye(len(dense)) - alpha * normalized, sources)


@pytest.mark.parametrize(
    ("alpha", "weights"),
    [(0.01, None), (0.5, None), (0.9, np.array([1.0, 3.0, 1.0, 0.2])), (0.99, None), (0.999, None)],
)
def test_scores_are_the_closed_form_of_eq03_up_to_scale(graph, alpha, weights):
    sources = np.zeros((20, 3))
    sources[ROWS, CODES] = 1 if weights is None else weights
    expected = eq03(graph, sources / sources.sum(axis=0), alpha)
    found = fitted(graph, ROWS, CODES, weights, alpha, 3).scores.numpy()
    assert_allclose(found / found.max(), expected / expected.max(), atol=1e-4)


@pytest.mark.parametrize("alpha", [0.01, 0.5, 0.9, 0.97, 0.99, 0.999])
@pytest.mark.parametrize("tol", [1e-2, 1e-4])
def test_the_series_leaves_out_no_more_than_its_tolerance(graph, alpha, tol):
    sources = torch.eye(20)
    (found,) = closed_form_series(sources, Adjacency(graph, "normalized"), [alpha], replace(CONFIG, spreading_tol=tol))
    # No term is larger than its factor, as no eigenvalue of A is beyond 1; the terms themselves are float32.
    left_out = tol * (1 - alpha) / math.sqrt(1 - alpha**2)
    assert np.linalg.norm(found.numpy() - eq03(graph, np.eye(20), alpha), ord=2) < left_out + 1e-5


def test_several_alphas_at_once_are_each_as_if_alone(graph):
    sources = torch.eye(20)[:, :3]
    adjacency, alphas = Adjacency(graph, "normalized"), [0.97, 0.5, 0.9]
    found = closed_form_series(sources, adjacency, alphas, CONFIG)
    assert len(found) == 3
    for scores, alpha in zip(found, alphas, strict=True):
        assert_allclose(scores, eq03(graph, sources.numpy(), alpha), atol=1e-4)
        assert_close(scores, closed_form_series(sources, adjacency, [alpha], CONFIG)[0])
    assert closed_form_series(sources, adjacency, [], CONFIG) == []


def test_no_more_products_than_the_largest_alpha_needs(graph):
    adjacency, counts = Adjacency(graph, "normalized"), []

    def counted(features):
        counts.append(1)
        return adjacency(features)

    closed_form_series(torch.eye(20)[:, :3], counted, [0.9, 0.97], CONFIG)
    assert len(counts) == 46
    counts.clear()
    closed_form_series(torch.eye(20)[:, :3], counted, [0.9, 0.97], replace(CONFIG, spreading_max_terms=7))
    assert len(counts) == 7


@pytest.mark.parametrize("n", [40, 400])
def test_few_rows_as_a_dense_system_and_many_as_a_series_are_eq03(n):
    sources = torch.zeros(n, 2)
    sources[0, 0] = sources[n // 3, 1] = 1.0
    for alpha, found in zip(
        (0.5, 0.97), closed_form(sources, Adjacency(ring(n), "normalized"), (0.5, 0.97), CONFIG), strict=True
    ):
        assert_close(
            found, torch.from_numpy(eq03(ring(n), sources.numpy(), alpha)).float(), rtol=0, atol=CONFIG.spreading_tol
        )


def test_the_mean_margin_is_that_of_an_average_head(graph):
    scores = fitted(graph, ROWS, CODES, None, 0.9, 3).scores
    margin = (scores.max(dim=1).values - scores.mean(dim=1)).mean()
    assert float(margin) == pytest.approx(CONFIG.spreading_margin, rel=1e-5)


def test_each_class_sends_out_equally_much_whatever_its_number_of_labels():
    rows, codes = np.array([0, 5, 6, 7, 8]), np.array([0, 1, 1, 1, 1])
    sent = fitted(ring(12), rows, codes, None, 0.9, 2).scores.sum(dim=0)
    assert float(sent[0]) == pytest.approx(float(sent[1]), rel=1e-3)


def test_a_row_is_most_probably_of_the_class_whose_labels_are_nearer():
    found = probabilities(ring(12), np.array([0, 6]), np.array([0, 1]), None, 0.99, 2)
    assert (found[[10, 11, 0, 1, 2], 0] > 0.5).all()
    assert (found[4:9, 1] > 0.5).all()


def test_a_label_of_weight_zero_sends_out_nothing(graph):
    weights = np.array([1.0, 0.0, 1.0, 1.0])
    without = fitted(graph, ROWS[[0, 2, 3]], CODES[[0, 2, 3]], None, 0.9, 3)
    assert_close(fitted(graph, ROWS, CODES, weights, 0.9, 3).scores, without.scores)


def test_a_class_without_labels_is_never_the_most_probable(graph):
    found = probabilities(graph, ROWS, np.array([1, 2, 2, 1]), None, 0.9, 4)
    assert np.isin(found.argmax(dim=1), [1, 2]).all()
    assert found[:, [0, 3]].max() < 1e-12


def test_rows_without_neighbours_have_probabilities_too(graph):
    apart = scipy.sparse.csr_array(scipy.sparse.block_diag([graph, np.zeros((3, 3))]))
    found = probabilities(apart, np.append(ROWS, 20), np.append(CODES, 1), None, 0.9, 3)
    assert torch.isfinite(found).all()
    assert_close(found.sum(dim=1), torch.ones(23))
    assert found[20].argmax() == 1  # it has its own label
    assert_close(found[21:], torch.full((2, 3), 1 / 3))  # nothing reaches these


def test_a_new_row_has_the_scores_of_the_rows_that_it_takes_from(graph):
    learner = fitted(graph, ROWS, CODES, None, 0.9, 3)
    weights = np.zeros((3, 20), dtype=np.float32)
    weights[0, 7], weights[1, [2, 11]] = 1.0, 0.5
    new = SimpleNamespace(receive=lambda values: torch.from_numpy(weights @ values.numpy()))
    found = learner.log_proba_new(new)
    assert_close(found[0], log_proba(learner, features_on(graph))[7])
    assert_close(found[1], learner.scores[[2, 11]].mean(dim=0).log_softmax(dim=0))
    assert_close(found[2].exp(), torch.full((3,), 1 / 3))


def test_cross_validation_spreads_the_labels_of_each_fold_alone(graph):
    codes = np.full(20, -1)
    codes[ROWS] = CODES
    folds = [Fold(ROWS[[0, 1, 3]], ROWS[[2]]), Fold(ROWS[[0, 2, 3]], ROWS[[1]])]
    labels = Labels(codes, np.arange(20.0) + 1, folds, False)
    candidates = [SpreadingParameters(0.9), SpreadingParameters(0.5)]
    several = LabelSpreading.cross_validate(candidates, features_on(graph), labels, slice(None), config=CONFIG)
    for candidate, found in zip(candidates, several, strict=True):
        expected = [
            probabilities(graph, rows, codes[rows], labels.weights[rows], candidate.alpha, 3)[held]
            for rows, held in folds
        ]
        assert_close(found.exp(), torch.cat(expected))


def test_rows_in_another_order_get_the_same_scores_back_in_the_order_of_the_data(graph):
    order = np.random.default_rng(0).permutation(20)
    partition = Reordered(torch.from_numpy(order))
    adjacency = Adjacency(graph[order][:, order], "normalized", partition)
    ((scores,),) = spread_labels(adjacency, [TrainingSet(ROWS, CODES, None)], [0.9], 3, CONFIG)
    expected = fitted(graph, ROWS, CODES, None, 0.9, 3)
    found = LabelSpreading(SpreadingParameters(0.9), scores)
    assert_close(found.in_data_order(partition).scores, expected.scores, rtol=1e-5, atol=1e-5)
    features = SimpleNamespace(partition=partition)
    rows = np.array([7, 2])
    assert_close(
        found.log_proba_of(features, rows), log_proba(expected, features_on(graph))[rows], rtol=1e-5, atol=1e-5
    )


def test_a_class_of_light_labels_sends_as_much_as_any_other(graph):
    usual = fitted(graph, ROWS, CODES, None, 0.9, 3)
    light = fitted(graph, ROWS, CODES, np.array([1.0, 1e-14, 1e-14, 1e14]), 0.9, 3)
    assert_close(light.scores, usual.scores)
