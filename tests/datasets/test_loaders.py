"""The real sets, where ANGPN_DATA names their folder, and errors where they are missing."""

import hashlib
import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_array_equal
from sklearn.metrics.pairwise import linear_kernel
from sklearn.preprocessing import normalize

from angpn.datasets import (
    SETS,
    data_folder,
    load_20news,
    load_breast_cancer,
    load_cifar10,
    load_coraml,
    load_digits,
    load_mnist10k,
    load_svhn,
    load_wine,
)
from angpn.datasets.image_datasets import selection

real = pytest.mark.skipif("ANGPN_DATA" not in os.environ, reason="ANGPN_DATA does not name a folder with the real sets")

COUNTS = {
    "svhn": [500] * 10,
    "cifar10": [500] * 10,
    "20news": [988, 993, 992, 997],
    "coraml": [177, 233, 418, 245, 166, 128, 250],
}
DIGESTS = {
    "20news.npz": "fa3d82dccfbcd825f8120110a9c0b9615a17148870130fd5206dbeddb651b6c2",
    "cifar10_features.npz": "ebcec73635e255950b83078f4d453a96650c38be7865fa0546fe4d55d663f9fa",
    "cifar10_images.npz": "b31071b57473d395c8f721c4f7ae7e1cd0b06de37dd058941271321daf476e6e",
    "coraml.npz": "ebf105b450cbbde04ab3a2444a11a9bedaa9f7d375d5dae89dd14afc593fb545",
    "svhn_features.npz": "32dab2b6541d0b7d5d83c0a7e053454ff0799337dd4c9c0b35196abf9475dbf8",
    "svhn_images.npz": "8509e4ed0b6b295723a8ef5a3d1b3f22222400fdfa5af80e5af37c7d1747ac69",
}


@real
@pytest.mark.parametrize("name", COUNTS)
def test_shapes_and_classes_are_the_papers(name):
    found = SETS[name].load()
    assert found.data.shape == SETS[name].shape
    assert_array_equal(np.bincount(found.target), COUNTS[name])
    assert len(found.target_names) == SETS[name].n_classes
    assert len(found.feature_names) == SETS[name].shape[1]
    assert found.DESCR
    X, y = SETS[name].load(return_X_y=True)
    again = SETS[name].load(return_X_y=True)[0]
    assert_array_equal(y, found.target)
    if scipy.sparse.issparse(X):
        assert (again != X).nnz == 0
    else:
        assert_array_equal(X, again)
        assert X.dtype == np.float32
        assert np.isfinite(X).all()


@real
@pytest.mark.parametrize("name", DIGESTS)
def test_the_prepared_files_have_their_digests(name):
    contents = (Path(os.environ["ANGPN_DATA"]) / name).read_bytes()
    assert hashlib.sha256(contents).hexdigest() == DIGESTS[name]


@real
@pytest.mark.parametrize(("name", "load"), [("svhn", load_svhn), ("cifar10", load_cifar10)])
def test_pixels_are_those_of_the_selection(name, load):
    found = load(images=True)
    assert found.data.shape == (5000, 32, 32, 3)
    assert found.data.dtype == np.uint8
    assert_array_equal(found.target, load().target)
    with np.load(Path(os.environ["ANGPN_DATA"]) / f"{name}_images.npz") as file:
        assert_array_equal(selection(name), file["train_index"])


@real
def test_coraml_has_empty_rows_that_no_row_may_take_for_a_neighbour():
    X, _ = load_coraml(return_X_y=True)
    empty = np.asarray(X.sum(axis=1) == 0).ravel()
    assert empty.sum() == 187
    assert (np.asarray(X.sum(axis=0)).ravel() == 0).sum() == 745
    from angpn import nearest_candidates

    neighborhood = nearest_candidates(X, 10)
    chosen = neighborhood.indices[~empty]
    chosen_freely = neighborhood.distances[~empty] < np.sqrt(2) - 1e-9  # nearer than what has nothing in common
    assert not empty[chosen.numpy()[chosen_freely.numpy()]].any()
    assert neighborhood.all_tied.numpy()[empty].all()


@real
def test_every_20news_document_shares_a_word_with_another():
    """So none is equidistant from all others; the most isolated one shares words with six."""
    X, _ = load_20news(return_X_y=True)
    unit = normalize(X)
    others = np.asarray((linear_kernel(unit, dense_output=False) > 0).sum(axis=1)).ravel() - 1
    assert others.min() == 6


