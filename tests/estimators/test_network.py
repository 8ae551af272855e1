"""ANGPNNetworkClassifier, and what both estimators share, as scikit-learn users meet them."""

import itertools
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import sklearn
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.neighbors import KNeighborsTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from angpn import ANGPNClassifier, ANGPNNetworkClassifier
from angpn.estimators.network import _PAPER
from angpn.network.model import ANGPN
from problems import odd_rows
from saved_files import read_saved

pytestmark = pytest.mark.filterwarnings("ignore:training did not settle")  # most fits here are short on purpose


def quick(**options):
    """A network that does not take long."""
    brief = {"max_iter": 20, "learning_rate": 0.05, "random_state": 0, "n_neighbors": 5, "n_candidates": 12}
    return ANGPNNetworkClassifier(**brief | {"beta": 0.3} | options)


@pytest.fixture(scope="module")
def blobs():
    """Three clusters of 30 rows, every fifth row labelled."""
    X, truth = make_blobs([30, 30, 30], n_features=5, cluster_std=2.0, random_state=1, shuffle=False)
    y = np.where(np.arange(90) % 5 == 0, truth, -1)
    return X, y, truth


@pytest.mark.filterwarnings("ignore:no label is held out", "ignore::sklearn.exceptions.ConvergenceWarning")
def test_weights_that_no_file_may_hold_are_refused_by_the_fit(blobs):
    X, y, _ = blobs
    with pytest.raises(
        ValueError, match=r"weights must stay below 1e\+15, got 1e\+16 after training; lower learning_rate"
    ):
        quick(learning_rate=1e16, max_iter=1, validation_fraction=0.0).fit(X, y)


# What it promises on digits


@pytest.fixture(scope="module")
def digits():
    """1500 digits of which a tenth is labelled, and 297 that come later."""
    data = load_digits()
    seen, later, truth, truth_later = train_test_split(
        data.data, data.target, train_size=1500, stratify=data.target, random_state=0
    )
    labelled, _ = train_test_split(np.arange(1500), train_size=0.1, stratify=truth, random_state=0)
    y = np.full(1500, -1)
    y[labelled] = truth[labelled]
    model = ANGPNNetworkClassifier(n_neighbors=10, beta=0.3, random_state=0).fit(seen, y)
    return model, seen, y, truth, later, truth_later


def test_digits_are_labelled_and_new_ones_predicted(digits):
    model, _, y, truth, later, truth_later = digits
    assert np.mean(model.transduction_[y == -1] == truth[y == -1]) >= 0.94
    assert model.score(later, truth_later) >= 0.90


def test_predicting_the_fitted_rows_is_the_transduction(digits):
    model, seen, *_ = digits
    assert_array_equal(model.predict(seen), model.transduction_)
    assert_array_equal(model.predict_proba(seen[200:300]), model.label_distributions_[200:300])


def test_what_a_fit_leaves_behind(digits):
    model, seen, *_ = digits
    n = len(seen)
    assert_array_equal(model.classes_, np.arange(10))
    assert model.label_distributions_.shape == (n, 10)
    assert_allclose(model.label_distributions_.sum(axis=1), 1)
    assert_array_equal(model.transduction_, model.label_distributions_.argmax(axis=1))
    assert model.n_iter_ == len(model.loss_curve_) == len(model.validation_scores_)
    assert model.best_validation_score_ in model.validation_scores_
    assert len(model.layer_graphs_) == 2
    assert isinstance(model.graph_, scipy.sparse.csr_array)
    assert_allclose(model.graph_.sum(axis=1), 1)
    assert not model.graph_.diagonal().any()
    assert model.module_.convs[0].in_channels == model.n_features_in_ == 64
    assert model.coverage_.n_changed == 0


def test_explain_says_how_much_of_each_row_reached_a_row(digits):
    model, _, y, *_ = digits
    influences = model.explain(7, n=5)
    assert len(influences) == 5
    weights = [influence.weight for influence in influences]
    assert weights == sorted(weights, reverse=True)
    assert 0 < sum(weights) < 1
    for row, _, label, is_given in influences:
        assert row != 7
        assert is_given == (y[row] != -1)
        assert label == (y[row] if is_given else model.transduction_[row])
    assert np.mean([influence.label == model.transduction_[7] for influence in influences]) > 0.5
    assert model.explain(-1) == model.explain(1499)


def test_explain_is_the_product_of_the_layers(blobs):
    X, y, _ = blobs
    for direction in ("directed", "symmetric"):
        model = quick(direction=direction).fit(X, y)
        product = np.eye(90)
        for graph in model.layer_graphs_:
            dense = graph.toarray()
            dense = dense if direction == "directed" else (dense + dense.T) / 2
            product = (model.alpha * dense + (1 - model.alpha) * np.eye(90)) @ product
        for row, weight, *_ in model.explain(3, n=90):
            assert_allclose(weight, product[3, row])


def test_uncertain_rows_are_unlabelled_and_less_certain_than_others(digits):
    model, _, y, *_ = digits
    rows = model.uncertain(20)
    assert len(set(rows)) == 20
    assert (y[rows] == -1).all()
    top = np.sort(model.label_distributions_, axis=1)
    margin = top[:, -1] - top[:, -2]
    assert margin[rows].mean() < margin[y == -1].mean()
    assert_array_equal(np.sort(model.uncertain(10_000)), np.flatnonzero(y == -1))


