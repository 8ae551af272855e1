"""Encoder files through ``angpn predict``."""

import shutil

import numpy as np

from fuzz import good_files
from fuzz.checks import check_predictions, check_unchanged, listing
from fuzz.mutations import pick
from fuzz.saved import make_hostile
from fuzz.verdict import accepts_command

ENCODER = "encoder.angpn"


def make(seed, folder):
    """Write a model folder whose encoder is hostile."""
    generator = np.random.default_rng(seed)
    kind = pick(generator, ["images", "text", "table", "table", "array"])
    shutil.copytree(good_files.labelling_model(kind), folder / "model")
    make_hostile(good_files.labelling_model(kind) / ENCODER, folder / "model" / ENCODER, generator)
    return folder, good_files.labelling_input(kind)[0]


def run(case):
    """Predict by it."""
    folder, rows = case
    before = listing(folder)
    if not accepts_command("predict", folder / "model", rows, "-o", folder / "new.csv"):
        check_unchanged(before, folder)
        return False
    check_predictions(folder / "new.csv", good_files.CLASSES)
    return True
