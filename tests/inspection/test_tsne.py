import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.manifold import TSNE
from sklearn.preprocessing import normalize

from angpn.inspection.tsne import (
    _descend,
    _first_positions,
    conditional_probabilities,
    joint_probabilities,
    kl_gradient,
    tsne,
)

DIGITS = normalize(load_digits().data[:400]).astype(np.float32)


def cross_entropy(joint, positions):
    """What t-SNE minimises, by its definition: the Kullback-Leibler divergence up to a constant."""
    student = 1 / (1 + ((positions[:, None] - positions[None]) ** 2).sum(axis=2))  # 1 on the diagonal
    return np.log(student.sum() - len(student)) - (joint * np.log(student)).sum()


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_the_neighbours_of_each_row_have_the_perplexity(scale):
    squares = scale * np.random.default_rng(0).exponential(size=(50, 20)) + 5 * scale
    found = conditional_probabilities(squares, 6.0)
    assert_allclose(found.sum(axis=1), 1)
    assert_allclose(np.exp(-(found * np.log(found)).sum(axis=1)), 6.0, rtol=1e-6)
    assert ((np.diff(found) < 0) == (np.diff(squares) > 0)).all()


def test_neighbours_at_one_distance_count_alike():
    assert_allclose(conditional_probabilities(np.zeros((3, 20)), 6.0), 0.05)


def test_probabilities_of_pairs_are_symmetric_and_sum_to_one():
    joint = joint_probabilities(DIGITS, 10.0).toarray()
    assert_allclose(joint, joint.T)
    assert_allclose(joint.sum(), 1, rtol=1e-5)
    assert (joint.diagonal() == 0).all()


@pytest.mark.parametrize("exaggeration", [1.0, 12.0])
def test_the_gradient_is_that_of_the_divergence(exaggeration):
    joint = joint_probabilities(DIGITS[:30], 5.0)
    positions = np.random.default_rng(0).normal(size=(30, 2))
    found = kl_gradient(joint, np.ascontiguousarray(positions.T), exaggeration)
    expected = np.empty((2, 30))
    for axis, row in np.ndindex(2, 30):
        step = np.zeros((30, 2))
        step[row, axis] = 1e-5
        higher, lower = (cross_entropy(exaggeration * joint.toarray(), positions + sign * step) for sign in (1, -1))
        expected[axis, row] = (higher - lower) / 2e-5
    assert_allclose(found, expected, rtol=1e-4, atol=1e-7)


def test_the_divergence_is_as_low_as_that_of_scikit_learn():
    joint = joint_probabilities(DIGITS, 30.0).toarray().astype(np.float64)
    constant = (joint[joint > 0] * np.log(joint[joint > 0])).sum()
    ours, theirs = tsne(DIGITS, random_state=0), TSNE(random_state=0).fit_transform(DIGITS)
    assert constant + cross_entropy(joint, ours) < 1.1 * (constant + cross_entropy(joint, theirs))


def test_rows_with_one_column_and_two_rows_have_positions():
    line = np.linspace(0, 1, 40)[:, None]
    assert np.ptp(tsne(line, perplexity=5.0)[:, 0]) > 1
    assert np.isfinite(tsne(np.eye(2), perplexity=1.0)).all()


@pytest.mark.slow
def test_an_exaggeration_under_which_all_rows_contract_is_lowered():
    """Of texts with hardly a word in common none are much nearer than others: some shrank to a line or a point."""
    generator = np.random.default_rng(0)
    rows = np.zeros((500, 4000))
    for row in rows:
        row[generator.choice(4000, 40, replace=False)] = generator.exponential(size=40)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    joint, first = joint_probabilities(rows, 30.0), _first_positions(rows, 0)

    def first_phase(exaggeration):
        return _descend(joint, first, np.zeros_like(first), np.ones_like(first), exaggeration, 50.0, 250, 0.5)

    def contracts(state):
        return (state[0].std(axis=1) < first.std(axis=1)).any()

    assert contracts(first_phase(12.0))
    enough = next(state for state in map(first_phase, (6.0, 3.0, 1.0)) if not contracts(state))
    expected = _descend(joint, *enough, 1.0, 50.0, 750, 0.8)[0].T
    assert_array_equal(tsne(rows, random_state=0), expected)
