"""The protocol of base learners: what each kind has, and that a further kind needs nothing but that."""

import inspect
from dataclasses import astuple, dataclass, is_dataclass, replace
from typing import NamedTuple, get_args, get_type_hints

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import Tensor
from torch.testing import assert_close

from angpn import nearest_candidates
from angpn.ensemble.base_learners import KINDS, BaseLearner, HyperParameters, fit_base_learners
from angpn.ensemble.config import EnsembleConfig, Family
from angpn.ensemble.ensemble import Ensemble
from angpn.ensemble.folds import Fold, TrainingSet, given_labels, make_folds
from angpn.ensemble.inductive import InductiveEnsemble
from angpn.ensemble.mixture import Members
from angpn.ensemble.model_selection import ScaledRows, Scorer, Selection, score_all
from angpn.ensemble.propagated_features import Problem, PropagatedFeatures
from angpn.ensemble.scaling import Scaling
from angpn.ensemble.self_training import FoldModel, SelfTraining
from angpn.ensemble.user_options import GraphOptions
from angpn.neighbors.distributed import serial_map
from angpn.utils.array_checks import check_arrays, singles
from angpn.utils.schema import Saved
from ensemble_problems import KERNEL, LINEAR, SPREADING, TREES, clusters, ensemble_options, first_labels, log_proba

CONFIG = EnsembleConfig()
TRUTH = np.arange(60) % 3
GRAPH = GraphOptions(5, 0.3, "auto", "simplex", "normalized")


def members(protocol):
    """The names that a protocol asks for."""
    return [name for name in vars(protocol) if not name.startswith("_")]


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_kind_has_what_the_protocol_asks_for(kind):
    fields = get_type_hints(kind)
    assert is_dataclass(fields["parameters"])
    for name in members(BaseLearner):
        if name == "parameters":
            continue
        asked = inspect.signature(getattr(BaseLearner, name)).parameters.values()
        required = [each.name for each in asked if each.default is each.empty]
        inspect.signature(getattr(kind, name)).bind(**dict.fromkeys(required))  # as they are called


@pytest.mark.parametrize("parameters", [LINEAR, SPREADING, TREES])
def test_the_hyper_parameters_of_every_kind_have_what_the_protocol_asks_for(parameters):
    assert KINDS[next(name for name, kind in KINDS.items() if kind is parameters.learner)] is parameters.learner
    for name in members(HyperParameters):
        assert hasattr(parameters, name)
    assert parameters.family in get_args(Family)
    assert parameters.bonus(CONFIG, of_table=False) >= parameters.bonus(CONFIG, of_table=True) >= 0
    assert len({parameters, replace(parameters)}) == 1
    assert parameters != astuple(parameters)  # nor to those of another kind that has the same numbers
    assert len(parameters.influence_hops) == 2


# A further kind: each row is of the class whose centroid is nearest


class CentroidParameters(NamedTuple):
    alpha: float
    n_hops: int
    rate: float

    @property
    def learner(self):
        return NearestCentroid

    @property
    def hops(self):
        return self.alpha, self.n_hops

    inputs = influence_hops = hops

    @property
    def is_expensive(self):
        return False

    @property
    def family(self):
        return "centroids"

    def bonus(self, config, *, of_table):
        return 0.0


class CentroidState(Saved, tag_field="kind", tag="nearest_centroid"):
    parameters: tuple[float, int, float]


@dataclass(frozen=True)
class NearestCentroid:
    parameters: CentroidParameters
    centroids: Tensor  # (c, p)

    @classmethod
    def fit(cls, candidates, problems, *, n_classes, **_):
        return [[cls._fit_one(each, *problem, n_classes) for each in candidates] for problem in problems]

    @classmethod
    def _fit_one(cls, candidate, features, training, n_classes):
        rows = features.partition.gather_rows(features.by_hops[candidate.hops], training.rows)
        targets = torch.eye(n_classes)[training.codes]
        if training.weights is not None:
            targets = targets * torch.from_numpy(training.weights).float()[:, None]
        return cls(candidate, targets.T @ rows / targets.sum(dim=0)[:, None].clamp(min=1e-12))

    @classmethod
    def cross_validate(cls, candidates, features, labels, folds, **_):
        def of_fold(candidate, fold):
            return cls._fit_one(candidate, features, given_labels(labels, fold.training), 3).log_proba_of(
                features, fold.held
            )

        return [torch.cat([of_fold(candidate, fold) for fold in labels.folds[folds]]) for candidate in candidates]

    def _log_proba(self, rows):
        return torch.log_softmax(-self.parameters.rate * torch.cdist(rows, self.centroids).square(), dim=1)

    @classmethod
    def log_proba(cls, learners, features):
        return [learner._log_proba(features.by_hops[learner.parameters.hops]) for learner in learners]

    def log_proba_of(self, features, rows):
        return log_proba(self, features)[rows]

    def log_proba_new(self, new):
        return self._log_proba(new.propagated(self.parameters.hops))

    def in_data_order(self, partition):
        return self

    def state(self):
        return CentroidState(parameters=tuple(self.parameters)), {"centroids": self.centroids.numpy()}

    @classmethod
    def from_state(cls, state, arrays, *, width, n_classes, **_):
        check_arrays(arrays, {"centroids": singles(n_classes, width)})
        return cls(CentroidParameters(*state.parameters), torch.from_numpy(arrays["centroids"]))


