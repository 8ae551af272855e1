"""The studies and their runs: the paper's grid, tuned hyper-parameters, and sensitivity to each hyper-parameter."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from angpn.baselines import METHODS
from angpn.experiments.splits import Protocol

DATASETS = ("svhn", "cifar10", "20news", "coraml")
# Names of the sets in tables, in the paper's order.
TITLES = {
    "svhn": "SVHN",
    "cifar10": "CIFAR",
    "20news": "20News",
    "coraml": "CoraML",
    "digits": "Digits",
    "wine": "Wine",
    "breast_cancer": "Cancer",
    "mnist10k": "MNIST, 10,000",
    "led7digit": "LED7digit",
    "contraceptive": "Contraceptive",
    "splice": "Splice",
    "optdigits": "Optdigits",
    "marketing": "Marketing",
}
RATES = (10, 20, 30)
N_SPLITS = 5

TABLE_1 = ("ManiReg", "LP", "DeepWalk", "DGI", "GraphSAGE", "GCN", "GAT", "ANGPN")
TABLE_2 = ("NGPN", "ANGPN")

# The embedding of these does not depend on labels: with one seed for all splits it is computed once for each graph.
SEEDED_ONCE = ("DeepWalk", "DGI")

HyperParameters = Mapping[str, Any]


class Run(NamedTuple):
    """A fit, or one fit for each candidate of hyper-parameters, selected on the validation labels.

    Attributes:
        dataset: Name of the data set.
        rate: Per cent of each class for training; a number of labels for protocols other than "paper".
        split: Number of the random split.
        method: Name in :data:`angpn.baselines.METHODS`.
        hyperparameters: Candidates; each holds what differs from the defaults of the method.
        protocol: How labels are drawn, see :mod:`angpn.experiments.splits`.
    """

    dataset: str
    rate: int
    split: int
    method: str
    hyperparameters: tuple[HyperParameters, ...] = ({},)
    protocol: Protocol = "paper"

    def models(self) -> list[Any]:
        """Make an estimator for each candidate of hyper-parameters.

        Returns:
            The unfitted estimators.
        """
        seed = 0 if self.method in SEEDED_ONCE else self.split
        return [METHODS[self.method](random_state=seed, **values) for values in self.hyperparameters]

    def parameters(self) -> list[dict[str, Any]]:
        """List all parameters of each estimator as JSON has them; a result with other parameters is outdated.

        Returns:
            The parameters of each estimator.
        """
        return [plain_parameters(model) for model in self.models()]

    def order(self) -> tuple[Any, ...]:
        """Make a sort key: first all methods on the first split, then on the next.

        Returns:
            The key.
        """
        method = list(METHODS).index(self.method)
        return self.split, self.rate, self.dataset, method, json.dumps(self.hyperparameters, sort_keys=True)


class Study(NamedTuple):
    """Runs that answer one question, with a results file of their own.

    Attributes:
        name: Name of the study and of its results file.
        question: What it measures.
        make: Function that returns all its runs.
    """

    name: str
    question: str
    make: Callable[..., list[Run]]

    def runs(
        self,
        *,
        datasets: Collection[str] | None = None,
        rates: Collection[int] | None = None,
        n_splits: int | None = None,
        methods: Collection[str] | None = None,
    ) -> list[Run]:
        """Return the runs of the study, restricted by the arguments that are not None, in the order to execute them.

        Args:
            datasets: Names of data sets.
            rates: Label rates or numbers of labels.
            n_splits: Number of splits.
            methods: Names of methods.

        Returns:
            The runs.
        """
        return sorted(
            (
                run
                for run in self.make()
                if (datasets is None or run.dataset in datasets)
                and (rates is None or run.rate in rates)
                and (n_splits is None or run.split < n_splits)
                and (methods is None or run.method in methods)
            ),
            key=lambda run: run.order(),
        )


def _crossed(
    methods: Mapping[str, Sequence[tuple[HyperParameters, ...]]] | Sequence[str],
    *,
    datasets: Sequence[str] = DATASETS,
    rates: Sequence[int] = (10,),
    n_splits: int = 3,
    protocol: Protocol = "paper",
) -> list[Run]:
    """Return the runs of every method (with each of its tuples of candidates) on every set, rate and split."""
    groups = methods if isinstance(methods, Mapping) else {name: [({},)] for name in methods}
    return [
        Run(dataset, rate, split, method, tuple(candidates), protocol)
        for method, groups_of_method in groups.items()
        for candidates in groups_of_method
        for dataset in datasets
        for rate in rates
        for split in range(n_splits)
    ]


def _each(name: str, values: Sequence[Any]) -> list[tuple[HyperParameters, ...]]:
    """Return a run's single candidate for each value."""
    return [({name: value},) for value in values]


def _product(**values: Sequence[Any]) -> tuple[HyperParameters, ...]:
    """Return all combinations of these values as candidates."""
    candidates: list[dict[str, Any]] = [{}]
    for name, choices in values.items():
        candidates = [{**candidate, name: choice} for candidate in candidates for choice in choices]
    return tuple(candidates)


def _one_at_a_time(name: str, values: Sequence[Any]) -> tuple[HyperParameters, ...]:
    """Return each value as a candidate, for a method that selects among several values itself."""
    return tuple({name: (value,)} for value in values)


