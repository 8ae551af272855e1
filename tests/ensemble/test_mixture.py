"""How base learners are put together, and what held-out labels and the prior have to say about it."""

import dataclasses

import msgspec
import numpy as np
import pytest
import scipy.optimize
import torch
from numpy.testing import assert_allclose
from torch.testing import assert_close

from angpn.ensemble.calibration import Calibration, fit_temperature
from angpn.ensemble.config import EnsembleConfig
from angpn.ensemble.ensemble import Ensemble, EnsembleState
from angpn.ensemble.heads import HeadParameters
from angpn.ensemble.mixture import Members, Mixture, fit_mixture, select_members
from ensemble_problems import KERNEL, LINEAR, SPREADING, TREES, answers, moved, trained_ensemble

CONFIG = EnsembleConfig()
FAR = HeadParameters(0.9, 10, None, 10.0)


def random_log_proba(count=4, n=5, n_classes=3):
    several = (torch.randn(n, n_classes, generator=torch.Generator().manual_seed(seed)) for seed in range(count))
    return [each.log_softmax(dim=1) for each in several]


# Mixtures


def test_the_equal_mixture_is_the_mean_probability_and_never_zero():
    several = random_log_proba()
    mean = torch.stack([log_proba.exp() for log_proba in several]).mean(dim=0)
    equal = Mixture.equal(4)
    assert_close(equal(several), mean.log())
    assert_close(equal(each for each in several), mean.log())
    assert_close(Calibration(1.0, torch.zeros(3))(equal(several)), mean)
    far = torch.tensor([[0.0, -500.0]])
    found = Mixture.equal(2)([far, far])
    assert found[0, 0] == 0
    assert np.log(torch.finfo(torch.float32).tiny) <= found[0, 1] < -80


def test_a_mixture_is_the_weighted_mean_of_probabilities_at_their_temperatures():
    several = random_log_proba(3)
    mixture = Mixture((0.5, 0.3, 0.2), (2.0, 1.0, 0.25))
    expected = 0.5 * several[0].div(2).softmax(dim=1) + 0.3 * several[1].exp() + 0.2 * several[2].mul(4).softmax(dim=1)
    assert_close(mixture(several), expected.log())
    shifted = [each + torch.arange(5.0)[:, None] for each in several]
    assert_close(mixture(shifted), expected.log())  # what all classes of a row share plays no part


def test_a_mixture_leaves_what_it_is_given_unchanged():
    several = random_log_proba(2)
    before = [each.clone() for each in several]
    Mixture((0.9, 0.1), (1.0, 1.0))(several)
    for one, other in zip(several, before, strict=True):
        assert_close(one, other, rtol=0, atol=0)


def test_a_mixture_is_of_as_many_as_it_has_weights_for():
    for count in (2, 4):
        with pytest.raises(ValueError, match="argument 3 is"):
            Mixture.equal(3)(random_log_proba(count))


# Weights


@pytest.mark.parametrize(("of_table", "heaviest"), [(False, SPREADING), (True, TREES)])
def test_while_held_out_labels_tell_no_difference_the_prior_decides(of_table, heaviest):
    same = random_log_proba(1, n=30)[0]
    truth = np.arange(30) % 3
    candidates = {each: same for each in (FAR, SPREADING, TREES)}
    members = select_members(candidates, truth, None, CONFIG, of_table=of_table)
    assert members.parameters[0] == heaviest


def likelihoods_of(count, n, seed=0):
    generator = np.random.default_rng(seed)
    return generator.beta(2, 1, size=(count, n)) * np.linspace(0.7, 1, count)[:, None]


def objective(weights, likelihoods, shares, prior):
    """The logarithm of the posterior, up to a constant: a Dirichlet prior of so many labels each."""
    return float(shares @ np.log(weights @ likelihoods) + prior @ np.log(weights))


def best_weights(likelihoods, shares, prior):
    """The maximum by a general method, over numbers whose softmax the weights are."""

    def loss(scores):
        weights = scipy.special.softmax(scores)
        mixed = weights @ likelihoods
        gradient = likelihoods @ (shares / mixed) + prior / weights
        gradient = weights * (gradient - weights @ gradient)
        return -objective(weights, likelihoods, shares, prior), -gradient

    options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 10_000}
    found = scipy.optimize.minimize(loss, np.zeros(len(prior)), jac=True, method="L-BFGS-B", options=options)
    return scipy.special.softmax(found.x)