# Inputs


def test_every_container_gives_the_same(blobs):
    X, y, _ = blobs
    expected = quick().fit(X, y).label_distributions_
    names = [f"column {i}" for i in range(5)]
    for kind in (
        X.tolist(),
        pd.DataFrame(X, columns=names),
        pl.DataFrame(X, schema=names),
        torch.tensor(X),
        np.asfortranarray(X),
    ):
        model = quick().fit(kind, torch.tensor(y) if isinstance(kind, torch.Tensor) else y)
        assert_allclose(model.label_distributions_, expected, rtol=1e-7, err_msg=str(type(kind)))
        assert_array_equal(model.predict(kind), model.transduction_)
        # Older releases of scikit-learn do not see the names of today's polars.
        if isinstance(kind, pd.DataFrame) or (isinstance(kind, pl.DataFrame) and hasattr(sklearn, "callback")):
            assert list(model.feature_names_in_) == names


def test_sparse_rows_give_what_dense_ones_give_and_stay_sparse(blobs, monkeypatch):
    X, y, _ = blobs
    X = np.where(np.abs(X) < 2, 0, X)
    expected = quick(dropout=0.0).fit(X, y)
    sparse = scipy.sparse.csr_array(X)
    tensor = torch.tensor(X).to_sparse()

    def refuse(self, *args, **kwargs):
        assert self.shape[1] != 5, "the features were written out"
        return toarray(self, *args, **kwargs)

    toarray = scipy.sparse.csr_array.toarray
    monkeypatch.setattr(scipy.sparse.csr_array, "toarray", refuse)
    for kind in (sparse, scipy.sparse.csr_matrix(X), scipy.sparse.coo_array(X), tensor):
        model = quick(dropout=0.0).fit(kind, y)
        assert_allclose(model.label_distributions_, expected.label_distributions_, rtol=1e-5)
        assert_array_equal(model.predict(kind), model.transduction_)
        assert scipy.sparse.issparse(model._fitted.rows)
    new = scipy.sparse.csr_array(X[:4] + np.array([0, 0.1, 0, 0, 0]))
    assert_allclose(model.predict_proba(new), expected.predict_proba(new.tocoo().toarray()), rtol=1e-5)


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
def test_self_supervision_changes_the_fit_and_is_saved(blobs, tmp_path, form):
    X, y, truth = blobs
    X = form(np.where(np.abs(X) < 6, 0, X))
    plain, off, on = (quick(**options).fit(X, y) for options in ({}, {"self_supervised": 0.0}, {"self_supervised": 1}))
    assert_array_equal(off.label_distributions_, plain.label_distributions_)
    assert np.abs(on.label_distributions_ - plain.label_distributions_).max() > 1e-3
    assert (on.transduction_ == truth).mean() > 0.8
    assert on.loss_curve_[-1] < on.loss_curve_[0]
    on.save(tmp_path / "model")
    loaded = ANGPNNetworkClassifier.load(tmp_path / "model")
    assert loaded.self_supervised == 1
    assert_array_equal(loaded.predict_proba(X), on.predict_proba(X))
    again = quick(self_supervised=1).fit(X, y)
    assert_array_equal(again.label_distributions_, on.label_distributions_)


def test_self_supervision_fits_again_from_the_last_weights(blobs):
    X, y, _ = blobs
    model = quick(self_supervised=1, warm_start=True).fit(X, y)
    first = model.loss_curve_[0]
    assert model.fit(X, y).loss_curve_[0] < first


def test_self_supervision_with_a_matrix_of_distances(blobs):
    X, y, truth = blobs
    model = quick(self_supervised=1).fit(X, y, distances=np.linalg.norm(X[:, None] - X, axis=2))
    assert (model.transduction_ == truth).mean() > 0.8


def test_self_supervision_is_refused_where_processes_share_the_rows(blobs, monkeypatch):
    X, y, _ = blobs
    monkeypatch.setattr("angpn.estimators.base.join_process_group", lambda distributed: True)
    monkeypatch.setattr("angpn.estimators.task.n_processes", lambda: 2)
    with pytest.raises(ValueError, match="self_supervised must be 0 where several processes .* got 1 with 2 processes"):
        quick(self_supervised=1, distributed=True).fit(X, y)


def test_a_fit_with_self_supervision_needs_more_memory(blobs, monkeypatch):
    X, y, _ = blobs
    needed = []
    monkeypatch.setattr("angpn.estimators.base.check_memory", lambda task, n_bytes: needed.append(n_bytes))
    for form in (np.asarray, scipy.sparse.csr_array):
        for weight in (0.0, 1.0):
            quick(self_supervised=weight, max_iter=1).fit(form(np.where(np.abs(X) < 6, 0, X)), y)
    assert needed[0] < needed[1]
    assert needed[2] < needed[3]


def test_a_fitted_model_does_not_follow_its_parameters(blobs):
    X, y, _ = blobs
    model = quick(metric="euclidean").fit(X, y)
    assert_array_equal(model.set_params(normalize=False, alpha=0.1).predict(X), model.transduction_)


