"""Sparse features in the first layer against the same rows written out."""

import numpy as np
import pytest
import scipy.sparse
import torch
from torch.testing import assert_close

from angpn import ANGPN, ANGPNConv, nearest_candidates, train
from problems import awkward_features

VARIANTS = [
    {},
    {"beta": 0.0},
    {"rule": "printed"},
    {"gamma": "local"},
    {"num_steps": 3},
    {"num_steps": None},
    {"direction": "symmetric"},
    {"direction": "normalized"},
    {"normalize": True},
]


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_sparse_rows_propagate_like_dense_ones(options):
    x = awkward_features(torch.float64)
    neighborhood = nearest_candidates(x, 12)
    layer = ANGPNConv(13, 3, n_neighbors=5, **options).double()
    results = []
    for features in (x, scipy.sparse.csr_array(x.numpy()), x.to_sparse_coo()):
        layer.zero_grad()
        out = layer(features, neighborhood)
        out.square().sum().backward()
        results.append((out.detach(), layer.weight.grad.clone(), layer.graph(features, neighborhood)))
    for result in results[1:]:
        for ours, dense in zip(result, results[0], strict=True):
            assert_close(ours, dense)


def test_training_on_sparse_rows_is_training_on_dense_ones():
    x = awkward_features(torch.float64)
    neighborhood = nearest_candidates(x, 12)
    labels = torch.full((40,), -1)
    labels[[0, 1, 2, 3, 14, 15, 16, 17]] = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    runs = []
    for features in (x, scipy.sparse.csc_matrix(x.numpy())):
        network = ANGPN(13, 6, 2, n_neighbors=5, normalize_hidden=True).double()
        losses = [
            e.loss for e in train(network, features, neighborhood, labels, validation_fraction=0.25, max_epochs=15)
        ]
        runs.append((torch.tensor(losses), network(features, neighborhood), network.graphs(features, neighborhood)[1]))
    for dense, ours in zip(*runs, strict=True):
        assert_close(ours, dense)


def test_sparse_rows_are_never_written_out():
    rng = np.random.default_rng(0)
    wide = scipy.sparse.random_array((300, 2_000_000), density=1e-5, rng=rng, dtype=np.float32)  # 2.4 GB if dense
    neighborhood = nearest_candidates(wide, 8)
    network = ANGPN(wide.shape[1], 2, 2, n_neighbors=4, num_layers=1)
    assert network(wide, neighborhood).shape == (300, 2)


def test_bad_input():
    x = awkward_features()
    sparse = scipy.sparse.csr_array(x.numpy())
    neighborhood = nearest_candidates(x, 12)
    with pytest.raises(ValueError, match="sparse features need candidate lists and backend .* got DenseNeighborhood"):
        ANGPNConv(13, 3, n_neighbors=5)(sparse, neighborhood.to_dense())
    with pytest.raises(ValueError, match="sparse features need candidate lists .* backend='torch'; make lists"):
        ANGPNConv(13, 3, n_neighbors=5, backend="torch")(sparse, neighborhood)
    with pytest.raises(ValueError, match="features must have in_channels=12 columns, got 13"):
        ANGPNConv(12, 3, n_neighbors=5)(sparse, neighborhood)
    sparse.data[0] = np.nan
    with pytest.raises(ValueError, match="features must be finite, got 1 NaN"):
        ANGPNConv(13, 3, n_neighbors=5)(sparse, neighborhood)