@pytest.mark.parametrize("count", [2, 3, 6])
@pytest.mark.parametrize("n", [4, 40, 400])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_weights_are_the_most_probable_ones(count, n, seed):
    likelihoods = likelihoods_of(count, n, seed)
    shares = np.random.default_rng(seed).uniform(0.5, 1.5, size=n)
    prior = np.linspace(1, 3, count)
    found, expected = fit_mixture(likelihoods, shares, prior), best_weights(likelihoods, shares, prior)
    assert found.sum() == pytest.approx(1)
    assert (found > 0).all()
    best = objective(expected, likelihoods, shares, prior)
    # A step in the weights of this size changes nothing that could be seen; the objective is that flat.
    assert objective(found, likelihoods, shares, prior) == pytest.approx(best, abs=1e-3)
    assert_allclose(found, expected, atol=5e-3)


def test_without_labels_the_weights_are_those_of_the_prior():
    prior = np.array([1.0, 3.0, 4.0])
    assert_allclose(fit_mixture(np.empty((3, 0)), np.empty(0), prior), prior / 8)
    assert_allclose(fit_mixture(np.full((3, 50), 0.3), np.ones(50), prior), prior / 8)  # all say the same


def test_learners_that_are_right_on_different_rows_all_count():
    likelihoods = np.where(np.arange(90) % 3 == np.arange(3)[:, None], 0.9, 0.1)
    assert_allclose(fit_mixture(likelihoods, np.ones(90), np.ones(3)), 1 / 3, atol=1e-6)


# Members

N = 60
TRUTH = np.arange(N) % 3


def predicting(rate, seed=0, n=N, margin=2.0, share=1.0):
    """Log-probabilities that say a row's class for this share of the rows, and else another."""
    generator = np.random.default_rng(seed)
    truth = np.arange(n) % 3
    said = np.where(generator.random(n) < rate, truth, (truth + 1) % 3)
    return torch.from_numpy(margin * np.eye(3)[said] + share * generator.normal(size=(n, 3)) / 5).log_softmax(dim=1)


def members(log_proba, n=N, weights=None, config=CONFIG, of_table=False):
    return select_members(log_proba, np.arange(n) % 3, weights, config, of_table=of_table)


def test_the_best_of_each_family_are_selected():
    near = dataclasses.replace(LINEAR, C=1.0)
    given = {LINEAR: predicting(0.7), near: predicting(0.9, seed=1), FAR: predicting(0.6), KERNEL: predicting(0.8)}
    for count, of_first in ((1, [near]), (2, [near, LINEAR]), (9, [near, LINEAR])):
        config = dataclasses.replace(CONFIG, min_weight=0.0, n_of_family=count)
        found = members(given, config=config, of_table=True)
        assert set(found.parameters) == {*of_first, FAR, KERNEL}
        assert found.parameters[: len(of_first)] == of_first
        assert members(dict(reversed(given.items())), config=config, of_table=True).parameters == found.parameters


def test_those_of_a_family_count_alike_and_together_as_one():
    alike = [dataclasses.replace(LINEAR, C=float(C)) for C in range(1, 5)]
    given = dict.fromkeys(alike, predicting(0.9, seed=1)) | {KERNEL: predicting(0.8, seed=2)}
    config = dataclasses.replace(CONFIG, min_weight=0.0)
    one, several = (members(given, config=dataclasses.replace(config, n_of_family=count)) for count in (1, 4))
    assert one.parameters == [alike[0], KERNEL]
    assert several.parameters == [*alike, KERNEL]
    first, second = one.mixture.weights
    assert several.mixture.weights == pytest.approx([first / 4] * 4 + [second])
    assert several.mixture.temperatures[:4] == one.mixture.temperatures[:1] * 4