def test_rows_are_recognised_in_another_dtype_and_with_entries_in_pieces(blobs):
    X, y, _ = blobs
    single = X.astype(np.float32)
    model = quick().fit(single, y)
    assert_array_equal(model.predict_proba(single.astype(np.float64)), model.label_distributions_)
    model = quick().fit(scipy.sparse.csr_array(X), y)
    halves = np.repeat(X.ravel() / 2, 2), np.repeat(np.tile(np.arange(5), 90), 2), np.arange(91) * 10
    assert_allclose(model.predict_proba(scipy.sparse.csr_array(halves)), model.label_distributions_, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:.*would be labelled otherwise")
def test_only_an_equal_row_is_recognised(blobs):
    _, y, _ = blobs
    Z = np.random.default_rng(0).normal(size=(90, 5))
    ties = np.abs(np.subtract.outer(Z[:, 0].round(), Z[:, 0].round()))
    model = quick(normalize=False, n_candidates=89).fit(Z, y, distances=ties)
    assert_array_equal(model.predict(Z, distances=ties), model.transduction_)
    Z[45:] = 8 * Z[:45]  # the same directions, other lengths
    model = quick(normalize=False, normalize_hidden=False, direction="directed").fit(Z, y)
    assert_array_equal(model.predict(Z), model.transduction_)


def test_bfloat16_embeddings(blobs):
    X, y, _ = blobs
    assert quick().fit(torch.tensor(X).bfloat16(), y).label_distributions_.dtype == np.float32


def test_float32_stays_float32(blobs):
    X, y, _ = blobs
    model = quick().fit(X.astype(np.float32), y)
    assert model.module_.perceptron.weight.dtype == torch.float32
    assert model.label_distributions_.dtype == model.transform(X[:3]).dtype == np.float32
    assert quick().fit(X, y).label_distributions_.dtype == np.float64


def test_names_as_labels(blobs):
    X, y, truth = blobs
    names = np.array(["ant", "bee", "cat"], dtype=object)
    for unlabelled in (-1, None, np.nan):
        named = np.where(y == -1, unlabelled, names[y])
        model = quick().fit(X, named)
        assert list(model.classes_) == ["ant", "bee", "cat"]
        assert_array_equal(model.transduction_, names[quick().fit(X, y).transduction_])
        assert model.score(X, names[truth]) > 0.8


@pytest.mark.filterwarnings("ignore:.*sampled rows would be labelled otherwise")
def test_distances_as_a_matrix_or_a_graph(blobs):
    X, y, _ = blobs
    expected = quick(normalize=False, metric="euclidean").fit(X, y)
    matrix = np.linalg.norm(X[:, None] - X[None], axis=2)
    model = quick(normalize=False).fit(X, y, distances=matrix)
    assert_allclose(model.label_distributions_, expected.label_distributions_, rtol=1e-5)
    assert model.coverage_ == pytest.approx(expected.coverage_)
    graph = KNeighborsTransformer(n_neighbors=12).fit_transform(X)
    model = quick(normalize=False).fit(X, y, distances=graph)
    assert_array_equal(model.neighborhood_.indices, expected.neighborhood_.indices)
    assert_allclose(model.label_distributions_, expected.label_distributions_, rtol=1e-5)
    assert_array_equal(model.predict(X, distances=matrix), model.transduction_)
    assert model.score(X, model.transduction_, distances=matrix) == 1
    for kind in (graph.tocoo(), torch.tensor(graph.toarray()).to_sparse()):
        again = quick(normalize=False).fit(X, y, distances=kind)
        assert_allclose(again.label_distributions_, model.label_distributions_, rtol=1e-5)
    hidden = quick(normalize=False).fit_transform(X, y, distances=graph)
    assert_allclose(hidden, model.transform(X, distances=matrix), rtol=1e-5, atol=1e-7)
    with pytest.raises(ValueError, match="distances of new rows must be a dense matrix"):
        model.predict(X[:2], distances=graph[:2])
    wide = KNeighborsTransformer(n_neighbors=30).fit_transform(X)
    assert quick().fit(X, y, distances=wide).neighborhood_.n_candidates == 12
    with pytest.raises(ValueError, match="must be passed exactly where fit was given distances, got none"):
        model.predict(X)
    with pytest.raises(ValueError, match=r"distances must have shape \(2, 90\), new rows by fitted rows, got \(2, 2\)"):
        model.predict(X[:2], distances=matrix[:2, :2])


def test_a_precomputed_matrix_is_features_and_distances_in_one(blobs):
    X, y, truth = blobs
    matrix = np.linalg.norm(X[:, None] - X[None], axis=2)
    model = quick(metric="precomputed").fit(matrix, y)
    expected = quick().fit(matrix, y, distances=matrix)
    assert_allclose(model.label_distributions_, expected.label_distributions_, rtol=1e-6)
    assert_array_equal(model.predict(matrix), model.transduction_)
    between = np.linalg.norm(X[:4, None] + 0.1 - X[None], axis=2)
    assert_allclose(model.predict_proba(between), expected.predict_proba(between, distances=between), rtol=1e-6)
    assert (cross_val_score(quick(metric="precomputed"), matrix, truth, cv=2) > 0.8).all()


def test_weights_of_rows_and_classes_move_the_result(blobs):
    X, y, _ = blobs
    labelled = y != -1
    plain = quick(max_iter=4).fit(X, y)
    assert_allclose(
        quick(max_iter=4).fit(X, y, sample_weight=np.ones(90)).label_distributions_, plain.label_distributions_
    )
    heavy = quick(max_iter=4).fit(X, y, sample_weight=np.where(y == 2, 20.0, 1.0))
    assert heavy.label_distributions_[:, 2].sum() > plain.label_distributions_[:, 2].sum() * 1.05
    by_class = quick(max_iter=4, class_weight={0: 1, 1: 1, 2: 20}).fit(X, y)
    assert_allclose(by_class.label_distributions_, heavy.label_distributions_)
    counts = np.bincount(y[labelled])
    balanced = quick(max_iter=4, class_weight="balanced").fit(X, y)
    by_hand = quick(max_iter=4).fit(X, y, sample_weight=np.where(labelled, labelled.sum() / (3 * counts[y]), 1))
    assert_allclose(balanced.label_distributions_, by_hand.label_distributions_)


def test_labels_of_validation_rows_are_never_trained_on(blobs):
    X, y, _ = blobs
    mask = np.zeros(90, dtype=bool)
    mask[np.flatnonzero(y != -1)[::4]] = True
    wrong = np.where(mask, (y + 1) % 3, y)
    for class_weight in (None, "balanced"):
        model = quick(n_iter_no_change=100, class_weight=class_weight)
        losses = [model.fit(X, labels, validation_mask=mask).loss_curve_ for labels in (y, wrong)]
        assert_array_equal(*losses)


def test_after_a_warm_start_no_label_changes_sides(blobs):
    """A label that was trained on would be right at once if it were held out now, and training would stop."""
    X, y, truth = blobs
    more = np.where(np.arange(90) % 3 == 0, truth, y)
    model = quick(warm_start=True, validation_fraction=0.3).fit(X, y)
    held = model.validation_mask_
    model.fit(X, more)
    labelled = y != -1
    assert_array_equal(model.validation_mask_[labelled], held[labelled])
    assert model.validation_mask_[~labelled].any()


def test_weights_of_zero(blobs):
    X, y, _ = blobs
    mask = np.zeros(90, dtype=bool)
    mask[np.flatnonzero(y != -1)[::4]] = True
    with pytest.raises(ValueError, match="sample_weight must not be zero for every row that is validated on"):
        quick().fit(X, y, validation_mask=mask, sample_weight=np.where(mask, 0.0, 1.0))
    some = np.where(np.arange(90) % 10 == 0, 0.0, 1.0)
    assert not quick().fit(X, y, sample_weight=some).validation_mask_[some == 0].any()
    quick().fit(X, y, sample_weight=np.where(y == -1, np.nan, 1.0))  # of unlabelled rows it does not matter


def test_a_table_with_columns_of_unlike_scale_is_warned_of_where_fit_was_called(blobs):
    X, y, _ = blobs
    with pytest.warns(UserWarning, match="columns of X should be of like scale, got .*; standardise them") as caught:
        quick().fit(np.column_stack([X, 1000 * X[:, 0]]), y)
    assert caught[0].filename == __file__


def test_training_that_did_not_settle_is_warned_of(blobs):
    X, y, _ = blobs
    with pytest.warns(ConvergenceWarning, match="training did not settle within max_iter=3 epochs; raise max_iter"):
        quick(max_iter=3).fit(X, y)


def test_few_rows_lower_the_number_of_neighbours():
    X = np.eye(6)
    with pytest.warns(
        UserWarning, match="n_neighbors=20 needs 22 rows, got n_samples=6, so n_neighbors is lowered to 4"
    ):
        model = ANGPNClassifier().fit(X, [0, 1, 0, 1, -1, -1])
    assert model.n_neighbors_ == 4


# The habits of scikit-learn


def test_parameters_are_stored_untouched():
    sizes = [7]
    model = ANGPNNetworkClassifier(hidden_layer_sizes=sizes, alpha="nonsense")
    assert model.hidden_layer_sizes is sizes
    assert clone(model).get_params()["alpha"] == "nonsense"


def test_the_paper_is_spelt_out_and_can_be_overridden():
    model = ANGPNClassifier.paper(n_neighbors=7, random_state=3)
    assert (model.alpha, model.beta, model.num_steps, model.direction) == (0.5, 0.3, 2, "directed")
    assert (model.hidden_layer_sizes, model.learning_rate, model.max_iter) == ((50, 50), 0.005, 10_000)
    assert (model.n_neighbors, model.random_state) == (7, 3)
    run_time = {"device", "random_state", "warm_start", "checkpoint", "resume", "distributed", "verbose"}
    assert set(_PAPER) == set(model.get_params()) - run_time
    assert type(model) is ANGPNNetworkClassifier


def test_search_pipeline_and_scores_that_leave_unlabelled_rows_out(blobs):
    X, y, truth = blobs
    search = GridSearchCV(make_pipeline(StandardScaler(), quick()), {"angpnnetworkclassifier__beta": [0.0, 0.3]}, cv=2)
    search.fit(X, y)
    assert np.mean(search.predict(X) == truth) > 0.8
    assert (cross_val_score(quick(), X, y, cv=2) > 0.5).all()
    model = quick().fit(X, y)
    assert model.score(X, y) == np.mean(model.predict(X)[y != -1] == y[y != -1])
    with pytest.raises(ValueError, match="got every row unlabelled; pass the true labels"):
        model.score(X, np.full(90, -1))


def test_set_output_and_names_of_the_hidden_columns(blobs):
    X, y, _ = blobs
    model = quick(hidden_layer_sizes=(4, 3)).set_output(transform="pandas").fit(X, y)
    assert list(model.transform(X[:2]).columns) == [f"angpnnetworkclassifier{i}" for i in range(3)]


def test_metadata_is_routed(blobs):
    X, y, _ = blobs
    mask = np.arange(90) % 25 == 0
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_pipeline(StandardScaler(), quick().set_fit_request(validation_mask=True, sample_weight=False))
        pipe.fit(X, y, validation_mask=mask)
    direct = quick().fit(StandardScaler().fit_transform(X), y, validation_mask=mask)
    assert_allclose(pipe[-1].label_distributions_, direct.label_distributions_)


def test_pickle_keeps_the_answers(blobs):
    X, y, _ = blobs
    model = quick().fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict_proba(X + 0.1), model.predict_proba(X + 0.1))


