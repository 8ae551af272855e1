"""When to stop: the rule, the extrapolation, and what is said of them."""

import pytest

from angpn.annotation.actions import Measured
from angpn.annotation.estimate import describe_estimate, is_reached, labels_to_go
from angpn.annotation.messages import MeasuredAccuracy


def point(labels, accuracy, n):
    return Measured(labels, accuracy, accuracy - 0.1, min(1.0, accuracy + 0.1), n)


def power_law(counts, a=4.0, b=0.8, n=200):
    return [point(count, 1 - a * count**-b, n) for count in counts]


def test_a_target_is_reached_when_two_models_in_a_row_are_there():
    there, not_there = point(100, 0.97, 100), point(100, 0.9, 100)
    assert is_reached([there, there], 0.95)
    assert not is_reached([there], 0.95)
    assert not is_reached([there, not_there], 0.95)
    assert not is_reached([not_there, there], 0.95)


def test_a_wide_interval_reaches_nothing():
    wide = Measured(100, 0.97, 0.8, 1.0, 100)
    assert not is_reached([wide, wide], 0.95)


@pytest.mark.parametrize(("n", "reached"), [(18, False), (19, True)])
def test_few_audits_without_an_error_reach_nothing(n, reached):
    assert is_reached([point(50, 1.0, n)] * 2, 0.95) is reached


def test_the_error_is_extrapolated_as_a_power_of_the_labels():
    curve = power_law([50, 100, 200])
    wanted = (4.0 / 0.04) ** (1 / 0.8)
    found = labels_to_go(curve, 0.96, 0.2)
    assert abs(found - (wanted - 200)) < 0.1 * wanted


def test_a_flat_short_or_far_curve_tells_nothing():
    assert labels_to_go([point(count, 0.8, 50) for count in (50, 100, 200)], 0.95, 0.2) is None
    assert labels_to_go(power_law([50, 100]), 0.95, 0.2) is None
    assert labels_to_go(power_law([20, 30, 40]), 0.999, 0.2) is None


def test_when_it_is_reached_no_label_is_to_go():
    assert labels_to_go([point(100, 0.97, 100)] * 3, 0.95, 0.2) == 0


def test_labels_are_to_go_as_long_as_audits_are_too_few_to_tell():
    curve = [point(count, 1.0, count // 10) for count in (40, 60, 80)]
    assert labels_to_go(curve, 0.95, 0.1) >= 10 * (19 - 8)
    assert labels_to_go(curve, 0.95, 0.0) is None


def describe(measured, curve=(), target=0.95, n_other=0, n_skipped=0):
    return describe_estimate(
        measured, curve, target, 0.2, {0: "cat"}, measured.n if measured else 0, n_other, n_skipped
    )


def test_what_is_told():
    measured = MeasuredAccuracy(0.97, 0.9, 0.99, 100, 0.5, {0: 0.9, 7: 0.1})
    told = describe(measured, [point(90, 0.97, 100), point(100, 0.97, 100)])
    assert told["reached"]
    assert told["recalls"] == {"cat": 0.9}  # the other class was undone since
    assert told["left_to_doubt"] == "with 100 rows drawn at random the accuracy may be as low as 90 %"
    assert len(told["curve"]) == 2


def test_a_curve_goes_on_from_fewer_labels_after_an_undo():
    measured = MeasuredAccuracy(0.97, 0.9, 0.99, 100, 0.5, {})
    curve = [point(labels, 0.9, 100) for labels in (10, 30, 40, 30, 35)]
    assert [one["labels"] for one in describe(measured, curve)["curve"]] == [10, 30, 35]


def test_without_an_audit_nothing_is_told_and_without_a_target_nothing_is_reached():
    assert describe(None) is None
    told = describe(MeasuredAccuracy(0.97, 0.9, 0.99, 100, 0.5, {}), [point(100, 0.97, 100)] * 2, target=None)
    assert not told["reached"]
    assert told["labels_to_go"] is None
    assert told["left_to_doubt"] is None


def test_what_is_left_to_doubt_is_said():
    measured = MeasuredAccuracy(0.99, 0.96, 1.0, 100, 0.5, {})
    assert describe(measured)["left_to_doubt"] is None
    assert (
        "3 of 100 rows drawn at random belong to none of the classes" in describe(measured, n_other=3)["left_to_doubt"]
    )
    assert "2 rows drawn at random were skipped" in describe(measured, n_skipped=2)["left_to_doubt"]
    poor = measured._replace(accuracy=0.5, low=0.4)
    assert "no better than always answering the largest class" in describe(poor, target=None)["left_to_doubt"]
