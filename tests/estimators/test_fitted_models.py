"""What a fit leaves behind of an ensemble: fitted rows are recognised, others predicted."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse
import torch
from numpy.testing import assert_allclose, assert_array_equal

from angpn.ensemble.propagated_features import Adjacency, propagate_hops
from angpn.estimators.fitted_models import FittedEnsemble
from angpn.neighbors.exact import nearest_fitted
from angpn.neighbors.neighborhood import Neighborhood
from ensemble_problems import KERNEL, LINEAR, SPREADING, TRUTH, moved, trained_ensemble


def fitted_ensemble(**options):
    found, rows = trained_ensemble(**options)
    return FittedEnsemble(found.ensemble, rows, found.neighborhood, "chord", found.probabilities.double().numpy())


def answers(fitted, rows):
    nearest = nearest_fitted(fitted.rows, rows, fitted.neighborhood.n_candidates, fitted.metric)
    return fitted.embed_new(rows, *nearest), fitted.predict_new(rows, *nearest)


@pytest.fixture(scope="module")
def fitted():
    return fitted_ensemble()


def test_paths_lead_from_the_rows_to_the_features_of_each_head(fitted):
    features = torch.from_numpy(fitted.rows).float()
    of_spreading, *paths = fitted.propagation_paths()
    assert len(of_spreading) == SPREADING.influence_hops[1] == 5
    assert [len(path) for path in paths] == [2, 3]
    for parameters, path in zip((LINEAR, KERNEL), paths, strict=True):
        adjacency = Adjacency(fitted.graphs[-1], "normalized")
        expected = propagate_hops(features, adjacency, [parameters.hops])[parameters.hops]
        found = fitted.rows
        for propagation_matrix in path:
            found = propagation_matrix @ found
        assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
def test_a_fitted_row_is_recognised_and_only_that(kind):
    fitted = fitted_ensemble(kind=kind)
    # Probabilities that the ensemble itself would not predict show which rows were recognised.
    marked = dataclasses.replace(fitted, distributions=np.tile([0.25, 0.25, 0.5], (90, 1)))
    dense = np.asarray(fitted.rows.toarray() if kind is scipy.sparse.csr_array else fitted.rows)
    mixed = np.where(np.arange(90)[:, None] % 2 == 0, dense, moved(dense, 1e-6))
    embedded, found = answers(marked, kind(mixed))
    recognised = (found == [0.25, 0.25, 0.5]).all(axis=1)
    assert_array_equal(recognised, np.arange(90) % 2 == 0)
    assert_array_equal(embedded[recognised], marked.embedding()[recognised])


def test_an_empty_row_is_recognised_where_one_was_fitted(fitted):
    rows = fitted.rows.copy()
    rows[5] = 0
    with_empty = dataclasses.replace(fitted, rows=rows, distributions=np.eye(3)[TRUTH])
    empty = np.zeros((1, 4))
    indices, near = torch.arange(1, 90)[None], torch.ones(1, 89, dtype=torch.float64)
    assert_array_equal(with_empty.predict_new(empty, indices, near), np.eye(3)[TRUTH[5:6]])
    assert not np.isin(fitted.predict_new(empty, indices, near), (0, 1)).all()


def test_predictions_have_the_type_of_the_rows(fitted):
    single = dataclasses.replace(
        fitted,
        rows=fitted.rows.astype(np.float32),
        neighborhood=Neighborhood(fitted.neighborhood.indices, fitted.neighborhood.distances.float()),
        distributions=fitted.distributions.astype(np.float32),
    )
    rows = moved(fitted.rows, 0.3)
    found = answers(single, rows.astype(np.float32))
    assert {part.dtype for part in found} == {np.dtype(np.float32)}
    assert single.embedding().dtype == np.float32
    assert_allclose(found[1], answers(fitted, rows)[1], atol=1e-3)


def test_the_embedding_is_as_wide_as_the_features(fitted):
    assert fitted.embedding().shape == (90, fitted.width) == (90, 4)