def test_the_same_seed_gives_the_same_result(blobs):
    X, y, _ = blobs
    results = []
    for seed in (0, 1):
        torch.manual_seed(seed)  # the global generator has no say, and is not moved
        model = quick(warm_start=True).fit(X, np.where(y == 2, -1, y))
        results.append(model.fit(X, y).label_distributions_)
        assert torch.rand(1) == torch.rand(1, generator=torch.Generator().manual_seed(seed))
    assert_array_equal(*results)
    assert_array_equal(quick().fit(X, y).label_distributions_, quick().fit(X, y).label_distributions_)
    other = quick(random_state=1).fit(X, y).label_distributions_
    assert not np.array_equal(quick().fit(X, y).label_distributions_, other)


def test_fitting_again_with_more_labels_starts_warm(blobs, monkeypatch):
    X, y, truth = blobs
    model = quick(warm_start=True).fit(X, np.where(y == 2, -1, y))
    neighborhood, convs = model.neighborhood_, model.module_.convs.state_dict()
    known = model.module_.perceptron.weight.detach().clone()
    monkeypatch.setattr("angpn.estimators.neighbor_search.nearest_candidates", None)  # not to be called again
    model.set_params(max_iter=1).fit(X, y)  # a third class
    assert model.neighborhood_ is neighborhood
    assert list(model.classes_) == [0, 1, 2]
    # One epoch has run and its start is what is kept: the weights of the last fit, and a new row for the new class.
    assert all(torch.equal(value, convs[name]) for name, value in model.module_.convs.state_dict().items())
    assert torch.equal(model.module_.perceptron.weight[:2], known)
    monkeypatch.undo()
    model.set_params(max_iter=20).fit(X[:60], y[:60])
    assert model.neighborhood_.n_rows == 60
    with pytest.raises(ValueError, match="warm_start needs the features and the network of the last fit, got others"):
        model.fit(X[:, :3], y)
    assert model.n_features_in_ == 5  # a fit that fails leaves everything as it was
    assert model.predict(X).shape == truth.shape


