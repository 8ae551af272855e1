"""Extremely randomised trees: what they separate, what they make of weights, and how rows go down."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_classification
from sklearn.ensemble import ExtraTreesClassifier

from angpn.kernels.extra_trees import descend_rows, grow_tree, grow_trees, next_random

DTYPES = [np.float32, np.float64]


def problem(n=60, width=5, n_classes=3, dtype=np.float32, seed=0):
    """Rows and classes that have nothing to do with each other."""
    generator = np.random.default_rng(seed)
    return generator.normal(size=(n, width)).astype(dtype), generator.integers(n_classes, size=n)


def grow(columns, codes, weights=None, n_classes=3, n_drawn=2, min_leaf=1, seeds=(0,)):
    weights = np.ones(len(codes)) if weights is None else weights
    return grow_trees(columns, codes, weights, n_classes, n_drawn, min_leaf, np.array(seeds, np.uint64))


def predict(columns, forest):
    """The mean class shares of the leaves that rows come to."""
    out = np.full((len(columns), forest[3].shape[1]), np.nan, np.float32)
    descend_rows(0, len(columns), columns, *forest, out)
    return out


def walk(row, forest):
    """The mean class shares for one row, node after node."""
    column, threshold, left, shares, roots = forest
    found = []
    for node in roots:
        while column[node] != -1:
            node = left[node] if row[column[node]] <= threshold[node] else left[node] + 1
        found.append(shares[left[node]].astype(np.float64))
    return np.mean(found, axis=0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_drawn", [1, 2, 5, 9])
def test_a_tree_tells_all_distinct_rows_apart(dtype, n_drawn):
    columns, codes = problem(dtype=dtype)
    for seed in range(5):
        forest = grow(columns, codes, n_drawn=n_drawn, seeds=[seed])
        assert_array_equal(predict(columns, forest), np.eye(3)[codes])
        assert forest[1].dtype == dtype


def test_rows_that_differ_in_one_column_by_a_last_bit_are_told_apart():
    columns, codes = np.full((8, 3), 0.1, np.float32), np.arange(8) % 2
    for row in range(1, 8):
        columns[row] = columns[row - 1]
        columns[row, 1] = np.nextafter(columns[row - 1, 1], np.float32(1))
    for seed in range(20):
        assert_array_equal(predict(columns, grow(columns, codes, n_classes=2, seeds=[seed])), np.eye(2)[codes])


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_largest_numbers_do_not_overflow(dtype):
    largest = np.finfo(dtype).max
    columns, codes = np.array([[-largest], [0], [largest]], dtype), np.arange(3)
    forest = grow(columns, codes, seeds=range(20))
    assert np.isfinite(forest[1]).all()
    assert_array_equal(predict(columns, forest), np.eye(3))


def test_the_shares_of_a_leaf_are_those_of_its_rows_and_sum_to_1():
    columns, codes = problem(n=200)
    columns = np.round(columns[:, :2])  # many rows are the same
    weights = np.random.default_rng(1).uniform(0.5, 2, size=200)
    forest = grow(columns, codes, weights, seeds=range(10))
    shares = forest[3]
    assert (shares.max(axis=1) < 1).any()
    assert_allclose(shares.sum(axis=1), 1, rtol=1e-6)
    expected = np.empty((200, 3))
    for row in range(200):
        same = (columns == columns[row]).all(axis=1)
        sums = np.bincount(codes[same], weights[same], minlength=3)
        expected[row] = sums / sums.sum()
    assert_allclose(predict(columns, forest), expected, rtol=1e-5, atol=1e-6)


def test_constant_columns_are_never_decided_on():
    columns, codes = problem()
    columns[:, [0, 2, 4]] = 7.0
    forest = grow(columns, codes, n_drawn=1, seeds=range(20))
    assert set(forest[0]) == {-1, 1, 3}
    assert_array_equal(predict(columns, forest), np.eye(3)[codes])
    constant = grow(np.ones_like(columns), codes, seeds=range(3))
    assert_array_equal(constant[0], [-1, -1, -1])
    assert_allclose(predict(columns, constant), np.tile(np.bincount(codes) / 60, (60, 1)), rtol=1e-6)


@pytest.mark.parametrize("min_leaf", [2, 3, 10, 31])
def test_a_leaf_has_as_many_rows_as_asked_for(min_leaf):
    columns, codes = problem()
    forest = grow(columns, codes, min_leaf=min_leaf, n_drawn=5, seeds=range(20))
    counts = np.bincount([leaf_of(row, forest, root) for row in columns for root in forest[4]])
    assert len(counts) == len(forest[3])
    assert counts.min() >= min_leaf
    assert (len(counts) > 20) == (min_leaf <= 30)  # of 60 rows two leaves have at most 30


def leaf_of(row, forest, node):
    column, threshold, left = forest[:3]
    while column[node] != -1:
        node = left[node] + int(row[column[node]] > threshold[node])
    return left[node]


def test_children_come_after_their_parents_and_every_node_has_one_parent():
    forest = grow(*problem(n=300), seeds=range(7))
    column, _, left, shares, roots = forest
    inner = np.flatnonzero(column >= 0)
    assert (left[inner] > inner).all()
    children = np.concatenate([left[inner], left[inner] + 1])
    assert_array_equal(np.sort(np.concatenate([children, roots])), np.arange(len(column)))
    assert_array_equal(np.sort(left[column < 0]), np.arange(len(shares)))


def test_a_seed_gives_one_tree_and_another_seed_another():
    columns, codes = problem()
    one, again, other = (grow(columns, codes, seeds=[seed]) for seed in (5, 5, 6))
    for part, same in zip(one, again, strict=True):
        assert_array_equal(part, same)
    assert len(one[1]) != len(other[1]) or (one[1] != other[1]).any()


def test_the_trees_of_a_forest_are_those_of_its_seeds_one_after_the_other():
    columns, codes = problem()
    weights = np.random.default_rng(1).uniform(0.5, 2, size=60)
    column, threshold, left, shares, roots = grow(columns, codes, weights, seeds=[3, 1, 4])
    n_nodes = n_leaves = 0
    for seed, root in zip([3, 1, 4], roots, strict=True):
        of_tree = grow_tree(columns, codes, weights, 3, 2, 1, np.uint64(seed))
        nodes, leaves = slice(root, root + len(of_tree[0])), slice(n_leaves, n_leaves + len(of_tree[3]))
        assert root == n_nodes
        assert_array_equal(column[nodes], of_tree[0])
        assert_array_equal(threshold[nodes], of_tree[1])
        assert_array_equal(left[nodes] - np.where(of_tree[0] < 0, n_leaves, n_nodes), of_tree[2])
        assert_array_equal(shares[leaves], of_tree[3])
        n_nodes, n_leaves = nodes.stop, leaves.stop
    assert (n_nodes, n_leaves) == (len(column), len(shares))


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_go_down_as_node_after_node_says(dtype):
    columns, codes = problem(dtype=dtype)
    forest = grow(columns, codes, np.linspace(0.5, 2, 60), min_leaf=3, seeds=range(9))
    new, _ = problem(n=40, dtype=dtype, seed=1)
    new[:5, 0] = forest[1][forest[0] == 0][:5]  # on a threshold they go left
    assert_allclose(predict(new, forest), [walk(row, forest) for row in new], rtol=1e-6, atol=1e-7)
    part = np.full((40, 3), -1, np.float32)
    descend_rows(10, 20, new, *forest, part)
    assert_array_equal(part[10:20], predict(new, forest)[10:20])
    assert (np.delete(part, np.s_[10:20], axis=0) == -1).all()


def test_a_weight_is_so_many_rows():
    generator = np.random.default_rng(0)
    columns, codes = np.round(generator.normal(size=(80, 3)), 1).astype(np.float32), generator.integers(3, size=80)
    counts = generator.integers(1, 4, size=80)
    weighted = grow(columns, codes, counts.astype(np.float64), seeds=range(8))
    repeated = grow(np.repeat(columns, counts, axis=0), np.repeat(codes, counts), seeds=range(8))
    for one, other in zip(weighted, repeated, strict=True):
        assert_array_equal(one, other)


def test_a_row_of_large_weight_decides_its_leaf():
    columns, codes = np.zeros((3, 2), np.float32), np.array([0, 1, 2])
    assert_allclose(grow(columns, codes, np.array([1.0, 1.0, 2.0]))[3], [[0.25, 0.25, 0.5]])
    assert_allclose(grow(columns, codes, np.array([1.0, 1.0, 1e9]))[3], [[0, 0, 1]], atol=1e-8)
    assert_allclose(grow(columns, codes, np.array([1e-9, 1.0, 1.0]))[3], [[0, 0.5, 0.5]], atol=1e-8)


def test_the_scale_of_all_weights_plays_no_part():
    columns, codes = problem()
    weights = np.random.default_rng(1).uniform(0.5, 2, size=60)
    one, other = (grow(columns, codes, weights * factor, min_leaf=3, seeds=range(5)) for factor in (1, 2.0**40))
    for part, same in zip(one, other, strict=True):
        assert_array_equal(part, same)


def test_a_split_leaves_the_least_impurity_of_those_drawn():
    """The class is told by one column alone: where all are drawn, every root decides on it."""
    generator = np.random.default_rng(0)
    codes = np.arange(100) % 2
    columns = generator.normal(size=(100, 4)).astype(np.float32)
    columns[:, 2] = codes  # any threshold is right
    for seed in range(10):
        column, _, left, shares, _ = grow(columns, codes, n_classes=2, n_drawn=4, seeds=[seed])
        assert_array_equal(column, [2, -1, -1])
        assert_array_equal(left, [1, 0, 1])
        assert_array_equal(shares, np.eye(2))


@pytest.mark.parametrize("min_leaf", [1, 3])
def test_forests_are_as_accurate_as_those_of_scikit_learn(min_leaf):
    ours, theirs = [], []
    for seed in range(5):
        X, y = make_classification(
            1200, 16, n_informative=8, n_classes=4, class_sep=1.0, flip_y=0.05, random_state=seed
        )
        X = X.astype(np.float32)
        reference = ExtraTreesClassifier(100, min_samples_leaf=min_leaf, max_features=4, random_state=seed)
        reference.fit(X[:400], y[:400])
        forest = grow(X[:400], y[:400], n_classes=4, n_drawn=4, min_leaf=min_leaf, seeds=np.arange(100) * 2**32)
        ours.append(np.mean(predict(X[400:], forest).argmax(axis=1) == y[400:]))
        theirs.append(np.mean(reference.predict(X[400:]) == y[400:]))
        # The probabilities are alike too, but for the randomness of a hundred trees.
        assert abs(predict(X[400:], forest) - reference.predict_proba(X[400:])).mean() < 0.05
    assert np.mean(theirs) > 0.6
    assert abs(np.mean(ours) - np.mean(theirs)) < 0.02
    assert_allclose(ours, theirs, atol=0.04)


def test_random_numbers_are_uniform_and_those_of_far_seeds_unlike():
    def numbers(seed):
        state = np.array([seed], np.uint64)
        return np.array([next_random(state) for _ in range(20_000)])

    one, other = numbers(0), numbers(2**32)
    for found in (one, other):
        assert found.min() >= 0
        assert found.max() <= 1
        assert_allclose(np.histogram(found, bins=10, range=(0, 1))[0], 2000, rtol=0.1)
        assert abs(np.corrcoef(found[:-1], found[1:])[0, 1]) < 0.03
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.03
    # The first numbers of SplitMix64 with this state, as its author's C program prints them.
    state = np.array([1234567], np.uint64)
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert_allclose([next_random(state) * 2**64 for _ in range(3)], expected, rtol=1e-15)