# Four candidates for each method, the same budget for all; the density of the graph varies where there is one.
TUNED: dict[str, tuple[HyperParameters, ...]] = {
    "ANGPN": _product(n_neighbors=(10, 30), alpha=(0.2, 0.5)),
    "ANGPN-auto": _product(n_neighbors=(10, 20), beta=(0.0, 0.1)),
    "NGPN": _product(n_neighbors=(10, 30), alpha=(0.2, 0.5)),
    "ManiReg": _product(n_neighbors=(10, 20), intrinsic=(0.045, 0.45)),
    "LP": _product(n_neighbors=(5, 10, 20, 30)),
    "DeepWalk": _product(n_neighbors=(10, 20), window=(5, 10)),
    "DGI": _product(n_neighbors=(10, 20), hidden_channels=(256, 512)),
    "GraphSAGE": _product(n_neighbors=(10, 20), weight_decay=(0.0, 5e-4)),
    "GCN": _product(n_neighbors=(10, 20), hidden_channels=(16, 64)),
    "GAT": _product(n_neighbors=(10, 20), dropout=(0.3, 0.6)),
    "LogisticRegression": _one_at_a_time("Cs", (1.0, 10.0, 100.0, 1000.0)),
    "SVM": tuple({"Cs": (C,), "gammas": (gamma,)} for C in (1.0, 10.0) for gamma in (0.5, 2.0)),
    "LabelSpreading": tuple({"n_neighbors": k, "alphas": (alpha,)} for k in (10, 20) for alpha in (0.2, 0.8)),
    "SelfTraining": tuple({"Cs": (C,), "thresholds": (t,)} for C in (100.0, 1000.0) for t in (0.75, 0.9)),
    "kNN": _one_at_a_time("counts", (1, 5, 10, 20)),
    "APPNP": _product(n_neighbors=(10, 20), alpha=(0.1, 0.2)),
    "Poisson": _product(n_neighbors=(5, 10, 20, 30)),
}

DEPTHS = (1, 2, 3, 4, 5, 6)
NEIGHBORS = (10, 15, 20, 30, 40)
ALPHAS = (0.1, 0.3, 0.5, 0.7, 0.9)
BETAS = (0.0, 0.1, 0.3, 1.0, 3.0)
STEPS = (1, 2, 3, 5, None)


def _depth() -> list[Run]:
    # The last of GCN's layers is the classifier, as the perceptron is ours.
    return _crossed(
        {
            "ANGPN": _each("hidden_layer_sizes", [(50,) * depth for depth in DEPTHS]),
            "GCN": _each("num_layers", [depth + 1 for depth in DEPTHS]),
        }
    )


GRAPH_FREE = ("ANGPN-auto", "ANGPN", "NGPN", "GCN", "LogisticRegression", "SVM", "LabelSpreading")
FEW = ("ANGPN-auto", "Poisson", "LabelSpreading", "LP", "LogisticRegression")


def _graph_free() -> list[Run]:
    small = _crossed(GRAPH_FREE, datasets=("wine", "breast_cancer"), rates=(10,), n_splits=10, protocol="lds")
    digits = _crossed(GRAPH_FREE, datasets=("digits",), rates=(50,), n_splits=10, protocol="lds")
    mnist = ("ANGPN-auto", "LogisticRegression", "LabelSpreading")
    return [
        *small,
        *digits,
        *_crossed(mnist, datasets=("mnist10k",), rates=(1000, 2000, 3000), n_splits=3, protocol="counted"),
    ]


def _few_labels() -> list[Run]:
    counts = (1, 2, 3, 5)
    digits = _crossed(FEW, datasets=("digits",), rates=counts, n_splits=10, protocol="few")
    return [*digits, *_crossed(FEW, datasets=("mnist10k",), rates=counts, n_splits=3, protocol="few")]


STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        Study(
            "grid",
            "Tables I and II: published hyper-parameters",
            lambda: _crossed(list(METHODS), rates=RATES, n_splits=N_SPLITS),
        ),
        Study("depth", "Accuracy by the number of hidden layers", _depth),
        Study(
            "neighbors",
            "Accuracy by k",
            lambda: _crossed({name: _each("n_neighbors", NEIGHBORS) for name in ("ANGPN", "NGPN")}),
        ),
        Study("alpha", "Accuracy by alpha", lambda: _crossed({"ANGPN": _each("alpha", ALPHAS)}, n_splits=2)),
        Study("beta", "Accuracy by beta", lambda: _crossed({"ANGPN": _each("beta", BETAS)}, n_splits=2)),
        Study(
            "steps",
            "Accuracy by T, up to convergence",
            lambda: _crossed({"ANGPN": _each("num_steps", STEPS)}, n_splits=1),  # to convergence takes minutes a fit
        ),
        Study(
            "graphfree",
            "Wine, Cancer, Digits and MNIST as later papers on learning graphs have them",
            _graph_free,
        ),
        Study("few", "One to five labels a class", _few_labels),
        Study(
            "tuned",
            "Hyper-parameters selected on the validation labels, four candidates for each method",
            # Each run is four fits, so the study has one set.
            lambda: _crossed({name: [values] for name, values in TUNED.items()}, datasets=("coraml",), n_splits=2),
        ),
    )
}

SMOKE = Study(
    "grid",
    "Two bundled sets and a few epochs, to check that everything runs",
    lambda: _crossed(
        {"ANGPN": [({"max_iter": 20},)], "NGPN": [({"max_iter": 20},)], "LogisticRegression": [({},)]},
        datasets=("digits", "wine"),
        n_splits=2,
    ),
)


def plain_parameters(model: Any) -> dict[str, Any]:
    """Return the parameters that determine the result of a model, as JSON has them (tuples become lists)."""
    parameters = {name: value for name, value in model.get_params().items() if name != "cache_folder"}
    return json.loads(json.dumps(parameters, default=str))
