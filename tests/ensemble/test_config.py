"""The constants of the automatic classifier."""

import pickle
from dataclasses import FrozenInstanceError, replace

import pytest

from angpn import EnsembleConfig


def test_the_repr_shows_what_was_changed_and_makes_the_same_again():
    assert repr(EnsembleConfig()) == "EnsembleConfig()"
    changed = EnsembleConfig(hops=((0.5, 2),), n_centers=50)
    assert repr(changed) == "EnsembleConfig(hops=((0.5, 2),), n_centers=50)"
    assert eval(repr(changed)) == changed


def test_it_is_a_value():
    config = EnsembleConfig(n_centers=50)
    assert config == replace(EnsembleConfig(), n_centers=50) == pickle.loads(pickle.dumps(config))
    assert hash(config) == hash(EnsembleConfig(n_centers=50)) != hash(EnsembleConfig())
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'n_centers'"):
        config.n_centers = 60
    with pytest.raises(TypeError, match="positional"):
        EnsembleConfig(((0.5, 2),))
