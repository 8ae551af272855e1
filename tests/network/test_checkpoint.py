import itertools

import numpy as np
import pytest
import torch

from angpn import ANGPN, nearest_candidates, train
from angpn.network.checkpoint import Checkpoint
from angpn.utils.labels import UNLABELLED


def start(dropout=0.4):
    """The same call, whenever it is made."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(40, 4, generator=generator)
    labels = torch.where(torch.arange(40) < 12, torch.arange(40) % 3, UNLABELLED)
    network = ANGPN(4, 6, 3, n_neighbors=4, dropout=dropout)
    return network, train(network, features, nearest_candidates(features, 10), labels, validation_fraction=0.3)


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_a_training_taken_up_goes_on_to_the_last_bit(dropout):
    network, whole = start(dropout)
    expected = list(itertools.islice(whole, 30))
    _, first = start(dropout)
    begun = list(itertools.islice(first, 13))
    state = first.state_dict()
    next(first)  # what happens later does not change a state that was taken
    resumed_network, second = start(dropout)
    second.load_state_dict(state)
    assert begun + list(itertools.islice(second, 17)) == expected
    for weight, again in zip(network.parameters(), resumed_network.parameters(), strict=True):
        assert torch.equal(weight, again)


def test_the_file_brings_back_state_seed_and_epochs(tmp_path):
    path, problem = tmp_path / "state", {"X": np.ones(3), "alpha": 0.5}
    _, training = start()
    epochs = list(itertools.islice(training, 5))
    Checkpoint(path, resume=False, problem=problem).save(training, epochs, seed=9)
    found = Checkpoint(path, resume=True, problem=problem)
    _, again = start()
    assert found.restore(again) == epochs
    assert found.seed == 9
    assert next(again) == next(training)
    with pytest.raises(ValueError, match="must be of a fit with the same data"):
        Checkpoint(path, resume=True, problem={**problem, "X": np.ones(4)})


def test_without_a_path_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, training = start()
    Checkpoint(None, resume=False, problem={}).save(training, [], seed=0, now=True)
    assert list(tmp_path.iterdir()) == []


def test_saves_are_a_second_apart(tmp_path):
    _, training = start()
    checkpoint = Checkpoint(tmp_path / "state", resume=False, problem={})
    checkpoint.save(training, [], seed=0)
    written = (tmp_path / "state").stat().st_mtime_ns
    checkpoint.save(training, [], seed=0)
    assert (tmp_path / "state").stat().st_mtime_ns == written
    checkpoint.save(training, [], seed=0, now=True)
    assert (tmp_path / "state").stat().st_mtime_ns > written
