"""Checkpoint files through a fit that is resumed."""

import numpy as np

from angpn import ANGPNNetworkClassifier
from fuzz import good_files
from fuzz.checks import check_probabilities
from fuzz.saved import make_hostile
from fuzz.verdict import accepts

NAMES = (
    r"fit\.ckpt|the loss became|weights must stay below"  # weights that are finite and absurd show in the next epoch
)


def make(seed, folder):
    """Write a hostile checkpoint."""
    make_hostile(good_files.checkpoint(), folder / "fit.ckpt", np.random.default_rng(seed))
    return folder / "fit.ckpt"


def run(path):
    """Resume the fit for three more epochs."""
    model = ANGPNNetworkClassifier(max_iter=8, checkpoint=path, resume=True, **good_files.NETWORK)
    if not accepts(lambda: model.fit(good_files.rows(), good_files.labels()), names=NAMES):
        return False
    check_probabilities(model.label_distributions_, good_files.N_ROWS, 2)
    return True