def test_the_heaviest_comes_first_and_light_ones_are_dropped():
    given = {SPREADING: predicting(0.2, seed=1), LINEAR: predicting(0.95, seed=2), KERNEL: predicting(0.9, seed=3)}
    even = dataclasses.replace(CONFIG, spreading_prior=CONFIG.prior_weight)
    everyone = members(given, config=dataclasses.replace(even, min_weight=0.0))
    assert everyone.parameters == [LINEAR, KERNEL, SPREADING]
    assert everyone.mixture.weights[2] < CONFIG.min_weight < everyone.mixture.weights[1]
    found = members(given, config=even)
    assert found.parameters == [LINEAR, KERNEL]
    assert found.mixture.temperatures == everyone.mixture.temperatures[:2]
    assert sum(found.mixture.weights) == pytest.approx(1)
    one, other = found.mixture.weights
    assert one / other == pytest.approx(everyone.mixture.weights[0] / everyone.mixture.weights[1])
    alone = members(given, config=dataclasses.replace(even, min_weight=0.99))
    assert alone.parameters == [LINEAR]
    assert alone.mixture.weights == (1.0,)


def test_the_prior_decides_while_labels_are_few_and_labels_once_they_are_many():
    trees = []
    for n in (3, 30, 3000):
        given = {TREES: predicting(0.6, seed=1, n=n), LINEAR: predicting(0.9, seed=2, n=n)}
        config = dataclasses.replace(CONFIG, min_weight=0.0)
        of_table, not_table = (members(given, n=n, config=config, of_table=each) for each in (True, False))
        trees.append([found.mixture.weights[found.parameters.index(TREES)] for found in (of_table, not_table)])
    share = (1 + CONFIG.trees_bonus) / (2 + CONFIG.trees_bonus)  # of the labels that speak beforehand
    assert trees[0] == pytest.approx([share, 0.5], abs=0.2)
    assert trees[0][0] > trees[1][0] > trees[2][0]
    assert trees[0][1] > trees[1][1] > trees[2][1]
    assert max(trees[2]) < 0.1
    # Trees are expected in a table, which says less the more labels there are.
    assert trees[0][0] - trees[0][1] > 0.1
    assert 0 < trees[2][0] - trees[2][1] < 0.01


def test_reaching_far_is_preferred_within_a_family_unless_in_a_table():
    near, far = dataclasses.replace(LINEAR, n_hops=1), dataclasses.replace(LINEAR, n_hops=3)
    found = predicting(0.9)
    slightly_worse = found.clone()
    slightly_worse[0] = found[0].roll(1)  # a label less
    config = dataclasses.replace(CONFIG, hops_bonus=5.0)
    for of_table, best in ((False, far), (True, near)):
        assert members({near: found, far: slightly_worse}, of_table=of_table, config=config).parameters[0] == best
    assert members({near: predicting(0.95), far: predicting(0.5)}).parameters[0] == near  # labels may say otherwise


def test_temperatures_are_those_of_the_held_out_labels_the_more_labels_the_closer():
    for n in (6, 60, 6000):
        found = predicting(0.7, n=n, margin=6.0)  # by far too sure
        fitted, _ = fit_temperature(found, np.arange(n) % 3, None, CONFIG, smoothing=1 / (1 + n))
        (temperature,) = members({LINEAR: found}, n=n).mixture.temperatures
        assert fitted > 2
        assert temperature == pytest.approx(fitted ** (n / (n + CONFIG.labels_of_temperature)))


