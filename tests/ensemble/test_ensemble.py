"""A committee and new rows: each takes part as a fitted row does, whatever the others are."""

import dataclasses
import functools
import itertools

import numpy as np
import pytest
import scipy.sparse
import torch
from numpy.testing import assert_allclose, assert_array_equal

from angpn import nearest_candidates, neighbor_graph
from angpn.ensemble import ensemble as committee_module
from angpn.ensemble.base_learners import GraphOptions, PropagationMatrix, Setting, learnt_graph, propagated
from angpn.ensemble.fit import Chosen, Labels, Look, Request, train
from angpn.ensemble.label_spreading import Spread, SpreadSetting
from angpn.ensemble.scaling import View
from angpn.estimators.fitted import FittedCommittee
from angpn.neighbors.exact import nearest_fitted
from angpn.neighbors.neighborhood import Neighborhood

SETTINGS = [SpreadSetting(0.9), Setting(0.5, 2, None, 10.0), Setting(0.8, 3, 1.0, 100.0)]
TRUTH = np.arange(90) % 3


@functools.cache
def trained(n_rounds=2, direction="normalized", beta=0.3, gamma="auto", kind=np.asarray):
    """Three clusters, six labels in each, and a committee whose candidates are all rows."""
    generator = np.random.default_rng(0)
    X = kind(2 * np.eye(4)[TRUTH] + 0.7 * generator.normal(size=(90, 4)))
    view = View.of(X, "unit", "chord", 0)
    rows = view.rows(X)
    neighborhood = nearest_candidates(rows, 89, "chord")
    request = Request([], None, GraphOptions(6, beta, gamma, "simplex", direction), None, None, False, None, None, 0)
    chosen = Chosen(Look(view, neighborhood, view.features(rows)), SETTINGS, [])
    labels = Labels(np.where(np.arange(90) < 18, TRUTH, -1), None, [], False)
    *_, state = itertools.islice(train(chosen, labels, request), n_rounds)
    return FittedCommittee(state.committee, rows, neighborhood, "chord", state.beliefs.numpy().astype(X.dtype))


@pytest.fixture(scope="module")
def fitted():
    return trained()


def moved(rows, size, seed=1):
    rows = rows + size * np.random.default_rng(seed).normal(size=rows.shape)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def answers(fitted, rows):
    return fitted.unseen(rows, *nearest_fitted(fitted.rows, rows, fitted.neighborhood.n_candidates, fitted.metric))


@pytest.mark.parametrize("direction", ["directed", "normalized"])
def test_a_row_near_a_fitted_one_gets_about_its_answer(direction):
    fitted = trained(direction=direction)
    _, found = answers(fitted, moved(fitted.rows, 1e-4))
    assert np.mean(found.argmax(axis=1) == fitted.known.argmax(axis=1)) > 0.95
    assert np.abs(found - fitted.known).mean() < 0.03


def test_new_rows_of_the_clusters_get_their_class(fitted):
    _, found = answers(fitted, moved(np.eye(4)[TRUTH], 0.1))
    assert np.mean(found.argmax(axis=1) == TRUTH) > 0.95
    assert_allclose(found.sum(axis=1), 1, rtol=1e-5)


def test_a_new_row_does_not_see_the_others_of_its_batch(fitted):
    rows = moved(fitted.rows, 0.3)
    together = answers(fitted, rows)
    for some in (slice(7, 8), slice(20, 50)):
        for alone, found in zip(answers(fitted, rows[some]), together, strict=True):
            assert_allclose(alone, found[some], rtol=1e-4, atol=1e-6)


def test_many_new_rows_are_taken_in_parts(fitted, monkeypatch):
    rows = moved(fitted.rows, 0.3)
    whole = answers(fitted, rows)
    monkeypatch.setattr(committee_module, "_ROWS_AT_ONCE", 7)
    for found, expected in zip(answers(fitted, rows), whole, strict=True):
        assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("gamma", "direction", "n_rounds"),
    [("auto", "normalized", 1), ("auto", "normalized", 2), ("local", "directed", 2), (0.4, "symmetric", 2)],
)
def test_a_new_row_is_a_further_row_of_the_graph_that_no_fitted_row_was_changed_by(gamma, direction, n_rounds):
    """Written out: S with one row more, whose choice is mutual where S is made symmetric, and powers of P."""
    fitted = trained(n_rounds, direction, gamma=gamma)
    new = moved(np.array([[1.0, 0.9, 0.4, 0.0]]), 0.1)  # between the clusters, where every hop counts
    distances = np.linalg.norm(np.vstack([fitted.rows, new])[:, None] - np.vstack([fitted.rows, new]), axis=2)
    beliefs = fitted.committee.beliefs
    assert (beliefs is None) == (n_rounds == 1)
    probabilities = None
    for step in (None,) if beliefs is None else (None, beliefs):
        weights = _choice(distances, step, probabilities, fitted.neighborhood, fitted.committee.options)
        graph = learnt_graph(fitted.neighborhood, fitted.committee.options, step).toarray()
        if direction == "normalized":
            graph = graph + graph.T
            degrees = graph.sum(axis=1)
            graph, weights = graph / np.sqrt(np.outer(degrees, degrees)), 2 * weights / np.sqrt(2 * degrees)
        elif direction == "symmetric":
            graph = (graph + graph.T) / 2
        mixing = np.zeros((91, 91))
        mixing[:90, :90], mixing[90, :90] = graph, weights
        opinions, hops = [], []
        for setting, member in zip(fitted.committee.settings, fitted.committee.readouts, strict=True):
            if isinstance(member, Spread):
                opinions.append(torch.from_numpy(weights[None] @ member.scores.numpy()).softmax(dim=1))
                continue
            power = np.linalg.matrix_power(setting.alpha * mixing + (1 - setting.alpha) * np.eye(91), setting.hops)
            hops.append((power @ np.vstack([fitted.rows, new]))[90:])
            opinions.append(member(torch.from_numpy(hops[-1]).float()).exp())
        mean = torch.stack(opinions).mean(dim=0)
        probabilities = fitted.committee.calibration(mean.log()).float()
    embedded, found = answers(fitted, new)
    assert_allclose(embedded, hops[0], atol=1e-5)
    assert_allclose(found, probabilities, atol=1e-4)