def test_the_progress_bar_shows_epoch_loss_and_accuracy(blobs, capsys):
    X, y, _ = blobs
    quick(verbose=True).fit(X, y)
    shown = capsys.readouterr()
    assert shown.out == ""
    for part in ("epoch", "20/20", "loss 0.", "validation accuracy"):
        assert part in shown.err
    quick().fit(X, y)
    assert capsys.readouterr() == ("", "")


def test_callbacks_of_scikit_learn_see_every_epoch_and_may_stop_it(blobs):
    pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from 1.9 on")
    X, y, _ = blobs

    class Stopper:
        def __init__(self):
            self.calls = []

        def setup(self, estimator, context):
            self.calls.append("setup")

        def on_fit_task_begin(self, estimator, context):
            self.calls.append(("begin", context.task_name))

        def on_fit_task_end(self, estimator, context):
            self.calls.append(("end", context.task_name))
            return self.calls.count(("end", "epoch")) == 4

        def teardown(self, estimator, context):
            self.calls.append("teardown")

    stopper = Stopper()
    model = quick().set_callbacks(stopper).fit(X, y)
    assert model.n_iter_ == 4
    epoch = [("begin", "epoch"), ("end", "epoch")]
    assert stopper.calls == ["setup", ("begin", "fit"), *epoch * 4, ("end", "fit"), "teardown"]


# Bad input


