"""Folds of labelled rows, and what fit says of others."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from angpn import ANGPNClassifier, EnsembleConfig
from angpn.model_selection import SemiSupervisedKFold

X, TRUTH = load_wine(return_X_y=True)
KNOWN = np.random.default_rng(0).random(len(TRUTH)) < 0.3
CODES = np.where(KNOWN, TRUTH, -1)
NAMES = np.where(KNOWN, np.array(["a", "b", "c"])[TRUTH], None)
# A short search: folds are tested here, not accuracy.
QUICK = ANGPNClassifier(
    max_rounds=0, random_state=0, config=EnsembleConfig(hops=((0.0, 0),), first_heads=((None, 10.0),), more_heads=())
)


@pytest.mark.parametrize("y", [CODES, NAMES, np.where(KNOWN, TRUTH, np.nan)])
@pytest.mark.parametrize("shuffle", [False, True])
def test_labelled_rows_are_divided_by_class_and_the_others_always_trained_on(y, shuffle):
    folds = SemiSupervisedKFold(4, shuffle=shuffle, random_state=0 if shuffle else None)
    tested = []
    for train, test in folds.split(X, y):
        assert sorted([*train, *test]) == list(range(len(X)))
        assert set(np.flatnonzero(~KNOWN)) <= set(train)
        counts = np.bincount(TRUTH[test], minlength=3)
        assert np.abs(counts - np.bincount(TRUTH[KNOWN]) / 4).max() < 1
        tested += [*test]
    assert sorted(tested) == np.flatnonzero(KNOWN).tolist()
    assert folds.get_n_splits() == 4
    assert clone(SemiSupervisedKFold(3), safe=False).n_splits == 3


@pytest.mark.filterwarnings("ignore:The y_prob values do not sum to one")  # they do within float32
@pytest.mark.parametrize("scoring", [None, "accuracy", "balanced_accuracy", "f1_macro", "neg_log_loss", "roc_auc_ovr"])
def test_names_and_numbers_are_scored_alike_by_every_score(scoring):
    folds = SemiSupervisedKFold(3)
    by_codes, by_names = (
        cross_val_score(QUICK, X, y, cv=folds, scoring=scoring, error_score="raise") for y in (CODES, NAMES)
    )
    np.testing.assert_allclose(by_codes, by_names)
    assert by_codes.min() > (-0.6 if scoring == "neg_log_loss" else 0.85)


def test_a_search_of_a_pipeline_runs():
    search = GridSearchCV(
        make_pipeline(StandardScaler(), QUICK),
        {"angpnclassifier__n_neighbors": [5, 10]},
        cv=SemiSupervisedKFold(3),
        scoring="f1_macro",
        error_score="raise",
    )
    assert search.fit(X, NAMES).best_score_ > 0.85


def test_too_many_folds_and_rows_that_do_not_match_are_refused():
    with pytest.raises(
        ValueError, match="n_splits=5 needs a class of as many labels, got 3 labelled rows and at most 2"
    ):
        list(SemiSupervisedKFold().split(np.zeros((6, 1)), ["a", "a", "b", None, None, None]))
    with pytest.raises(
        ValueError, match="got 0 labelled rows and at most 0 of a class; label more rows, or lower n_spl"
    ):
        list(SemiSupervisedKFold(2).split(np.zeros((3, 1)), [-1, -1, -1]))
    with pytest.raises(ValueError, match="y must have one row for each row of X, expected 3, got 2"):
        list(SemiSupervisedKFold(2).split(np.zeros((3, 1)), ["a", "b"]))


@pytest.mark.filterwarnings("ignore:.*least populated class")
def test_a_fit_warns_of_folds_and_scores_that_take_unlabelled_rows_for_a_class():
    rows = np.random.default_rng(1).permutation(len(X))  # or a fold would have one class alone
    with pytest.warns(
        UserWarning, match=r"folds should be stratified .*; pass cv=angpn.model_selection.SemiSupervisedKF"
    ):
        cross_val_score(QUICK, X[rows], NAMES[rows], cv=3)
    with pytest.warns(
        UserWarning, match=r"scoring should leave unlabelled rows out, .* cv=angpn.model_selection.SemiSup"
    ):
        found = cross_val_score(make_pipeline(StandardScaler(), QUICK), X, CODES, cv=3, scoring="accuracy")
    assert found.max() < 0.4
    with warnings.catch_warnings(action="error"):
        assert cross_val_score(QUICK, X, CODES, cv=3).min() > 0.85  # the default score leaves them out
        QUICK.fit(X, NAMES).score(X, NAMES)