@real
def test_files_sorted_by_class_do_not_leak_the_class_through_ties():
    """A row that ties with all others takes candidates from all classes, not the first ones of the file."""
    X, y = load_20news(return_X_y=True)
    assert (np.diff(y) >= 0).all()
    from angpn import nearest_candidates

    alone = scipy.sparse.csr_array(([1.0], ([0], [X.shape[1]])), shape=(1, X.shape[1] + 1))  # a word nobody else has
    wider = scipy.sparse.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], X.shape[1] + 1))
    neighborhood = nearest_candidates(scipy.sparse.vstack([alone, wider]), 40)
    assert neighborhood.all_tied[0]
    assert len(np.unique(y[neighborhood.indices[0].numpy() - 1])) == 4


def test_bundled_sets_have_the_same_interface():
    for load, shape in ((load_digits, (1797, 64)), (load_wine, (178, 13)), (load_breast_cancer, (569, 30))):
        found = load()
        assert found.data.shape == shape
        assert len(found.feature_names) == shape[1]
        assert found.DESCR.startswith("Load ")
        assert "Args:" not in found.DESCR
        X, y = load(return_X_y=True)
        assert_array_equal(X, found.data)
        assert_array_equal(y, found.target)


def test_the_data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ANGPN_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    assert data_folder(tmp_path / "mine") == tmp_path / "mine"
    monkeypatch.delenv("ANGPN_DATA")
    assert data_folder().name == "angpn"


def test_missing_coraml_is_an_error_with_instructions(tmp_path):
    with pytest.raises(FileNotFoundError, match="coraml.npz must hold CoraML, .* no stable official download exists"):
        load_coraml(data_home=tmp_path)


def test_a_broken_file_is_named(tmp_path):
    (tmp_path / "coraml.npz").write_bytes(b"not a zip")
    with pytest.raises(ValueError, match="coraml.npz must be a whole .npz file, got one that cannot be read"):
        load_coraml(data_home=tmp_path)
    np.savez(
        tmp_path / "coraml.npz", data=np.ones(1), indices=np.array([9]), indptr=np.array([0, 1]), shape=np.array([1, 2])
    )
    with pytest.raises(
        ValueError, match="coraml.npz must hold rows of 7 classes, labelled from 0, got none of class 0"
    ):
        load_coraml(data_home=tmp_path)


def test_a_file_with_a_missing_class_or_inconsistent_parts_is_named(tmp_path):
    parts = {"data": np.ones(1), "indices": np.array([9]), "indptr": np.array([0, 1]), "shape": np.array([1, 2])}
    np.savez(tmp_path / "coraml.npz", y=np.array([0, 1, 2, 4, 5, 6]), **parts)
    with pytest.raises(
        ValueError, match="coraml.npz must hold rows of 7 classes, labelled from 0, got none of class 3"
    ):
        load_coraml(data_home=tmp_path)
    np.savez(tmp_path / "coraml.npz", y=np.arange(7), **parts)
    with pytest.raises(ValueError, match="coraml.npz must hold the parts of a CSR matrix"):
        load_coraml(data_home=tmp_path)
    np.savez(tmp_path / "svhn_features.npz", X=np.ones((9, 2)), y=np.arange(9))
    with pytest.raises(ValueError, match="svhn_features.npz must hold rows of 10 classes, .* got none of class 9"):
        load_svhn(data_home=tmp_path)


def test_mnist_is_the_first_thousand_of_each_digit_of_the_file(tmp_path):
    generator = np.random.default_rng(0)
    labels = generator.permutation(np.repeat(np.arange(10), 1100))
    pixels = generator.integers(0, 256, size=(len(labels), 28, 28), dtype=np.uint8)
    np.savez(tmp_path / "mnist.npz", X_train=pixels, y_train=labels)
    X, y = load_mnist10k(data_home=tmp_path, return_X_y=True)
    assert X.shape == (10_000, 784)
    assert (np.bincount(y) == 1000).all()
    assert X.min() >= 0
    assert X.max() <= 1
    first = np.flatnonzero(labels == 7)[0]
    np.testing.assert_allclose(X[np.flatnonzero(y == 7)[0]], pixels[first].ravel() / 255, rtol=1e-6)