@pytest.mark.parametrize(
    ("options", "change", "message"),
    [
        ({}, {"y": np.full(90, -1)}, "got every row unlabelled; give some rows a label"),
        ({}, {"y": np.where(np.arange(90) < 9, 4, -1)}, r"at least 2 classes, got 1 class \(4\)"),
        ({}, {"y": np.arange(80) % 3}, "y must have one row for each row of X, expected 90, got 80"),
        ({}, {"y": None}, "requires y to be passed, but the target y is None"),
        ({}, {"X": np.full((90, 5), np.nan)}, "Input X contains NaN"),
        (
            {"metric": "manhattan"},
            {},
            "metric must be one of 'chord', .*, got 'manhattan'; or pass distances to fit",
        ),
        ({"device": "cuda:7"}, {}, "device must be one that torch finds on this machine, got 'cuda:7' .* use 'auto'"),
        ({"device": "abacus"}, {}, "device must be one that torch finds on this machine, got 'abacus'"),
        ({"device": "hpu"}, {}, "device must be one that torch finds on this machine, got 'hpu'"),
        ({"alpha": 1.5}, {}, "alpha must lie strictly between 0 and 1, got 1.5"),
        ({"dropout": 1.0}, {}, r"dropout must lie in \[0, 1\), got 1.0"),
        ({"hidden_layer_sizes": ()}, {}, "hidden_layer_sizes must be one or more widths >= 1"),
        ({"max_iter": 0}, {}, "max_iter and n_iter_no_change must be at least 1, got 0 and 100"),
        (
            {"metric": "precomputed"},
            {},
            r"X must be a square matrix .*, got shape \(90, 5\); pass features",
        ),
        (
            {"metric": "precomputed"},
            {"distances": np.ones((90, 90))},
            "distances as X, got distances= as well",
        ),
        (
            {"metric": "precomputed"},
            {"X": scipy.sparse.eye_array(90, format="csr")},
            "needs the full matrix of distances, got a sparse graph; pass the features as X",
        ),
        ({"alpha": "0.5"}, {}, "alpha must lie strictly between 0 and 1, got '0.5'"),
        ({"n_neighbors": 5.0}, {}, "n_neighbors must be a whole number >= 1, got 5.0"),
        ({"n_candidates": 3}, {}, "n_candidates must be at least n_neighbors [+] 1 = 6, got 3"),
        ({"learning_rate": -1}, {}, "learning_rate must be > 0, got -1"),
        ({"beta": 1e10}, {}, r"beta must be at most 1e\+09, got 10000000000.0"),
        ({"gamma": 1e-40}, {}, r"gamma must lie between 1e-30 and 1e\+30, got 1e-40; gamma='auto' derives one"),
        ({"learning_rate": "x"}, {}, "learning_rate must be a number, got 'x'; the default is in the documentation"),
        ({"weight_decay": -1}, {}, "weight_decay must be >= 0, got -1; 0 is none"),
        ({"self_supervised": -1}, {}, "self_supervised must be finite and >= 0, got -1; 0 trains on labels alone"),
        ({"self_supervised": "x"}, {}, "self_supervised must be a number, got 'x'"),
        (
            {"self_supervised": 1},
            {"X": scipy.sparse.csr_array(np.ones((90, 5)))},
            "which entries are not 0, so some must be, and at most half of them, got 450 of 450; pass X as a dense",
        ),
        ({"tol": np.nan}, {}, "tol must be a number, got nan"),
        ({"num_steps": "x"}, {}, "num_steps must be a number, got 'x'"),
        ({"recall": "x"}, {}, "recall must be a number, got 'x'"),
        ({}, {"y": [[1], 2] * 45}, "y must hold one label a row, got lists of unlike length"),
        ({"validation_fraction": 1.0}, {}, r"validation_fraction must lie in \[0, 1\), got 1.0"),
        ({"resume": True}, {}, "resume=True needs the checkpoint to resume from, got checkpoint=None"),
        ({}, {"distances": np.full((90, 90), -1.0)}, "distances must be >= 0, got -1; pass distances, not"),
        ({}, {"distances": np.ones(90)}, r"distances must be a matrix of numbers, got shape \(90,\) of float64"),
        ({}, {"distances": "x"}, r"distances must be a matrix of numbers, got shape \(\) of <U1"),
        ({}, {"distances": np.ones((80, 80))}, "distances must have one row for each row of X, expected 90, got 80"),
        ({}, {"distances": scipy.sparse.csr_array(-np.ones((90, 90)))}, "distances must be finite and >= 0, got -1"),
        (
            {},
            {"distances": KNeighborsTransformer(n_neighbors=5).fit_transform(np.random.default_rng(0).random((90, 5)))},
            "needs a graph with at least 6 other rows in every row, got 5 .* KNeighborsTransformer or NearestNeighbors "
            "may count the row itself: ask it for n_neighbors=7",
        ),
        ({}, {"sample_weight": np.full(90, -1.0)}, "sample_weight must be one finite number >= 0 a row"),
        ({}, {"sample_weight": np.ones(80)}, "sample_weight must have one row for each row of X"),
        ({}, {"validation_mask": np.ones(90, dtype=bool)}, "validation_mask must mark labelled rows only"),
        ({}, {"validation_mask": np.ones(90)}, "validation_mask must be one bool a row"),
    ],
)
def test_bad_input_is_refused_with_its_remedy(blobs, options, change, message):
    X, y, _ = blobs
    arguments = {"X": X, "y": y, **change}
    with pytest.raises(ValueError, match=message):
        quick(**options).fit(arguments.pop("X"), arguments.pop("y"), **arguments)


