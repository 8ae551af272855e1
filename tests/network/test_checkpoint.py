import itertools
import re

import numpy as np
import pytest
import torch

from angpn import ANGPN, nearest_candidates, train
from angpn.network.checkpoint import Checkpoint
from angpn.utils.labels import UNLABELLED
from saved_files import mutations, read_saved, write_saved


def start(dropout=0.4, **options):
    """The same call, whenever it is made."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(40, 4, generator=generator)
    labels = torch.where(torch.arange(40) < 12, torch.arange(40) % 3, UNLABELLED)
    network = ANGPN(4, 6, 3, n_neighbors=4, dropout=dropout)
    lists = nearest_candidates(features, 10)
    return network, train(network, features, lists, labels, validation_fraction=0.3, **options)


@pytest.mark.parametrize(("dropout", "self_supervised"), [(0.0, 0.0), (0.4, 0.0), (0.4, 1.0)])
def test_a_training_taken_up_goes_on_to_the_last_bit(dropout, self_supervised):
    network, whole = start(dropout, self_supervised=self_supervised)
    expected = list(itertools.islice(whole, 30))
    _, first = start(dropout, self_supervised=self_supervised)
    begun = list(itertools.islice(first, 13))
    state = first.state_dict()
    next(first)  # what happens later does not change a state that was taken
    resumed_network, second = start(dropout, self_supervised=self_supervised)
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


def test_the_file_brings_back_a_decoder_too(tmp_path):
    path = tmp_path / "state"
    _, training = start(self_supervised=1.0)
    epochs = list(itertools.islice(training, 5))
    Checkpoint(path, resume=False, problem={}).save(training, epochs, seed=9)
    _, again = start(self_supervised=1.0)
    assert Checkpoint(path, resume=True, problem={}).restore(again) == epochs
    assert next(again) == next(training)


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


# Files that are not what was written


@pytest.fixture
def file(tmp_path):
    """A checkpoint after five epochs, and the problem it is of."""
    path, problem = tmp_path / "state", {"X": np.ones(3)}
    _, training = start()
    epochs = list(itertools.islice(training, 5))
    Checkpoint(path, resume=False, problem=problem).save(training, epochs, seed=9)
    return path, problem


def resume(path, problem):
    """Resume from a file; return the epoch that follows."""
    _, training = start()
    Checkpoint(path, resume=True, problem=problem).restore(training)
    return next(training)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda saved: saved.header.update(seed="9"), "Expected `int`, got `str` - at `$.seed`"),
        (lambda saved: saved.header.update(seed=2**40), "Expected `int` <= 4294967295 - at `$.seed`"),
        (lambda saved: saved.header.pop("fingerprint"), "required field `fingerprint`"),
        (lambda saved: saved.header.update(path="/etc/passwd"), "unknown field `path`"),
        (lambda saved: saved.arrays.pop("epochs"), "'epochs' is missing"),
        (lambda saved: saved.arrays.pop("training.live.0"), "'training.live.0' is missing"),
        (lambda saved: saved.arrays.pop("training.adam.1.step"), "'training.adam.1.step' is missing"),
        (lambda saved: saved.arrays.update(more=np.zeros(2)), "'more' that does not belong there"),
        (lambda saved: saved.arrays["training.live.0"].__setitem__((0, 0), np.nan), "'training.live.0' has values"),
        (lambda saved: saved.arrays["training.adam.0.exp_avg_sq"].__setitem__((0, 0), -1), "finite and at least 0"),
        (lambda saved: saved.arrays.update({"training.best.0": np.zeros((9, 9), np.float32)}), "of shape (9, 9)"),
        (lambda saved: saved.arrays["training.progress"].__setitem__(0, 3), "5 epochs, and the progress is 3 and"),
        (lambda saved: saved.arrays["training.progress"].__setitem__(3, 0.5), "and the progress is 5 and 0.5"),
        (lambda saved: saved.arrays["training.progress"].__setitem__(1, np.nan), "'training.progress' has values"),
        (lambda saved: saved.arrays["epochs"].__setitem__((2, 0), np.nan), "an epoch lacks a figure"),
        (lambda saved: saved.arrays["epochs"].__setitem__((2, 1), np.nan), "an epoch lacks a figure"),
        (
            lambda saved: saved.arrays.update(epochs=saved.arrays["epochs"][:, :2]),
            "'epochs' is float64 of shape (5, 2)",
        ),
        (lambda saved: saved.arrays["training.generator"].fill(255), "the state of the random numbers is none"),
    ],
)
def test_a_checkpoint_made_to_look_whole_is_still_checked(file, tmp_path, change, message):
    path, problem = file
    saved = read_saved(path)
    change(saved)
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        resume(write_saved(tmp_path / "made", saved), problem)
    assert str(caught.value).startswith(f"{tmp_path / 'made'} must h")


def test_a_checkpoint_with_one_change_is_refused_or_resumed(file, tmp_path):
    path, problem = file
    for what, mutated in mutations(read_saved(path), 0, 100):
        try:
            loss = resume(write_saved(tmp_path / "made", mutated), problem).loss
            assert np.isfinite(loss)
        except ValueError as error:
            named = re.search("made must h|the checkpoint .*made must be of a fit|the loss became", str(error))
            assert named, (what, str(error))  # noqa: PT017
