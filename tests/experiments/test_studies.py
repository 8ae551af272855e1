import pytest

from angpn.baselines import METHODS
from angpn.experiments import PUBLISHED, SMOKE, STUDIES
from angpn.experiments.studies import TABLE_1, TUNED


def test_the_grid_is_every_method_on_every_set_rate_and_split():
    runs = STUDIES["grid"].runs()
    assert len(set(map(str, runs))) == len(runs) == 4 * 3 * 5 * len(METHODS)
    assert all(run.hyperparameters == ({},) for run in runs)
    few = STUDIES["grid"].runs(datasets=["coraml"], rates=[10], n_splits=2, methods=["GCN", "ANGPN"])
    assert [(run.split, run.method) for run in few] == [(0, "ANGPN"), (0, "GCN"), (1, "ANGPN"), (1, "GCN")]


@pytest.mark.parametrize("study", [*STUDIES.values(), SMOKE], ids=[*STUDIES, "smoke"])
def test_every_method_has_the_hyperparameters_of_its_runs(study):
    for run in study.runs(datasets=["svhn", "digits"], n_splits=1):
        for model, values in zip(run.models(), run.hyperparameters, strict=True):
            assert {name: model.get_params()[name] for name in values} == values


def test_all_methods_have_the_same_budget():
    assert TUNED.keys() == METHODS.keys()
    assert {len(candidates) for candidates in TUNED.values()} == {4}


def test_embeddings_have_one_seed_and_are_computed_once():
    runs = STUDIES["grid"].runs(datasets=["coraml"], rates=[10], methods=["DeepWalk", "GCN"])
    seeds = {(run.method, run.split): run.models()[0].random_state for run in runs}
    assert {seeds["DeepWalk", split] for split in range(5)} == {0}
    assert [seeds["GCN", split] for split in range(5)] == [0, 1, 2, 3, 4]


def test_published_figures_are_those_of_the_paper():
    """Spot checks, and the paper's claim: ANGPN is above GCN and NGPN everywhere."""
    assert PUBLISHED["ANGPN"]["coraml", 10] == (65.53, 1.25)
    assert PUBLISHED["ManiReg"]["cifar10", 30] == (66.04, 0.58)
    assert PUBLISHED["GAT"]["20news", 20] == (89.07, 0.47)
    assert PUBLISHED["NGPN"]["coraml", 30] == (67.88, 1.92)
    assert PUBLISHED.keys() == {*TABLE_1, "NGPN"}
    for condition, published in PUBLISHED["ANGPN"].items():
        assert published.mean > PUBLISHED["GCN"][condition].mean
        assert published.mean > PUBLISHED["NGPN"][condition].mean