def test_wrong_columns_at_predict(blobs):
    X, y, _ = blobs
    model = quick().fit(X, y)
    with pytest.raises(ValueError, match="X has 3 features, but ANGPNNetworkClassifier is expecting 5 features"):
        model.predict(X[:, :3])
    with pytest.raises(ValueError, match="X must be dense as it was in fit, got a sparse matrix; call toarray"):
        model.predict(scipy.sparse.csr_array(X))
    with pytest.raises(ValueError, match="i must be a row of the fit, -90 to 89, got 90"):
        model.explain(90)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_no_gpu(blobs):
    X, y, _ = blobs
    with pytest.raises(ValueError, match="device must be one that torch finds on this machine, got 'cuda'"):
        quick(device="cuda").fit(X, y)


# Properties


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_permuting_rows_permutes_the_results(seed):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(40, 4))
    y = np.where(np.arange(40) < 12, np.arange(40) % 3, -1)
    mask = (np.arange(40) >= 9) & (np.arange(40) < 12)
    order = generator.permutation(40)
    model = quick(dropout=0.0, max_iter=5)
    one = model.fit(X, y, validation_mask=mask).label_distributions_
    other = model.fit(X[order], y[order], validation_mask=mask[order]).label_distributions_
    assert_allclose(other, one[order], atol=1e-6)


@given(st.integers(0, 2**32 - 1), st.sampled_from(["directed", "symmetric", "normalized"]), st.booleans())
@settings(max_examples=20)
@pytest.mark.filterwarnings("ignore:.*would be labelled otherwise")
def test_odd_rows_have_probabilities_too(seed, direction, sparse):
    X, y, new = odd_rows(seed)
    kind = scipy.sparse.csr_array if sparse else np.asarray
    model = quick(direction=direction, max_iter=5).fit(kind(X), y)
    for probabilities in (model.label_distributions_, model.predict_proba(kind(new))):
        assert np.isfinite(probabilities).all()
        assert (probabilities >= 0).all()
        assert_allclose(probabilities.sum(axis=1), 1)


# Long fits


def test_ctrl_c_keeps_the_best_weights_with_a_warning(blobs, monkeypatch):
    X, y, _ = blobs
    interrupt_after(monkeypatch, 7)
    with pytest.warns(UserWarning, match="training was interrupted after epoch 7 and keeps the best weights so far"):
        model = quick().fit(X, y)
    assert model.n_iter_ == 7
    assert model.predict(X).shape == (90,)


def test_ctrl_c_before_there_are_weights_leaves_things_as_they_were(blobs, monkeypatch):
    X, y, _ = blobs
    model = quick().fit(X, y)
    interrupt_after(monkeypatch, 0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.n_iter_ == 20


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_ctrl_c_ends_a_search(blobs, monkeypatch, n_jobs):
    X, y, _ = blobs
    done = threading.Event()
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background may ignore it
    if n_jobs is None:
        interrupt_after(monkeypatch, 3)
    else:
        threading.Thread(target=interrupt_until, args=(done, threading.main_thread().ident), daemon=True).start()
    search = GridSearchCV(quick(max_iter=10_000, n_iter_no_change=10_000), {"beta": [0.0, 0.3]}, cv=2, n_jobs=n_jobs)
    try:
        with pytest.raises(KeyboardInterrupt):
            search.fit(X, y)
    finally:
        done.set()
        signal.signal(signal.SIGINT, handler)


def interrupt_until(done, thread):
    """Ctrl-C every other second: one that comes while processes are being started may be lost."""
    while not done.wait(2.0):
        signal.pthread_kill(thread, signal.SIGINT)


def interrupt_after(monkeypatch, epochs, *, in_the_middle=False):
    """Ctrl-C in the epoch that follows."""
    count = itertools.count()
    classify = ANGPN.classify

    def interrupted(self, propagated, distances, rows=None, generator=None):
        interrupt = self.training and next(count) == epochs
        if interrupt and not in_the_middle:
            raise KeyboardInterrupt
        logits = classify(self, propagated, distances, rows, generator)
        if interrupt:
            raise KeyboardInterrupt
        return logits

    monkeypatch.setattr(ANGPN, "classify", interrupted)


@pytest.mark.slow
def test_a_killed_fit_goes_on_and_ends_as_if_nothing_had_happened(blobs, tmp_path):
    X, y, _ = blobs
    np.savez(tmp_path / "data.npz", X=X, y=y)
    script = f"""
        import sys
        import numpy as np
        import angpn.network.checkpoint
        from angpn import ANGPNNetworkClassifier
        angpn.network.checkpoint.SECONDS_BETWEEN_SAVES = 0.1
        data = np.load({str(tmp_path / "data.npz")!r})
        options = dict(max_iter=1500, n_iter_no_change=1500, n_neighbors=5, dropout=0.3)
        model = ANGPNNetworkClassifier(**options, checkpoint=sys.argv[1], resume=True)
        model.fit(data["X"], data["y"])
        np.save(sys.argv[2], model.label_distributions_)
    """
    run = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "state"), str(tmp_path / "out.npy")]
    process = subprocess.Popen(run)
    deadline = time.monotonic() + 60
    while not (tmp_path / "state").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.3)
    process.kill()
    process.wait()
    state = read_saved(tmp_path / "state")
    assert not (tmp_path / "out.npy").exists()
    assert 0 < len(state.arrays["epochs"]) < 1500
    subprocess.run(run, check=True)
    options = {"max_iter": 1500, "n_iter_no_change": 1500, "n_neighbors": 5, "dropout": 0.3}
    whole = ANGPNNetworkClassifier(**options)
    seed = state.header["seed"]  # random_state=None: the checkpoint remembers what was drawn

    class Drawn:
        def randint(self, *args):
            return seed

    whole_fit(whole, X, y, Drawn())
    assert_array_equal(np.load(tmp_path / "out.npy"), whole.label_distributions_)


