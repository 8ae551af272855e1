import numpy as np
import pytest
import scipy.stats

from angpn.experiments.statistics import Cell, average_ranks, cells, corrected_t, wilcoxon_over_conditions


def record(method, split, accuracy, dataset="coraml", rate=10, error=None):
    return {
        "dataset": dataset,
        "rate": rate,
        "split": split,
        "method": method,
        "test_accuracy": accuracy,
        "error": error,
    }


def cell(*accuracies):
    return Cell(float(np.mean(accuracies)), 0.0, dict(enumerate(accuracies)))


def test_cells_leave_failures_out():
    found = cells([record("A", 0, 60.0), record("A", 1, 62.0), record("A", 2, None, error="Traceback")])
    assert found["A"]["coraml", 10].mean == 61.0
    assert found["A"]["coraml", 10].std == pytest.approx(np.sqrt(2))


def test_ranks_share_ties_and_use_common_conditions_only():
    found = {
        "A": {("x", 10): cell(3), ("y", 10): cell(1)},
        "B": {("x", 10): cell(2), ("y", 10): cell(1)},
        "C": {("x", 10): cell(1), ("y", 10): cell(2), ("z", 10): cell(9)},
    }
    assert average_ranks(found, ["A", "B", "C"]) == {"A": 1.75, "B": 2.25, "C": 2.0}


def test_corrected_t_without_its_correction_is_the_paired_t():
    first, second = cell(61.0, 63.5, 60.2, 64.1, 62.2), cell(60.1, 61.9, 60.3, 62.2, 61.0)
    paired = scipy.stats.ttest_rel(list(first.accuracies.values()), list(second.accuracies.values()))
    statistic = paired.statistic * np.sqrt((1 / 5) / (1 / 5 + 85 / 10))
    expected = 2 * scipy.stats.t.sf(abs(statistic), 4)
    assert corrected_t(first, second, 10) == pytest.approx(expected)
    assert corrected_t(first, first, 10) is None
    assert corrected_t(cell(1.0), cell(2.0), 10) is None


def test_wilcoxon_needs_six_conditions_and_detects_a_constant_lead():
    first = {("set", rate): cell(rate + 1.0 + 0.01 * rate) for rate in range(8)}
    second = {("set", rate): cell(float(rate)) for rate in range(8)}
    assert wilcoxon_over_conditions(first, second) == pytest.approx(2 / 2**8)
    few = {condition: first[condition] for condition in list(first)[:5]}
    assert wilcoxon_over_conditions(few, second) is None