CENTROID = CentroidParameters(0.5, 1, 2.0)


@pytest.fixture
def third_kind(monkeypatch):
    monkeypatch.setitem(KINDS, "nearest_centroid", NearestCentroid)


def scaled_rows():
    rows = clusters(TRUTH, distance=1.5)
    neighborhood = nearest_candidates(rows, 15, "euclidean")
    return ScaledRows(Scaling("none", "euclidean"), neighborhood, torch.from_numpy(rows).float())


def options(**changes):
    return ensemble_options(graph=GRAPH)._replace(**changes)


def test_base_learners_of_several_kinds_come_in_the_order_of_their_hyper_parameters(third_kind):
    rows = scaled_rows()
    candidates = [
        SPREADING,
        LINEAR,
        CENTROID,
        TREES,
        KERNEL,
        CENTROID._replace(rate=1.0),
        replace(SPREADING, alpha=0.5),
    ]
    hops = [candidate.hops for candidate in candidates if candidate.hops is not None]
    features = PropagatedFeatures(rows.features, rows.neighborhood, GRAPH, hops)
    sets = [TrainingSet(np.arange(n), TRUTH[:n], None) for n in (12, 30)]
    common = {"centers": np.arange(60), "n_classes": 3, "config": CONFIG, "parallel_map": serial_map}
    found = fit_base_learners(candidates, [Problem(features, each) for each in sets], **common)
    assert len(found) == 2
    for learners, training in zip(found, sets, strict=True):
        assert [learner.parameters for learner in learners] == candidates
        assert [type(learner) for learner in learners] == [candidate.learner for candidate in candidates]
        for learner in learners:
            ((alone,),) = fit_base_learners([learner.parameters], [Problem(features, training)], **common)
            assert_close(log_proba(learner, features), log_proba(alone, features), rtol=1e-4, atol=1e-4)


def test_a_further_kind_is_scored_and_ranked_beside_the_others(third_kind):
    labels = first_labels(TRUTH, 24)
    labels = labels._replace(folds=make_folds(labels.codes, None, 0, CONFIG))
    scorer = Scorer(scaled_rows(), labels, options())
    useless = CENTROID._replace(rate=0.0)
    score_all([scorer], [LINEAR, useless, SPREADING, CENTROID], options())
    assert set(scorer.ranking()) == {LINEAR, useless, SPREADING, CENTROID}
    assert scorer.ranking()[-1] == useless
    assert scorer.scores[useless] == pytest.approx(-np.log(3))


def test_a_further_kind_is_self_trained_selected_again_saved_and_predicts_new_rows(third_kind):
    labels, rows = first_labels(TRUTH, 24), scaled_rows()
    labels = labels._replace(folds=make_folds(labels.codes, None, 0, CONFIG))
    selection = Selection(rows, Members.equal([LINEAR]), [SPREADING, LINEAR, CENTROID])
    models = [*(FoldModel(fold) for fold in labels.folds), FoldModel(Fold(np.arange(24), np.arange(0)))]
    training = SelfTraining(selection, labels, models, options(config=replace(CONFIG, min_reselection_labels=1)))
    training.run_round()
    training.reselect()
    assert CENTROID in training.selected.parameters
    training.selected = Members.equal([CENTROID, SPREADING, LINEAR])
    calibrated = training.run_round()
    final = models[-1]
    assert [type(learner) for learner in final.learners] == [each.learner for each in training.selected.parameters]
    assert np.mean(final.probabilities.argmax(dim=1).numpy() == TRUTH) > 0.8

    ensemble = Ensemble(
        rows.scaling,
        GRAPH,
        final.learners,
        final.mixture,
        calibrated.calibration,
        calibrated.adaptive_temperature,
        final.graph_probabilities,
    )
    state, arrays = ensemble.state()
    loaded = Ensemble.from_state(state, arrays, n_rows=60, n_features=rows.features.shape[1], n_classes=3)
    new, candidates, distances = (
        rows.features[:4] + 0.01,
        rows.neighborhood.indices[:4],
        rows.neighborhood.distances[:4],
    )
    one, other = (InductiveEnsemble(each, rows.features, rows.neighborhood) for each in (ensemble, loaded))
    assert_close(*(each.predict_new(new, candidates.long(), distances) for each in (one, other)))
    assert_close(*(each.embed_new(new, candidates.long(), distances) for each in (one, other)))
    assert_allclose(one.predict_new(new, candidates.long(), distances).sum(dim=1), 1, rtol=1e-5)