def whole_fit(model, X, y, random):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("angpn.estimators.task.check_random_state", lambda state: random)
        model.fit(X, y)


def test_a_finished_fit_taken_up_is_the_same_fit(blobs, tmp_path):
    X, y, _ = blobs
    first = quick(checkpoint=tmp_path / "state").fit(X, y)
    again = quick(checkpoint=tmp_path / "state", resume=True).fit(X, y)
    assert_array_equal(again.label_distributions_, first.label_distributions_)
    assert again.loss_curve_ == first.loss_curve_
    assert again.best_validation_score_ == first.best_validation_score_


def test_a_checkpoint_of_another_fit_is_refused(blobs, tmp_path, monkeypatch):
    X, y, _ = blobs
    quick(checkpoint=tmp_path / "state").fit(X, y)
    quick(checkpoint=tmp_path / "state", resume=True, alpha=0.1).fit(X, y)  # a finished one is of no use any more
    with monkeypatch.context() as patch:
        interrupt_after(patch, 9)
        with pytest.warns(UserWarning, match="interrupted"):
            quick(checkpoint=tmp_path / "state").fit(X, y)
    with pytest.raises(ValueError, match="same data, labels and parameters, got an unfinished one of another"):
        quick(checkpoint=tmp_path / "state", resume=True).fit(X, np.where(y == 2, 1, y))
    with pytest.raises(ValueError, match="must be of a fit with the same data"):
        quick(checkpoint=tmp_path / "state", resume=True, alpha=0.1).fit(X, y)
    with pytest.raises(ValueError, match="must be of a fit with the same data"):
        quick(checkpoint=tmp_path / "state", resume=True, self_supervised=0.5).fit(X, y)
    quick(checkpoint=tmp_path / "state", alpha=0.1).fit(X, y)  # without resume it begins anew
    assert os.listdir(tmp_path) == ["state"]


def test_a_fit_stopped_by_ctrl_c_goes_on_as_if_nothing_had_happened(blobs, tmp_path, monkeypatch):
    X, y, _ = blobs
    expected = quick(max_iter=60, n_iter_no_change=60).fit(X, y)
    with monkeypatch.context() as patch:
        interrupt_after(patch, 25, in_the_middle=True)
        with pytest.warns(UserWarning, match="interrupted"):
            quick(n_iter_no_change=60, max_iter=40, checkpoint=tmp_path / "state").fit(X, y)
    again = quick(n_iter_no_change=60, max_iter=60, checkpoint=tmp_path / "state", resume=True).fit(X, y)
    assert again.loss_curve_ == expected.loss_curve_
    assert_array_equal(again.label_distributions_, expected.label_distributions_)


def test_a_warm_fit_is_not_resumed_without_the_fit_before_it(blobs, tmp_path, monkeypatch):
    """It would hold out other labels, some of which it had trained on."""
    X, y, truth = blobs
    more = np.where(np.arange(90) % 3 == 0, truth, y)
    model = quick(warm_start=True, checkpoint=tmp_path / "state", resume=True).fit(X, y)
    model.save(tmp_path / "model")
    expected = ANGPNClassifier.load(tmp_path / "model").set_params(checkpoint=None, resume=False).fit(X, more)
    with monkeypatch.context() as patch:
        interrupt_after(patch, 5)
        with pytest.warns(UserWarning, match="interrupted"):
            model.fit(X, more)
    with pytest.raises(ValueError, match="got an unfinished one of another"):
        quick(warm_start=True, checkpoint=tmp_path / "state", resume=True).fit(X, more)
    again = ANGPNClassifier.load(tmp_path / "model").fit(X, more)
    assert_array_equal(again.label_distributions_, expected.label_distributions_)


def test_a_generator_as_random_state_can_be_resumed(blobs, tmp_path):
    X, y, _ = blobs
    first = quick(checkpoint=tmp_path / "state", random_state=np.random.RandomState(5)).fit(X, y)
    again = quick(checkpoint=tmp_path / "state", random_state=np.random.RandomState(6), resume=True).fit(X, y)
    assert_array_equal(again.label_distributions_, first.label_distributions_)


@pytest.mark.filterwarnings("ignore:no label is held out")
def test_a_fit_without_validation_is_resumed_too(blobs, tmp_path):
    X, y, _ = blobs
    options = {"validation_fraction": 0.0, "checkpoint": tmp_path / "state"}
    expected = quick(max_iter=30, validation_fraction=0.0).fit(X, y)
    quick(max_iter=12, **options).fit(X, y)
    again = quick(max_iter=30, resume=True, **options).fit(X, y)
    assert again.n_iter_ == 30
    assert_array_equal(again.label_distributions_, expected.label_distributions_)
