"""New rows and a trained ensemble: each is a further row of the graph, whatever the others are."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch.testing import assert_close

from angpn import neighbor_graph
from angpn.ensemble.inductive import NewRows
from angpn.ensemble.label_spreading import LabelSpreading
from angpn.ensemble.mixture import Mixture
from angpn.ensemble.propagated_features import Adjacency, after_each_hop, propagate_hops
from angpn.neighbors.neighborhood import Neighborhood
from ensemble_problems import LINEAR, SPREADING, TRUTH, answers, inductive, moved, trained_ensemble

# New rows


@pytest.mark.parametrize("direction", ["directed", "normalized"])
def test_a_row_near_a_fitted_one_gets_about_its_prediction(direction):
    fitted, rows = trained_ensemble(direction=direction)
    _, found = answers(fitted, rows, moved(rows, 1e-4))
    assert (found.argmax(dim=1) == fitted.probabilities.argmax(dim=1)).float().mean() > 0.95
    assert (found - fitted.probabilities).abs().mean() < 0.03


def test_new_rows_of_the_clusters_get_their_class():
    _, found = answers(*trained_ensemble(), moved(np.eye(4)[TRUTH], 0.1))
    assert np.mean(found.argmax(dim=1).numpy() == TRUTH) > 0.95
    assert_allclose(found.sum(dim=1), 1, rtol=1e-5)


def test_the_prediction_for_a_new_row_does_not_depend_on_the_others_of_its_batch():
    fitted, rows = trained_ensemble()
    new = moved(rows, 0.3)
    together = answers(fitted, rows, new)
    for some in (slice(7, 8), slice(20, 50)):
        for alone, found in zip(answers(fitted, rows, new[some]), together, strict=True):
            assert_allclose(alone, found[some], rtol=1e-4, atol=1e-5)


def test_very_many_new_rows_are_taken_in_parts():
    fitted, rows = trained_ensemble()
    new = moved(rows, 0.3)
    some = answers(fitted, rows, new)
    times = 2**12 // 90 + 2  # more rows than are taken at once
    many = answers(fitted, rows, np.tile(new, (times, 1)))
    for found, expected in zip(many, some, strict=True):
        assert_allclose(found, expected.repeat(times, 1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("gamma", "direction", "n_rounds"),
    [("auto", "normalized", 1), ("auto", "normalized", 2), ("local", "directed", 2), (0.4, "symmetric", 2)],
)
def test_a_new_row_is_a_further_row_of_the_graph_that_changes_no_fitted_row(gamma, direction, n_rounds):
    """Written out: S with one row more, whose choice is mutual where S is made symmetric, and powers of P."""
    fitted, rows = trained_ensemble(n_rounds, direction, gamma=gamma)
    ensemble = fitted.ensemble
    new = moved(np.array([[1.0, 0.9, 0.4, 0.0]]), 0.1)  # between the clusters, where every hop counts
    everything = np.vstack([rows, new])
    distances = np.linalg.norm(everything[:, None] - everything, axis=2)
    assert (ensemble.graph_probabilities is None) == (n_rounds == 1)
    probabilities = None
    for of_graph in (None,) if n_rounds == 1 else (None, ensemble.graph_probabilities):
        weights = _weights(distances, of_graph, probabilities, fitted.neighborhood, ensemble.options)
        graph = ensemble.options.learn_graph(fitted.neighborhood, of_graph).toarray()
        if direction == "normalized":
            graph = graph + graph.T
            degrees = graph.sum(axis=1)
            graph, weights = graph / np.sqrt(np.outer(degrees, degrees)), 2 * weights / np.sqrt(2 * degrees)
        elif direction == "symmetric":
            graph = (graph + graph.T) / 2
        adjacency = np.zeros((91, 91))
        adjacency[:90, :90], adjacency[90, :90] = graph, weights
        predicted, propagated = [], []
        for learner in ensemble.learners:
            if isinstance(learner, LabelSpreading):
                predicted.append(torch.from_numpy(weights[None] @ learner.scores.numpy()).softmax(dim=1))
                continue
            alpha, n_hops = learner.parameters.hops
            power = np.linalg.matrix_power(alpha * adjacency + (1 - alpha) * np.eye(91), n_hops)
            propagated.append((power @ everything)[90:])
            predicted.append(learner._log_proba(torch.from_numpy(propagated[-1]).float())[:, 0].exp())
        probabilities = ensemble.calibrate(torch.stack(predicted).mean(dim=0).log()).float()
    embedded, found = answers(fitted, rows, new)
    assert_allclose(embedded, propagated[0], atol=1e-5)
    assert_allclose(found, probabilities, atol=1e-4)


def _weights(distances, of_graph, probabilities, neighborhood, options):
    """The last row of S on all 91 rows."""
    gamma = options.gamma
    if gamma == "auto":  # the mean of the fitted rows
        nearest = neighborhood.distances[:, : options.n_neighbors + 1]
        gamma = float((nearest[:, -1:] - nearest[:, :-1]).sum(dim=1).mean() / 2)
    features = None if of_graph is None else torch.cat([of_graph, probabilities]).double()
    beta = 0.0 if of_graph is None else options.beta
    graph = neighbor_graph(torch.from_numpy(distances), features, n_neighbors=6, beta=beta, gamma=gamma)
    return graph[90, :90].numpy()


def test_label_spreading_alone_serves_new_rows_too():
    fitted, rows = trained_ensemble()
    alone = dataclasses.replace(fitted.ensemble, learners=fitted.ensemble.learners[:1], mixture=Mixture.equal(1))
    assert alone.learners[0].parameters == SPREADING
    embedded, found = answers(fitted._replace(ensemble=alone), rows, moved(np.eye(4)[TRUTH], 0.1))
    assert np.mean(found.argmax(dim=1).numpy() == TRUTH) > 0.95
    assert embedded.shape == (90, 4)


# What fitted rows send to new ones

ALL_HOPS = [(0.5, 2), (0.9, 20), (1.0, 3), (0.3, 1), (0.5, 0), (0.0, 3), (0.0, 0)]


@pytest.mark.parametrize("direction", ["directed", "symmetric", "normalized"])
@pytest.mark.parametrize("hops", ALL_HOPS)
def test_the_closed_sum_is_what_new_rows_receive_hop_after_hop(direction, hops):
    fitted, rows = trained_ensemble(direction=direction)
    found = inductive(fitted, rows)
    features = fitted.ensemble.scaling.features(rows)
    new = fitted.ensemble.scaling.features(moved(rows[:5], 0.3))
    weights = scipy.sparse.random_array((5, 90), density=0.2, rng=np.random.default_rng(0), format="csr")
    alpha, n_hops = hops
    for number, adjacency in enumerate(found.adjacencies):
        expected = new.double().numpy()
        for _, of_fitted in zip(range(n_hops), after_each_hop(features, adjacency, alpha, n_hops), strict=False):
            expected = alpha * (weights @ of_fitted.double().numpy()) + (1 - alpha) * expected
        lists = torch.arange(90).expand(5, -1)
        propagated = NewRows(found, number, new, lists, torch.from_numpy(weights.toarray())).propagated(hops)
        assert_allclose(propagated, expected, rtol=1e-5, atol=1e-5)
        by_sum = weights @ found.sent(number, hops).double().numpy() + (1 - alpha) ** n_hops * new.double().numpy()
        assert_allclose(by_sum, expected, rtol=1e-5, atol=1e-5)
    assert len(found.adjacencies) == 2


def test_what_depends_on_fitted_rows_only_is_computed_once():
    fitted, rows = trained_ensemble()
    found = inductive(fitted, rows)
    assert found.graphs is found.graphs
    assert found.adjacencies is found.adjacencies
    assert found.sent(1, (0.5, 2)) is found.sent(1, (0.5, 2))


def test_in_another_order_of_the_fitted_rows_all_is_the_same_to_the_last_bit(monkeypatch):
    fitted, rows = trained_ensemble()
    new = moved(rows, 0.3)
    expected, sent, embedding = answers(fitted, rows, new), *ordered_parts(inductive(fitted, rows))
    monkeypatch.setattr("angpn.ensemble.inductive._MANY_ROWS", 0)
    monkeypatch.setattr("angpn.neighbors.locality._TOGETHER", 4)
    found = inductive(fitted, rows)
    assert not np.array_equal(found.order, np.arange(90))
    assert_array_equal(np.sort(found.order), np.arange(90))
    for one, other in zip(
        (*answers(fitted, rows, new), *ordered_parts(found)), (*expected, sent, embedding), strict=True
    ):
        assert_array_equal(one, other)


def ordered_parts(found):
    return found.sent(1, (0.8, 3)), found.embedding()


# Graphs and embedding


def test_there_is_a_graph_of_the_first_round_and_one_of_the_last():
    first, both = (inductive(*trained_ensemble(n_rounds)).graphs for n_rounds in (1, 2))
    assert (len(first), len(both)) == (1, 2)
    assert_allclose(both[0].toarray(), first[0].toarray(), atol=1e-6)
    assert abs(both[1] - both[0]).max() > 1e-3
    assert len(inductive(*trained_ensemble(2, beta=0.0)).graphs) == 1


def test_the_embedding_is_the_propagated_features_of_the_best_head():
    fitted, rows = trained_ensemble()
    found, features = inductive(fitted, rows), fitted.ensemble.scaling.features(rows)
    assert fitted.ensemble.embedding_hops == LINEAR.hops
    expected = propagate_hops(features, Adjacency(found.graphs[-1], "normalized"), [LINEAR.hops])[LINEAR.hops]
    assert_close(found.embedding(), expected)


def test_distances_in_float32_give_about_the_same():
    fitted, rows = trained_ensemble()
    neighborhood = Neighborhood(fitted.neighborhood.indices, fitted.neighborhood.distances.float())
    new = moved(rows, 0.3)
    single_fitted = fitted._replace(rows=fitted.rows._replace(neighborhood=neighborhood))
    single = answers(single_fitted, rows.astype(np.float32), new.astype(np.float32))
    for found, expected in zip(single, answers(fitted, rows, new), strict=True):
        assert_allclose(found, expected, atol=1e-3)