def _choice(distances, beliefs, probabilities, neighborhood, options):
    gamma = options.gamma
    if gamma == "auto":  # the mean of the fitted rows
        nearest = neighborhood.distances[:, : options.n_neighbors + 1]
        gamma = float((nearest[:, -1:] - nearest[:, :-1]).sum(dim=1).mean() / 2)
    features = None if beliefs is None else torch.cat([beliefs, probabilities]).double()
    beta = 0.0 if beliefs is None else options.beta
    graph = neighbor_graph(torch.from_numpy(distances), features, n_neighbors=6, beta=beta, gamma=gamma)
    return graph[90, :90].numpy()


def test_there_is_a_graph_of_the_first_round_and_one_of_the_last():
    first, both = trained(1), trained(2)
    assert len(first.graphs()) == 1
    assert len(both.graphs()) == 2
    assert_array_equal(both.graphs()[0].toarray(), first.graphs()[0].toarray())
    assert abs(both.graphs()[1] - both.graphs()[0]).max() > 0
    assert len(trained(2, beta=0.0).graphs()) == 1


def test_the_embedding_is_what_the_best_member_with_features_sees():
    fitted = trained()
    best, features = SETTINGS[1], torch.from_numpy(fitted.rows).float()
    hopped = propagated(features, PropagationMatrix(fitted.graphs()[-1], "normalized"), [best.reach])[best.reach]
    assert_allclose(fitted.embedding(), hopped, rtol=1e-6)
    assert fitted.width == 4


def test_paths_lead_from_the_rows_to_what_each_member_with_features_sees(fitted):
    features = torch.from_numpy(fitted.rows).float()
    paths = fitted.paths(fitted.graphs())
    assert [len(path) for path in paths[1:]] == [2, 3]
    for setting, path in zip(SETTINGS[1:], paths[1:], strict=True):
        expected = propagated(features, PropagationMatrix(fitted.graphs()[-1], "normalized"), [setting.reach])[
            setting.reach
        ]
        found = fitted.rows
        for mixing in path:
            found = mixing @ found
        assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
def test_a_fitted_row_is_recognised_and_only_that(kind):
    fitted = trained(kind=kind)
    # Answers that the committee itself would not give show which rows were recognised.
    marked = dataclasses.replace(fitted, known=np.tile([0.25, 0.25, 0.5], (90, 1)))
    dense = np.asarray(fitted.rows.toarray() if kind is scipy.sparse.csr_array else fitted.rows)
    mixed = np.where(np.arange(90)[:, None] % 2 == 0, dense, moved(dense, 1e-6))
    embedded, found = answers(marked, kind(mixed))
    recognised = (found == [0.25, 0.25, 0.5]).all(axis=1)
    assert_array_equal(recognised, np.arange(90) % 2 == 0)
    assert_array_equal(embedded[recognised], fitted.embedding()[recognised])


def test_an_empty_row_is_recognised_where_one_was_fitted(fitted):
    rows = fitted.rows.copy()
    rows[5] = 0
    with_empty = dataclasses.replace(fitted, rows=rows, known=np.eye(3)[TRUTH])
    empty = np.zeros((1, 4))
    indices, near = torch.arange(1, 90)[None], torch.ones(1, 89, dtype=torch.float64)
    assert_array_equal(with_empty.unseen(empty, indices, near)[1], np.eye(3)[TRUTH[5:6]])
    assert not np.isin(fitted.unseen(empty, indices, near)[1], (0, 1)).all()


def test_answers_have_the_type_of_the_rows(fitted):
    single = dataclasses.replace(
        fitted,
        rows=fitted.rows.astype(np.float32),
        neighborhood=Neighborhood(fitted.neighborhood.indices, fitted.neighborhood.distances.float()),
        known=fitted.known.astype(np.float32),
    )
    rows = moved(fitted.rows, 0.3)
    found = answers(single, rows.astype(np.float32))
    assert {part.dtype for part in found} == {np.dtype(np.float32)}
    assert single.embedding().dtype == np.float32
    assert_allclose(found[1], answers(fitted, rows)[1], atol=1e-3)


def test_labels_that_spread_alone_serve_new_rows_too(fitted):
    committee = fitted.committee
    alone = dataclasses.replace(committee, settings=committee.settings[:1], readouts=committee.readouts[:1])
    embedded, found = answers(dataclasses.replace(fitted, committee=alone), moved(np.eye(4)[TRUTH], 0.1))
    assert np.mean(found.argmax(axis=1) == TRUTH) > 0.95
    assert embedded.shape == (90, fitted.width)
