"""Random problems and parameters through all that both estimators can do."""

import warnings

import numpy as np
import scipy.sparse

from angpn import ANGPNClassifier, ANGPNNetworkClassifier, EnsembleConfig
from fuzz.checks import Fault, check_probabilities
from fuzz.mutations import pick
from fuzz.problems import fit_options, hostile_rows, in_container, in_label_form, one
from fuzz.verdict import accepts

# Good values of each parameter, and bad ones.
SHARED = {
    "n_neighbors": ([1, 3, 10, 100], [0, -1, 2.5, "x"]),
    "n_candidates": ([None, 50, 120], [1, 0, "x"]),
    "metric": (["chord", "euclidean", "sqeuclidean"], ["precomputed", "manhattan", 3]),
    "alpha": ([0.01, 0.5, 0.999, 1e-300], [0, 1, -1, np.nan, "x"]),
    "beta": ([0.0, 0.1, 10.0, 1e9], [-1, 1e300, np.inf, np.nan, "x"]),
    "gamma": (["auto", "local", 1e-30, 1.0, 1e30], [0, -1, 1e-300, 1e300, np.nan, "x"]),
    "rule": (["simplex", "printed"], ["knn", "x", 3]),
    "direction": (["directed", "symmetric", "normalized"], ["x", None]),
    "class_weight": ([None, "balanced"], [{0: 1.0}, {0: 1e300, 1: 1e-300}, {0: -1.0}, {0: np.nan}, "x", {"z": 1}, 3]),
    "random_state": ([0, None, 7], [-1, 2**40, "x"]),
    "recall": ([1, 0.5, 1e-9], [0, 2, np.nan, "x"]),
}
OF_NETWORK = {
    "hidden_layer_sizes": ([(1,), (3, 3), [5]], [(), (0,), (-1,), (2.5,), 7, "x"]),
    "num_steps": ([1, 2, 5, None], [0, -1, 1000, "x"]),
    "dropout": ([0.0, 0.5, 0.99], [1.0, -1, np.nan]),
    "learning_rate": ([1e-9, 0.01, 1.0, 1e30], [0, -1, np.nan, "x"]),
    "weight_decay": ([0.0, 1.0, 1e30], [-1, np.nan]),
    "self_supervised": ([0.0, 0.5, 10.0], [-1, np.inf, np.nan, "x"]),
    "validation_fraction": ([0.0, 0.1, 0.9], [1.0, -1, 2, np.nan]),
    "tol": ([0.0, 1e-4, -np.inf], [np.nan, "x"]),
    "normalize": ([True, False], ["x"]),
    "normalize_hidden": ([True, False], ["x"]),
    "graph_gradient": ([True, False], ["x"]),
    "n_iter_no_change": ([1, 3], [0, -1]),
    "device": (["cpu", "auto"], ["cuda", "x"]),
}
OF_ENSEMBLE = {
    "scaling": (["unit", "standard", "unit_standard", "pca", "standard_pca", "none"], ["idf", "x"]),
    "max_rounds": ([0, 1, 2], [-1, 0.5, "x"]),
    "config": ([EnsembleConfig(n_trees=3), EnsembleConfig(hops=((0.5, 2),))], ["x", {}]),
}


def make(seed, folder):
    """Draw a problem; write it down, since it is no file."""
    generator = np.random.default_rng(seed)
    n, d = pick(generator, [5, 8, 12, 25, 40]), pick(generator, [1, 2, 3, 8])
    truth = np.arange(n) % one(generator, [2, 2, 2, 3, 5], [1])
    given = np.where(generator.random(n) < one(generator, [0.5, 0.5, 0.7, 0.9], [0.1, 0, 1]), truth, -1)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X = hostile_rows(generator.normal(size=(n, d)) + 2 * truth[:, None], generator)
        form, y, options = in_container(X, generator), in_label_form(given, generator), fit_options(n, given, generator)
    case = _estimator(generator), X, form, y, options, folder
    (folder / "problem.txt").write_text("\n".join(f"{part!r}"[:20_000] for part in case[:-1]))
    return case


def run(case):
    """Fit, and ask a fitted estimator for everything: it must answer, so nothing may raise then."""
    model, X, form, y, options, folder = case
    if not accepts(lambda: model.fit(form, y, **options)):
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        distances = options.get("distances")
        check_probabilities(model.label_distributions_, len(X), len(model.classes_))
        if not scipy.sparse.issparse(distances):  # of new rows all distances must be known
            new = scipy.sparse.csr_array(form)[:3] if scipy.sparse.issparse(form) else form[:3]
            by = {} if distances is None else {"distances": distances[:3]}
            check_probabilities(model.predict_proba(new, **by), 3, len(model.classes_))
            if not np.isin(model.predict(new, **by), model.classes_).all():
                raise Fault("result", "predicted labels must be among the classes, got another")
            if not np.isfinite(model.transform(new, **by)).all():
                raise Fault("nan", "an embedding must be finite, got one that is not")
        model.explain(0), model.influences(2), model.uncertain(2), str(model)
        model.save(folder / "model.angpn")
        again = type(model).load(folder / "model.angpn")
        for name in ("label_distributions_", "transduction_"):
            if not np.array_equal(getattr(again, name), getattr(model, name)):
                raise Fault("result", f"{name} must be loaded as it was saved, got another")
    return True


def _estimator(generator):
    """Return an estimator with a few parameters at random."""
    network = generator.random() < 0.5
    choices = {**SHARED, **(OF_NETWORK if network else OF_ENSEMBLE)}
    names = [pick(generator, sorted(choices)) for _ in range(generator.integers(0, 4))]
    parameters = {"random_state": 0, "n_neighbors": 3} | {name: one(generator, *choices[name]) for name in names}
    if network:
        usual = {"max_iter": pick(generator, [1, 5]), "hidden_layer_sizes": (4,)}
        return ANGPNNetworkClassifier(**{**usual, **parameters})
    return ANGPNClassifier(**{"max_rounds": 1, **parameters})
