"""Model files through ``load``, and predictions by what it accepted."""

import numpy as np

from angpn import ANGPNClassifier
from fuzz import good_files
from fuzz.checks import check_probabilities
from fuzz.mutations import pick
from fuzz.saved import make_hostile
from fuzz.verdict import accepts


def make(seed, folder):
    """Write a hostile model file."""
    generator = np.random.default_rng(seed)
    good = good_files.model(pick(generator, ["ensemble", "network"]), pick(generator, [False, True]))
    make_hostile(good, folder / "model.angpn", generator)
    return folder / "model.angpn"


def run(path):
    """Load it; a model that was accepted must answer every question, so nothing after ``load`` may raise."""
    loaded = []
    if not accepts(lambda: loaded.append(ANGPNClassifier.load(path)), names=path.name):
        return False
    (model,) = loaded
    n = len(model.transduction_)
    X = np.random.default_rng(0).normal(size=(3, model.n_features_in_))
    distances = np.abs(X[:, :1] + np.arange(n)) if model._fitted.metric == "precomputed" else None
    check_probabilities(model.label_distributions_, n, len(model.classes_))
    check_probabilities(model.predict_proba(X, distances=distances), 3, len(model.classes_))
    model.explain(0), model.uncertain(2), model.transform(X, distances=distances), str(model)
    model.save(path.with_name("again.angpn"))
    return True
