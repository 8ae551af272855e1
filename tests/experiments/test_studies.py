import pytest

from angpn.baselines import METHODS
from angpn.experiments import PUBLISHED, SMOKE, STUDIES
from angpn.experiments.studies import TABLE_1, TUNED


def test_the_grid_is_every_method_on_every_set_rate_and_split():
    runs = STUDIES["grid"].runs()
    assert len(set(map(str, runs))) == len(runs) == 4 * 3 * 5 * len(METHODS)
    assert all(run.settings == ({},) for run in runs)
    few = STUDIES["grid"].runs(datasets=["coraml"], rates=[10], n_splits=2, methods=["GCN", "ANGPN"])
    assert [(run.split, run.method) for run in few] == [(0, "ANGPN"), (0, "GCN"), (1, "ANGPN"), (1, "GCN")]


@pytest.mark.parametrize("study", [*STUDIES.values(), SMOKE], ids=[*STUDIES, "smoke"])
def test_every_setting_is_one_its_method_has(study):
    for run in study.runs(datasets=["svhn", "digits"], n_splits=1):
        for model, setting in zip(run.models(), run.settings, strict=True):
            assert {name: model.get_params()[name] for name in setting} == setting


def test_all_methods_have_the_same_budget():
    assert TUNED.keys() == METHODS.keys()
    assert {len(settings) for settings in TUNED.values()} == {4}


def test_embeddings_have_one_seed_so_that_they_are_computed_once():
    runs = STUDIES["grid"].runs(datasets=["coraml"], rates=[10], methods=["DeepWalk", "GCN"])
    seeds = {(run.method, run.split): run.models()[0].random_state for run in runs}
    assert {seeds["DeepWalk", split] for split in range(5)} == {0}
    assert [seeds["GCN", split] for split in range(5)] == [0, 1, 2, 3, 4]


def test_published_figures_are_those_of_the_paper():
    """Spot checks, and what the paper says in words: ANGPN above GCN everywhere, above NGPN everywhere."""
    assert PUBLISHED["ANGPN"]["coraml", 10] == (65.53, 1.25)
    assert PUBLISHED["ManiReg"]["cifar10", 30] == (66.04, 0.58)
    assert PUBLISHED["GAT"]["20news", 20] == (89.07, 0.47)
    assert PUBLISHED["NGPN"]["coraml", 30] == (67.88, 1.92)
    assert PUBLISHED.keys() == {*TABLE_1, "NGPN"}
    for place, figure in PUBLISHED["ANGPN"].items():
        assert figure.mean > PUBLISHED["GCN"][place].mean
        assert figure.mean > PUBLISHED["NGPN"][place].mean
