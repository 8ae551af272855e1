"""ANGPNClassifier: what it promises to those who only call fit and predict."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine, make_blobs, make_moons
from sklearn.neighbors import KNeighborsTransformer

from angpn import ANGPNClassifier, EnsembleConfig
from angpn.ensemble import model_selection as selection
from angpn.estimators import influence as influence_module
from problems import odd_rows

SHORT_SEARCH = EnsembleConfig(hops=((0.5, 2),))  # one that does not take long


def quick(config=SHORT_SEARCH, **options):
    brief = {"metric": "chord", "n_neighbors": 5, "max_rounds": 1, "random_state": 0}
    return ANGPNClassifier(config=config, **brief | options)


@pytest.fixture(scope="module")
def blobs():
    """Three clusters of 30 rows that touch, 30 labels, and half of them to validate on, which makes one fold."""
    X, truth = make_blobs([30, 30, 30], n_features=5, cluster_std=4.0, random_state=1, shuffle=False)
    y = np.where(np.arange(90) % 3 == 0, truth, -1)
    return X, y, truth, np.arange(90) % 6 == 0


@pytest.fixture(scope="module")
def fitted(blobs):
    X, y, _, mask = blobs
    return quick().fit(X, y, validation_mask=mask)


def some_of_each(truth, count):
    """The labels of so many rows of each class, drawn at random."""
    y = np.full(len(truth), -1)
    for name in np.unique(truth):
        rows = np.random.default_rng(0).choice(np.flatnonzero(truth == name), count, replace=False)
        y[rows] = name
    return y


# By default


@pytest.mark.parametrize(
    ("load", "count", "accuracy"),
    [
        (lambda: load_iris(return_X_y=True), 21, 0.9),
        (lambda: load_wine(return_X_y=True), 21, 0.9),
        (lambda: make_moons(400, noise=0.05, random_state=0), 1, 0.8),
    ],
    ids=["iris", "wine", "moons"],
)
def test_most_unlabelled_rows_get_their_label(load, count, accuracy):
    X, truth = load()
    y = some_of_each(truth, count)
    model = ANGPNClassifier(random_state=0).fit(X, y)
    unlabelled = y == -1
    assert np.mean(model.transduction_[unlabelled] == truth[unlabelled]) >= accuracy


def test_texts_and_graphs_that_are_learnt_have_more_candidates():
    X, y = np.random.default_rng(0).random((40, 5)), np.arange(40) % 2
    for rows, beta, per_neighbor in ((X, 0.0, 3), (X, 0.1, 4), (scipy.sparse.csr_array(X), 0.0, 4)):
        assert quick(beta=beta).fit(rows, y).neighborhood_.n_candidates == per_neighbor * 5


def test_what_a_fit_leaves_behind(fitted, blobs):
    X, _, truth, mask = blobs
    assert_array_equal(fitted.classes_, [0, 1, 2])
    assert_allclose(fitted.label_distributions_.sum(axis=1), 1, rtol=1e-5)
    assert_array_equal(fitted.transduction_, fitted.label_distributions_.argmax(axis=1))
    assert fitted.n_iter_ == len(fitted.loss_curve_) == len(fitted.validation_scores_) == 2
    assert fitted.best_validation_score_ == fitted.validation_scores_[fitted.best_iter_ - 1]
    assert fitted.best_validation_score_ == np.mean(fitted.validation_transduction_ == truth[mask])
    assert_array_equal(fitted.validation_mask_, mask)
    assert_array_equal(fitted.validation_transduction_, fitted.transduction_[mask])
    assert_allclose(fitted.validation_distributions_.sum(axis=1), 1, rtol=1e-5)
    assert_array_equal(fitted.validation_transduction_, fitted.validation_distributions_.argmax(axis=1))
    assert len(fitted.layer_graphs_) == fitted.best_iter_
    assert_allclose(fitted.graph_.sum(axis=1), 1, rtol=1e-5)
    assert fitted.embedding_.shape == fitted.transform(X).shape == (90, 5)
    assert not hasattr(fitted, "module_")


def test_without_validation_rows_labels_are_held_out_in_turn(blobs):
    X, _, truth, _ = blobs
    y = some_of_each(truth, 2)
    model = quick(max_rounds=0).fit(X, y)
    assert_array_equal(model.validation_mask_, y != -1)
    assert 0 < model.best_validation_score_ <= 1
    assert_array_equal(model.validation_distributions_.argmax(axis=1), model.validation_transduction_)


def test_held_out_probabilities_have_not_learnt_the_label(blobs):
    X, _, truth, _ = blobs
    y = some_of_each(truth, 8)
    wrong = np.flatnonzero(y == 0)[0]
    y[wrong] = 1
    model = quick(max_rounds=0).fit(X, y)
    held_out = model.validation_distributions_[np.flatnonzero(model.validation_mask_) == wrong]
    assert held_out.argmax() == 0
    assert held_out[0, 1] < model.label_distributions_[wrong, 1]


def test_others_held_out_in_turn_do_not_count_as_validation_rows(blobs):
    X, y, _, mask = blobs
    mask = mask & (np.cumsum(mask) <= 6)
    model = quick(max_rounds=0).fit(X, y, validation_mask=mask)
    assert_array_equal(model.validation_mask_, mask)
    assert_array_equal(model.validation_transduction_, model.transduction_[mask])
    assert model.best_validation_score_ == np.mean(model.transduction_[mask] == y[mask])


def test_predicting_the_fitted_rows_is_the_transduction(fitted, blobs):
    X, *_ = blobs
    assert_array_equal(fitted.predict(X), fitted.transduction_)
    assert_array_equal(fitted.predict_proba(X[20:30]), fitted.label_distributions_[20:30])
    assert_array_equal(fitted.transform(X), fitted.embedding_)


def test_fitted_rows_are_recognised_in_a_table_too(fitted, blobs):
    X, *_ = blobs
    assert_array_equal(fitted.predict_proba(np.asfortranarray(X)), fitted.label_distributions_)
    model = quick().fit(pd.DataFrame(X, columns=list("abcde")), blobs[1], validation_mask=blobs[3])
    found = model.predict_proba(pd.DataFrame(X, columns=list("abcde")))
    assert_array_equal(found, model.label_distributions_)


def test_fitted_rows_are_recognised_with_entries_in_pieces(blobs):
    X, y, _, mask = blobs
    whole = scipy.sparse.csr_array(np.where(np.abs(X) < 3, 0, X))
    pieces = scipy.sparse.csr_array(
        (np.repeat(whole.data / 2, 2), np.repeat(whole.indices, 2), 2 * whole.indptr), shape=whole.shape
    )
    model = quick().fit(whole, y, validation_mask=mask)
    assert_array_equal(model.predict_proba(pieces), model.label_distributions_)


@pytest.mark.parametrize("metric", ["chord", "auto"])
def test_float32_stays_float32_and_is_recognised(blobs, metric):
    X, y, _, mask = blobs
    X = (X * np.geomspace(1, 1000, 5)).astype(np.float32)
    model = quick(metric=metric).fit(X, y, validation_mask=mask)
    if metric == "auto":
        assert model.ensemble_.scaling.center is not None
    found = model.predict_proba(X)
    assert found.dtype == model.label_distributions_.dtype == model.embedding_.dtype == np.float32
    assert_array_equal(found, model.label_distributions_)


def test_sparse_rows_give_what_dense_ones_give(blobs):
    X, y, _, mask = blobs
    X = np.where(np.abs(X) < 3, 0, X)
    dense, sparse = (quick().fit(rows, y, validation_mask=mask) for rows in (X, scipy.sparse.csr_array(X)))
    assert_allclose(sparse.label_distributions_, dense.label_distributions_, atol=1e-3)
    new = X[:9] + X[9:18]
    assert_allclose(sparse.predict_proba(scipy.sparse.csr_array(new)), dense.predict_proba(new), atol=1e-3)
    with pytest.raises(ValueError, match="X must be dense as it was in fit"):
        dense.predict(scipy.sparse.csr_array(new))


@pytest.mark.parametrize(
    ("direction", "kind"),
    [("symmetric", scipy.sparse.csr_array), ("normalized", np.asarray)],
)
def test_odd_rows_have_probabilities_too(direction, kind):
    X, y, new = odd_rows()
    mask = (y != -1) & (np.arange(40) % 8 == 0)
    model = quick(direction=direction)
    model.fit(kind(X), y, validation_mask=mask)
    for probabilities in (model.label_distributions_, model.predict_proba(kind(new))):
        assert np.isfinite(probabilities).all()
        assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)


# Parameters


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 1.5}, "alpha must"),
        ({"rule": "knn", "beta": 0.1}, "rule='knn' is a fixed graph without beta"),
        ({"max_rounds": -1}, "max_rounds must be at least 0, got -1; None runs to convergence"),
        ({"scaling": "log"}, "scaling must be one of 'auto', 'unit', .*, got 'log'"),
        ({"metric": "manhattan"}, "metric must be one of 'auto', 'chord', .*, got 'manhattan'; or pass distances"),
        ({"metric": "precomputed"}, r"X must be a square matrix of distances .*, got shape \(90, 5\)"),
        ({"max_rounds": "x"}, "max_rounds must be a number, got 'x'"),
        ({"n_candidates": "x"}, "n_candidates must be a number, got 'x'"),
        ({"config": {}}, "config must be an EnsembleConfig or None, got {}; use angpn.EnsembleConfig"),
        ({"scaling": "idf"}, "scaling='idf' weights words and needs a sparse X, got a dense one"),
        ({"class_weight": 3}, "class_weight must be None, 'balanced' or the weight of each class, got 3"),
        ({"class_weight": {0: np.nan}}, "class_weight must be a finite number >= 0 for each class, got nan for 0"),
        ({"class_weight": {"z": 1}}, r"class_weight must name classes of y, got 'z' but not all of \[0, 1, 2\]"),
    ],
)
def test_bad_parameters_are_refused(blobs, options, message):
    X, y, *_ = blobs
    with pytest.raises(ValueError, match=message):
        quick(**options).fit(X, y)


@pytest.mark.parametrize("scaling", ["standard", "unit_standard"])
def test_a_sparse_X_is_not_standardised(blobs, scaling):
    X, y, *_ = blobs
    with pytest.raises(ValueError, match=f"scaling='{scaling}' would fill a sparse X .* call toarray"):
        quick(scaling=scaling).fit(scipy.sparse.csr_array(X), y)


def test_an_alpha_of_the_user_is_that_of_every_base_learner(blobs):
    X, y, _, mask = blobs
    model = quick(alpha=0.3, max_rounds=1).fit(X, y, validation_mask=mask)
    assert {parameters.alpha for parameters in hyper_parameters(model)} == {0.3}


@pytest.mark.parametrize(
    "options",
    [
        {"rule": "knn", "beta": 0.0},
        {"rule": "printed", "direction": "symmetric"},
        {"gamma": "local", "direction": "directed"},
        {"gamma": 0.5, "metric": "sqeuclidean", "scaling": "none"},
    ],
)
def test_every_graph_can_be_propagated_on(blobs, options):
    X, y, truth, mask = blobs
    model = quick(**options).fit(X, y, validation_mask=mask)
    assert model.score(X, truth) > 0.8
    assert np.isfinite(model.predict_proba(X + 0.1)).all()


def test_one_label_a_class_of_sparse_rows(blobs):
    X, _, truth, _ = blobs
    y = np.full(90, -1)
    for code in range(3):
        y[np.flatnonzero(truth == code)[0]] = code
    model = quick(metric="auto", max_rounds=2).fit(scipy.sparse.csr_array(np.abs(X)), y)
    assert model.ensemble_.scaling.name == "unit"
    assert model.validation_scores_ is None
    assert np.isfinite(model.label_distributions_).all()


# Rounds


KEEP_LAST_ROUND = replace(SHORT_SEARCH, round_penalty=-1e6)


def test_max_rounds_is_how_often_it_learns_anew(blobs):
    X, y, _, mask = blobs
    for max_rounds in (0, 2):
        model = quick(KEEP_LAST_ROUND, max_rounds=max_rounds, beta=0.1).fit(X, y, validation_mask=mask)
        assert model.n_iter_ == max_rounds + 1
        assert len(model.layer_graphs_) == (2 if max_rounds else 1)


def test_without_a_number_of_rounds_it_ends_when_no_prediction_changes(blobs):
    X, y, _, mask = blobs
    model = quick(KEEP_LAST_ROUND, max_rounds=None).fit(X, y, validation_mask=mask)
    assert 2 <= model.n_iter_ < 21
    steps = model.n_iter_ - 1
    last, before, earlier = (
        quick(KEEP_LAST_ROUND, max_rounds=number).fit(X, y, validation_mask=mask)
        for number in (steps, steps - 1, max(0, steps - 2))
    )
    assert_array_equal(last.label_distributions_, model.label_distributions_)
    assert_array_equal(before.transduction_, last.transduction_)
    assert steps == 1 or (earlier.transduction_ != before.transduction_).any()


def test_validation_labels_are_never_trained_on(blobs):
    X, _, truth, _ = blobs
    y = np.where(np.arange(90) % 2 == 0, truth, -1)
    mask = (y != -1) & (np.arange(90) % 6 != 0)  # two thirds of the labels
    model = quick().fit(X, np.where(mask, (y + 1) % 3, y), validation_mask=mask)
    assert np.mean(model.transduction_ == truth) > 0.8
    assert model.best_validation_score_ < 0.2


def hyper_parameters(model):
    return [learner.parameters for learner in model.ensemble_.learners]


def assert_is_the_same(model, other, X):
    assert model.n_iter_ == other.n_iter_
    assert hyper_parameters(model) == hyper_parameters(other)
    assert_array_equal(model.label_distributions_, other.label_distributions_)
    assert_array_equal(model.validation_transduction_, other.validation_transduction_)
    assert_array_equal(model.predict_proba(X + 0.1), other.predict_proba(X + 0.1))


def test_the_same_random_state_gives_the_same_result(blobs):
    X, _, truth, _ = blobs
    y = some_of_each(truth, 2)
    models = []
    for seed in (3, 3, 4):
        torch.manual_seed(len(models))  # the global states do not matter
        np.random.seed(len(models))  # noqa: NPY002
        models.append(quick(max_rounds=0, random_state=seed).fit(X, y))
    assert_is_the_same(models[0], models[1], X)
    assert (models[0].label_distributions_ != models[2].label_distributions_).any()


def test_permuting_rows_permutes_the_results(fitted, blobs):
    X, y, _, mask = blobs
    order = np.random.default_rng(0).permutation(90)
    other = quick().fit(X[order], y[order], validation_mask=mask[order])
    assert_allclose(other.label_distributions_, fitted.label_distributions_[order], atol=0.01)


# Fitting again


def grown(y, truth, count):
    """So many labels more."""
    rows = np.flatnonzero(y == -1)[:count]
    return np.where(np.isin(np.arange(len(y)), rows), truth, y)


def test_a_warm_start_with_a_few_more_labels_keeps_hyper_parameters_and_searches_for_nothing(blobs, monkeypatch):
    X, _, truth, _ = blobs
    y = some_of_each(truth, 8)
    model = quick(warm_start=True).fit(X, y)
    before, selected = model.ensemble_, hyper_parameters(model)
    monkeypatch.setattr(selection, "Scorer", lambda *arguments: pytest.fail("hyper-parameters were scored"))
    more = grown(y, truth, 6)
    model.fit(X, more)
    assert model.ensemble_ is not before
    assert hyper_parameters(model) == selected
    assert model.ensemble_.scaling is before.scaling
    assert model.score(X, truth) > 0.8
    assert model.n_iter_ == model.best_iter_ == 1
    assert_array_equal(model.validation_mask_, more != -1)
    assert_array_equal(model.predict(X), model.transduction_)


@pytest.mark.parametrize("change", ["rows", "parameters", "classes", "mask", "many labels", "loaded", "pickled"])
def test_a_warm_start_searches_again_where_that_may_matter(blobs, tmp_path, change):
    X, _, truth, _ = blobs
    y = some_of_each(truth, 8)
    model = quick(warm_start=True).fit(X, y)
    options, names = {}, np.array(["a", "b", "c", "d"])
    if change == "rows":
        X = X + 0.01
    elif change == "parameters":
        model.set_params(beta=0.5)
    elif change == "classes":
        y = names[y]
        y = np.where(some_of_each(truth, 8) == -1, None, y)
    elif change == "mask":
        options["validation_mask"] = np.cumsum(y != -1) <= 6
        options["validation_mask"] &= y != -1
    elif change == "many labels":
        y = grown(y, truth, 12)
    elif change == "loaded":
        model.save(tmp_path / "model")
        model = ANGPNClassifier.load(tmp_path / "model")
    elif change == "pickled":
        model = pickle.loads(pickle.dumps(model))
    cold = clone(model).set_params(warm_start=False).fit(X, y, **options)
    assert_allclose(model.fit(X, y, **options).label_distributions_, cold.label_distributions_, atol=1e-6)
    assert model.n_iter_ == cold.n_iter_ > 1


def test_a_warm_start_on_sparse_rows_after_dense_ones(blobs):
    X, y, _, mask = blobs
    model = quick(metric="auto", warm_start=True).fit(X * np.geomspace(1, 1000, 5), y, validation_mask=mask)
    assert model.ensemble_.scaling.center is not None
    model.fit(scipy.sparse.csr_array(X), y, validation_mask=mask)
    assert np.isfinite(model.label_distributions_).all()


@pytest.mark.parametrize("kind", ["standard", "sparse", "wide", "few labels"])
def test_a_loaded_ensemble_answers_as_the_saved_one_and_learns_on(blobs, tmp_path, kind):
    X, y, truth, mask = blobs
    options = {"warm_start": True}
    if kind == "standard":
        X = X * np.geomspace(1, 1000, 5)
        options |= {"metric": "auto"}
    elif kind == "sparse":
        X = scipy.sparse.csr_array(np.where(np.abs(X) < 3, 0, X))
    elif kind == "few labels":  # label spreading alone
        y, mask = some_of_each(truth, 1), None
    elif kind == "wide":
        X = scipy.sparse.csr_array(X @ np.random.default_rng(0).normal(size=(5, 600)))
    model = quick(**options).fit(X, y, validation_mask=mask)
    assert (model.ensemble_.scaling.center is not None) == (kind == "standard")
    assert (model.ensemble_.scaling.basis is not None) == (kind == "wide")
    model.save(tmp_path / "model")
    again = ANGPNClassifier.load(tmp_path / "model")
    new = X[:20] + X[20:40]
    assert_array_equal(again.predict_proba(new), model.predict_proba(new))
    assert_array_equal(again.transform(new), model.transform(new))
    assert_array_equal(again.predict_proba(X), model.label_distributions_)
    assert again.explain(3) == model.explain(3)
    assert hyper_parameters(again) == hyper_parameters(model)
    more = np.where(np.arange(90) % 2 == 0, truth, y)
    for one in (model, again):
        one.fit(X, more, validation_mask=mask)
    assert_array_equal(again.label_distributions_, model.label_distributions_)


# Explanations


@pytest.mark.parametrize("direction", ["directed", "normalized"])
def test_explain_is_the_mean_share_of_each_row_over_base_learners(blobs, monkeypatch, direction):
    X, y, _, mask = blobs
    monkeypatch.setattr(influence_module, "_NEGLIGIBLE", 0.0)
    model = quick(EnsembleConfig(hops=((0.5, 2), (0.8, 3)), spreading_alphas=()), direction=direction)
    model = model.fit(X, y, validation_mask=mask)
    graph = model.graph_.toarray().astype(np.float64)
    if direction != "directed":
        graph = (graph + graph.T) / 2
    if direction == "normalized":
        graph = graph / np.sqrt(np.outer(graph.sum(axis=1), graph.sum(axis=1)))
    reached = np.mean(
        [
            np.linalg.matrix_power(each.alpha * graph + (1 - each.alpha) * np.eye(90), each.n_hops)[7]
            for each in hyper_parameters(model)
        ],
        axis=0,
    )
    influences = model.explain(7, n=90)
    for row, weight, label, given in influences:
        assert_allclose(weight, reached[row], atol=1e-5)
        assert given == (y[row] != -1)
        assert label == (y[row] if given else model.transduction_[row])
    reached[7] = 0
    assert influences[0].row == reached.argmax()
    assert sum(influence.weight for influence in influences) == pytest.approx(reached.sum(), abs=1e-4)


def test_leaving_out_what_is_very_little_hardly_changes_an_explanation(blobs, monkeypatch):
    X, y, _, mask = blobs
    model = quick(EnsembleConfig(hops=((0.8, 5),))).fit(X, y, validation_mask=mask)
    short = {influence.row: influence.weight for influence in model.explain(7, n=90)}
    monkeypatch.setattr(influence_module, "_NEGLIGIBLE", 0.0)
    whole = {influence.row: influence.weight for influence in model.explain(7, n=90)}
    assert short != whole
    for row, weight in whole.items():
        assert short.get(row, 0.0) == pytest.approx(weight, abs=0.02)


def test_without_propagation_no_row_influences_another(blobs):
    X, y, _, mask = blobs
    model = quick(EnsembleConfig(hops=((0.0, 0),), spreading_alphas=())).fit(X, y, validation_mask=mask)
    assert model.explain(7) == []
    rows, weights = model.influences(3)
    assert (rows == -1).all()
    assert not weights.any()


# Labels and weights


def test_a_class_with_a_single_label_is_learnt_and_never_held_out(blobs):
    X, _, truth, _ = blobs
    y = np.where(truth == 2, -1, some_of_each(truth, 3))
    y[75] = 2
    model = quick().fit(X, y)
    assert not model.validation_mask_[75]
    assert model.transduction_[75] == 2
    assert model.label_distributions_[truth == 2, 2].mean() > model.label_distributions_[truth != 2, 2].mean()


def test_one_label_for_each_class_is_enough_and_nothing_is_held_out(blobs):
    X, _, truth, _ = blobs
    model = quick().fit(X, some_of_each(truth, 1))
    assert not model.validation_mask_.any()
    assert model.validation_scores_ is None
    assert model.best_validation_score_ is None
    assert len(model.validation_transduction_) == 0
    assert model.score(X, truth) > 0.7


def test_a_class_whose_labels_all_validate_is_never_predicted(blobs):
    X, y, *_ = blobs
    with pytest.warns(UserWarning, match="no training label for class 2, so it will hardly be predicted"):
        model = quick().fit(X, y, validation_mask=y == 2)
    assert 2 not in model.transduction_
    assert np.isfinite(model.label_distributions_).all()


def test_two_classes_of_any_name(blobs):
    X, y, truth, mask = blobs
    names = ["cat", "ä dog"]
    named = np.array(names, dtype=object)[np.minimum(truth, 1)]
    model = quick().fit(X, np.where(y == -1, None, named), validation_mask=mask)
    assert set(model.classes_) == set(names)
    assert model.predict_proba(X[:4] + 0.1).shape == (4, 2)
    assert np.mean(model.transduction_ == named) > 0.8


def test_distances_of_the_user_replace_the_metric(blobs):
    X, y, _, mask = blobs
    no_table = replace(SHORT_SEARCH, max_columns_of_table=0)  # as rows with distances of their own are none
    expected = quick(no_table, metric="euclidean", scaling="none").fit(X, y, validation_mask=mask)
    matrix = np.linalg.norm(X[:, None] - X[None], axis=2)
    plain = quick(metric="sqeuclidean", scaling="none", n_candidates=20)
    graph = KNeighborsTransformer(n_neighbors=20).fit_transform(X)
    for distances in (matrix, graph):
        model = plain.fit(X, y, validation_mask=mask, distances=distances)
        assert_allclose(model.label_distributions_, expected.label_distributions_, atol=1e-3)
        assert_array_equal(model.predict(X, distances=matrix), model.transduction_)
    new = X[:9] + 0.1
    between = np.linalg.norm(new[:, None] - X[None], axis=2)
    assert_allclose(model.predict_proba(new, distances=between), expected.predict_proba(new), atol=1e-3)
    with pytest.raises(ValueError, match="must be passed exactly where fit was given distances, got none"):
        model.predict(X)


def test_distances_of_the_user_serve_where_only_some_rows_compare_the_scalings(blobs):
    X, y, truth, mask = blobs
    config = replace(SHORT_SEARCH, max_rows_compared=50)
    graph = KNeighborsTransformer(n_neighbors=20).fit_transform(X)
    model = quick(config, metric="auto").fit(X, y, validation_mask=mask, distances=graph)
    assert model.score(X, truth, distances=np.linalg.norm(X[:, None] - X[None], axis=2)) > 0.8


def test_weights_of_rows_and_classes_move_the_result(fitted, blobs):
    X, y, _, mask = blobs
    ones = quick().fit(X, y, validation_mask=mask, sample_weight=np.ones(90))
    assert_allclose(ones.label_distributions_, fitted.label_distributions_, atol=1e-4)
    heavy = quick().fit(X, y, validation_mask=mask, sample_weight=np.where(y == 2, 20.0, 1.0))
    assert heavy.label_distributions_[:, 2].sum() > fitted.label_distributions_[:, 2].sum()
    by_class = quick(class_weight={0: 1, 1: 1, 2: 20}).fit(X, y, validation_mask=mask)
    assert_array_equal(by_class.label_distributions_, heavy.label_distributions_)


def test_balance_is_that_of_the_labels_that_are_learnt_from(blobs):
    X, y, _, mask = blobs
    y = np.where((y == 0) & (np.arange(90) > 9), -1, y)
    mask = mask & (y != -1)
    learnt = (y != -1) & ~mask
    counts = np.bincount(y[learnt])
    balanced = quick(class_weight="balanced").fit(X, y, validation_mask=mask)
    weights = np.where(y == -1, 1.0, learnt.sum() / (3 * counts[y]))
    by_hand = quick().fit(X, y, validation_mask=mask, sample_weight=weights)
    assert_allclose(balanced.label_distributions_, by_hand.label_distributions_, atol=1e-5)


def test_a_label_of_weight_zero_is_not_held_out_and_has_no_say(blobs):
    X, _, truth, _ = blobs
    y = some_of_each(truth, 2)
    row = np.flatnonzero(y == 0)[0]
    weights = np.where(np.arange(90) == row, 0.0, 1.0)
    models = []
    for label in (0, 2):
        y[row] = label
        models.append(quick(max_rounds=0).fit(X, y, sample_weight=weights))
        assert not models[-1].validation_mask_[row]
    assert_allclose(*(model.label_distributions_ for model in models), atol=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda y, mask: {"sample_weight": np.where(mask, 0.0, 1.0)}, "not be zero for every row that is validated on"),
        (lambda y, mask: {"validation_mask": y != -1}, "training needs labelled rows, got none outside the validation"),
    ],
    ids=["validation of weight 0", "all validate"],
)
def test_weights_and_masks_are_refused_as_for_a_network(blobs, change, message):
    X, y, _, mask = blobs
    with pytest.raises(ValueError, match=message):
        quick().fit(X, y, **{"validation_mask": mask} | change(y, mask))


def test_a_mask_that_marks_no_row_is_as_none(blobs):
    X, _, truth, _ = blobs
    y = some_of_each(truth, 2)
    masked, plain = (quick(max_rounds=0).fit(X, y, validation_mask=mask) for mask in (np.zeros(90, dtype=bool), None))
    assert_array_equal(masked.label_distributions_, plain.label_distributions_)


# Few labels of rows in which most columns are noise


def weak_words(n_rows=400, n_columns=300):
    """Rows of 0 and 1 in three classes, each of which has a tenth of the columns a little more often."""
    generator = np.random.default_rng(0)
    truth = np.arange(n_rows) % 3
    shares = np.full((3, n_columns), 0.3)
    for label in range(3):
        shares[label, label::10] = 0.6
    return (generator.random((n_rows, n_columns)) < shares[truth]).astype(float), truth


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array], ids=["dense", "sparse"])
def test_two_labels_of_each_class_suffice_where_means_over_many_rows_tell_what_no_two_rows_do(form):
    X, truth = weak_words()
    y = np.where(np.arange(len(truth)) < 6, truth, -1)
    found, whole = (
        ANGPNClassifier(scaling=scaling, random_state=0).fit(form(X[:300]), y[:300]) for scaling in ("auto", "unit")
    )
    assert found.ensemble_.scaling.name == "pca"
    right, less = ((model.transduction_ == truth[:300])[6:].mean() for model in (found, whole))
    assert right > 0.9
    assert right > less + 0.1
    assert_array_equal(found.predict(form(X[:300])), found.transduction_)
    assert (found.predict(form(X[300:])) == truth[300:]).mean() > 0.9


def test_few_labels_of_a_wide_table_find_neighbours_in_main_directions_of_columns_of_any_scale():
    X, truth = weak_words()
    X *= np.geomspace(1, 1e3, 300)
    y = np.where(np.arange(len(truth)) < 6, truth, -1)
    found, whole = (
        ANGPNClassifier(scaling=scaling, random_state=0).fit(X[:300], y[:300]) for scaling in ("auto", "standard")
    )
    assert found.ensemble_.scaling.name == "standard_pca"
    right, less = ((model.transduction_ == truth[:300])[6:].mean() for model in (found, whole))
    assert right > 0.9
    assert right > less + 0.05
    assert_array_equal(found.predict(X[:300]), found.transduction_)
    assert (found.predict(X[300:]) == truth[300:]).mean() > 0.9


def test_neighbours_are_found_in_main_directions_only_where_labels_are_few_and_columns_many():
    X, truth = weak_words()
    many = np.where(np.arange(len(truth)) < 66, truth, -1)
    for changes in (
        {"X": X[:, :8]},
        {"scaling": "standard"},
        {"y": many},
        {"X": X * np.geomspace(1, 1e3, 300), "y": many},
    ):
        given = {"X": X, "y": np.where(np.arange(len(truth)) < 6, truth, -1), "scaling": "auto"} | changes
        model = ANGPNClassifier(scaling=given["scaling"], random_state=0, max_rounds=0).fit(given["X"], given["y"])
        assert model.ensemble_.scaling.name not in ("pca", "standard_pca")
