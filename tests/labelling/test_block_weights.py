"""Weights of blocks: labels rule out a block that says nothing, and do not choose where they are too few."""

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_array_equal

from angpn.labelling import block_weights
from angpn.labelling.block_weights import candidate_weights, choose_weights, held_out_loss, join_blocks


def problem(n=120, labels=15, seed=0):
    """Return a block that tells three classes apart, one of other groups, and labels for some rows of each class."""
    generator = np.random.default_rng(seed)
    truth = generator.integers(3, size=n)
    telling = np.eye(3)[truth] * 2 + generator.normal(size=(n, 3)) * 0.5
    misleading = 4 * np.eye(6)[generator.integers(6, size=n)] + generator.normal(size=(n, 6)) * 0.3  # of other groups
    unit = [block / np.linalg.norm(block, axis=1, keepdims=True) for block in (telling, misleading)]
    y = np.full(n, None, dtype=object)
    for name in range(3):
        rows = np.flatnonzero(truth == name)[:labels]
        y[rows] = f"class {name}"
    return [block.astype(np.float32) for block in unit], y


def test_candidates_are_all_choices_of_blocks():
    assert candidate_weights(2) == [(1, 1), (1, 0), (0, 1)]
    assert len(candidate_weights(3)) == 7
    assert candidate_weights(3)[0] == (1, 1, 1)


def test_labels_rule_out_a_block_of_other_groups():
    (telling, misleading), y = problem()
    assert choose_weights([telling, misleading], y) == (1, 0)
    assert choose_weights([scipy.sparse.csr_array(misleading), telling], y) == (0, 1)
    assert held_out_loss([telling], (1,), y) < held_out_loss([misleading], (1,), y)


def test_blocks_that_say_the_same_are_both_kept():
    (telling, _), y = problem()
    assert choose_weights([telling, telling], y) == (1, 1)


@pytest.mark.parametrize("labels", [0, 1])
def test_too_few_labels_choose_nothing(labels):
    (telling, misleading), y = problem(labels=labels)
    assert choose_weights([misleading, telling], y) == (1, 1)
    assert choose_weights([misleading, telling], None) == (1, 1)


def test_one_class_chooses_nothing_and_one_block_is_taken(monkeypatch):
    blocks, y = problem()
    y[y != "class 1"] = None
    monkeypatch.setattr(block_weights, "held_out_loss", lambda *_: pytest.fail("a fit"))
    assert choose_weights(blocks, y) == (1, 1)
    assert choose_weights(blocks[:1], y) == (1,)


def test_very_many_rows_are_sampled(monkeypatch):
    blocks, y = problem()
    monkeypatch.setattr(block_weights, "MAX_ROWS", 60)
    monkeypatch.setattr(block_weights, "MAX_LABELS", 30)
    seen = []
    monkeypatch.setattr(
        block_weights, "held_out_loss", lambda blocks, weights, y, seed: seen.append((len(blocks[0]), y)) or 1.0
    )
    choose_weights(blocks, y)
    assert [count for count, _ in seen] == [60] * 3
    assert sum(label is not None for label in seen[0][1]) == 30


def test_joined_blocks_stand_side_by_side():
    first, second = np.ones((2, 2), np.float32), np.full((2, 1), 3, np.float32)
    assert_array_equal(join_blocks([first, second], (1, 0.5)), [[1, 1, 1.5]] * 2)
    assert_array_equal(join_blocks([first, second], (0, 1)), second)
    joined = join_blocks([scipy.sparse.csr_array(first), second], (1, 1))
    assert scipy.sparse.issparse(joined)
    assert joined.dtype == np.float32
    assert_array_equal(joined.toarray(), [[1, 1, 3]] * 2)