def test_a_weight_is_so_many_labels():
    given = {LINEAR: predicting(0.9, seed=1), KERNEL: predicting(0.8, seed=2), TREES: predicting(0.8, seed=3)}
    counts = np.tile([0, 1, 2, 1, 2, 0], N // 6)  # as many in all as there are rows
    assert counts.sum() == N
    rows = np.repeat(np.arange(N), counts)
    config = dataclasses.replace(CONFIG, min_weight=0.0)
    weighted = members(given, weights=counts.astype(np.float64), config=config)
    of_rows = {each: found[rows] for each, found in given.items()}
    repeated = select_members(of_rows, TRUTH[rows], None, config, of_table=False)
    assert weighted.parameters == repeated.parameters
    for one, other in zip(weighted.mixture, repeated.mixture, strict=True):
        assert_allclose(one, other, rtol=1e-9)
    scaled, unweighted = members(given, weights=7.0 * counts, config=config), members(given, config=config)
    assert_allclose(scaled.mixture.weights, weighted.mixture.weights, rtol=1e-9)
    assert abs(np.subtract(unweighted.mixture.weights, weighted.mixture.weights)).max() > 1e-3


def test_labels_that_all_learners_rule_out_do_no_harm():
    """The class of one held-out row was never trained on."""
    given = {LINEAR: predicting(0.9, seed=1), KERNEL: predicting(0.8, seed=2)}
    for found in given.values():
        found[5, TRUTH[5]] = -50.0
    found = members(given)
    assert found.parameters == [LINEAR, KERNEL]
    assert np.isfinite(found.mixture.weights).all()
    assert np.isfinite(found.mixture.temperatures).all()


# In a file


def test_members_that_count_alike_are_an_equal_mixture():
    assert Members.equal((LINEAR, TREES)) == Members([LINEAR, TREES], Mixture((0.5, 0.5), (1.0, 1.0)))


def test_an_older_file_without_weights_has_an_equal_mixture():
    fitted, rows = trained_ensemble()
    state, arrays = fitted.ensemble.state()
    plain = msgspec.to_builtins(state)
    for name in ("weights", "temperatures"):
        plain.pop(name)
    read = msgspec.convert(plain, EnsembleState)
    loaded = Ensemble.from_state(read, arrays, n_rows=90, n_features=4, n_classes=3)
    assert loaded.mixture == Mixture.equal(3)
    new = moved(rows, 0.3)
    for found, expected in zip(
        answers(fitted._replace(ensemble=loaded), rows, new), answers(fitted, rows, new), strict=True
    ):
        assert_close(found, expected, rtol=1e-6, atol=1e-6)


def test_a_file_keeps_the_mixture_and_it_decides_what_is_predicted():
    fitted, rows = trained_ensemble()
    mixture = Mixture((0.7, 0.2, 0.1), (3.0, 0.5, 1.0))
    ensemble = dataclasses.replace(fitted.ensemble, mixture=mixture)
    state, arrays = ensemble.state()
    read = msgspec.json.decode(msgspec.json.encode(state), type=EnsembleState)
    loaded = Ensemble.from_state(read, arrays, n_rows=90, n_features=4, n_classes=3)
    assert loaded.mixture == mixture
    new = moved(rows, 0.3)
    (_, found), (_, expected), (_, equal) = (
        answers(fitted._replace(ensemble=each), rows, new) for each in (loaded, ensemble, fitted.ensemble)
    )
    assert_close(found, expected, rtol=1e-6, atol=1e-6)
    assert (found - equal).abs().max() > 1e-2


@pytest.mark.parametrize(
    "change", [{"weights": [0.5, 0.5]}, {"temperatures": [1.0] * 4}, {"weights": [], "temperatures": []}]
)
def test_a_file_must_have_a_weight_and_a_temperature_for_each_learner(change):
    state, arrays = trained_ensemble()[0].ensemble.state()
    state = msgspec.structs.replace(state, **change)
    with pytest.raises(ValueError, match="each of 3 learners must have a weight and a temperature"):
        Ensemble.from_state(state, arrays, n_rows=90, n_features=4, n_classes=3)


@pytest.mark.parametrize(
    ("name", "value"),
    [("weights", 0.0), ("weights", -0.1), ("weights", 1.1), ("temperatures", 0.0), ("temperatures", -1.0)],
)
def test_a_file_with_a_weight_or_a_temperature_out_of_range_is_refused(name, value):
    plain = msgspec.to_builtins(trained_ensemble()[0].ensemble.state()[0])
    plain[name][1] = value
    with pytest.raises(msgspec.ValidationError, match=rf"\$\.{name}"):
        msgspec.convert(plain, EnsembleState)


def test_a_label_that_is_impossible_for_all_says_nothing():
    likelihoods = np.array([[0.9, 0.8, 0.0], [0.2, 0.3, 0.0]])
    found = fit_mixture(likelihoods, np.ones(3), np.ones(2))
    assert np.isfinite(found).all()
    assert found[0] > found[1]
    # It is shared out as the others are, which changes how much the prior counts, but not the order.
    assert found[0] >= fit_mixture(likelihoods[:, :2], np.ones(2), np.ones(2))[0]
