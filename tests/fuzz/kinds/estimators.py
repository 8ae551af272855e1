"""Random problems and parameters through all that both estimators can do."""

import warnings

import numpy as np
import scipy.sparse

from angpn import ANGPNClassifier, ANGPNNetworkClassifier, EnsembleConfig
from fuzz.checks import Fault, check_probabilities
from fuzz.mutations import pick
from fuzz.problems import fit_options, hostile_rows, in_container, in_label_form
from fuzz.verdict import accepts


def make(seed, folder):
    """Draw a problem; write it down, since it is no file."""
    generator = np.random.default_rng(seed)
    n, d = pick(generator, [3, 4, 6, 12, 25, 40]), pick(generator, [1, 2, 3, 8])
    classes = pick(generator, [1, 2, 2, 2, 3, 5])
    truth = generator.integers(classes, size=n)
    X = hostile_rows(generator.normal(size=(n, d)) + 2 * truth[:, None], generator)
    given = np.where(generator.random(n) < pick(generator, [0, 0.3, 0.5, 0.9, 1]), truth, -1)
    options = fit_options(n, given, generator)
    case = _estimator(generator), X, in_container(X, generator), in_label_form(given, generator), options, folder
    np.savez(folder / "problem.npz", X=X, y=given)
    (folder / "problem.txt").write_text("\n".join(f"{part!r}"[:5000] for part in case[:-1]))
    return case


def run(case):
    """Fit, and ask a fitted estimator for everything: it must answer, so nothing may raise then."""
    model, X, given_X, y, options, folder = case
    if not accepts(lambda: model.fit(given_X, y, **options)):
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        n, classes = X.shape[0], len(model.classes_)
        new = X[:3]
        by = {"distances": options["distances"][:3]} if isinstance(options.get("distances"), np.ndarray) else {}
        check_probabilities(model.label_distributions_, n, classes)
        if not scipy.sparse.issparse(options.get("distances")):
            check_probabilities(model.predict_proba(_as(given_X, new), **by), 3, classes)
            if not np.isin(model.predict(_as(given_X, new), **by), model.classes_).all():
                raise Fault("result", "a predicted label is not among the classes")
            if not np.isfinite(model.transform(_as(given_X, new), **by)).all():
                raise Fault("nan", "an embedding must be finite")
        model.explain(0), model.influences(2), model.uncertain(2), str(model)
        model.save(folder / "model.angpn")
        again = type(model).load(folder / "model.angpn")
        if not np.array_equal(again.label_distributions_, model.label_distributions_):
            raise Fault("result", "a model must be loaded as it was saved")
        if not np.array_equal(again.transduction_, model.transduction_):
            raise Fault("result", "labels must be loaded as they were saved")
    return True


def _as(given, new):
    """Return new rows sparse where the fitted ones were."""
    return scipy.sparse.csr_array(new) if scipy.sparse.issparse(given) else new


def _estimator(generator):
    """Return an estimator with a few parameters at random, some out of range."""
    network = generator.random() < 0.5
    shared = {
        "n_neighbors": [1, 3, 10, 100, 0, -1, 2.5, "x"],
        "n_candidates": [None, 5, 50, 1, 0],
        "metric": ["chord", "euclidean", "sqeuclidean", "precomputed", "manhattan"],
        "alpha": [0.01, 0.5, 0.999, 1e-300, 0, 1, -1, np.nan, "auto"],
        "beta": [0.0, 0.1, 10.0, 1e300, -1, np.inf, np.nan],
        "gamma": ["auto", "local", 1e-300, 1.0, 1e300, 0, -1, np.nan, "x"],
        "rule": ["simplex", "printed", "knn", "x"],
        "direction": ["directed", "symmetric", "normalized", "x"],
        "class_weight": [None, "balanced", {0: 1.0}, {0: 1e300, 1: 1e-300}, {0: -1.0}, {0: np.nan}, "x", {"z": 1}],
        "random_state": [0, None, -1, 2**40, "x"],
        "recall": [1, 0.5, 1e-9, 0, 2, np.nan],
    }
    own = {
        "hidden_layer_sizes": [(), (1,), (3, 3), (0,), (-1,), (2.5,), 7],
        "num_steps": [1, 2, 5, None, 0, -1],
        "dropout": [0.0, 0.5, 0.99, 1.0, -1, np.nan],
        "learning_rate": [1e-9, 0.01, 1.0, 1e30, 0, -1, np.nan],
        "weight_decay": [0.0, 1.0, 1e30, -1],
        "validation_fraction": [0.0, 0.1, 0.9, 1.0, -1, 2],
        "tol": [0.0, 1e-4, -np.inf, np.nan],
        "normalize": [True, False],
        "normalize_hidden": [True, False],
        "graph_gradient": [True, False],
        "n_iter_no_change": [1, 0, -1],
        "device": ["cpu", "auto", "cuda", "x"],
    }
    other = {
        "scaling": ["unit", "standard", "unit_standard", "idf", "none", "x"],
        "max_rounds": [0, 1, 2, -1, 0.5],
        "config": [EnsembleConfig(n_base_learners=1), EnsembleConfig(hops=((0.5, 2),)), "x", {}],
    }
    choices = {**shared, **(own if network else other)}
    names = [pick(generator, sorted(choices)) for _ in range(generator.integers(0, 4))]
    parameters = {"random_state": 0, "n_neighbors": 3} | {name: pick(generator, choices[name]) for name in names}
    if network:
        return ANGPNNetworkClassifier(**{"max_iter": pick(generator, [1, 5]), "hidden_layer_sizes": (4,), **parameters})
    return ANGPNClassifier(**{"max_rounds": 1, **parameters})
