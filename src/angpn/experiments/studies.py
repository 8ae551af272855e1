"""Which runs there are: the paper's grid, the same with settings chosen, and what its figures vary."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from angpn.baselines import METHODS
from angpn.experiments.splits import Protocol

DATASETS = ("svhn", "cifar10", "20news", "coraml")
# As tables name the sets, in the paper's order.
TITLES = {
    "svhn": "SVHN",
    "cifar10": "CIFAR",
    "20news": "20News",
    "coraml": "CoraML",
    "digits": "Digits",
    "wine": "Wine",
    "breast_cancer": "Cancer",
    "mnist10k": "MNIST, 10,000",
}
RATES = (10, 20, 30)
N_SPLITS = 5

TABLE_1 = ("ManiReg", "LP", "DeepWalk", "DGI", "GraphSAGE", "GCN", "GAT", "ANGPN")
TABLE_2 = ("NGPN", "ANGPN")

# The embedding of these depends on the graph alone: with one seed for all splits it is computed once for each graph.
SEEDED_ONCE = ("DeepWalk", "DGI")

Setting = Mapping[str, Any]


class Run(NamedTuple):
    """A fit, or as many fits as there are settings to choose from on the validation labels."""

    dataset: str
    rate: int  # per cent of each class that is trained on
    split: int
    method: str
    settings: tuple[Setting, ...] = ({},)  # what differs from the method's defaults
    protocol: Protocol = "paper"  # how labels are drawn; "lds" and others count labels where "paper" has per cent

    def models(self) -> list[Any]:
        """An unfitted estimator for each setting."""
        seed = 0 if self.method in SEEDED_ONCE else self.split
        return [METHODS[self.method](random_state=seed, **setting) for setting in self.settings]

    def parameters(self) -> list[dict[str, Any]]:
        """The parameters of each, as JSON has them: an older result is still of this run if it has one of these."""
        return [plain_parameters(model) for model in self.models()]

    def order(self) -> tuple[Any, ...]:
        """Sorts runs so that each method has a result early, and all have the same splits."""
        known = list(METHODS)
        return self.split, self.rate, self.dataset, known.index(self.method), json.dumps(self.settings, sort_keys=True)


class Study(NamedTuple):
    """Runs that answer one question, in a results file of their own."""

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
        """Those of its runs that are asked for, in the order to run them in."""
        return sorted(
            (
                run
                for run in self.make()
                if (datasets is None or run.dataset in datasets)
                and (rates is None or run.rate in rates)
                and (n_splits is None or run.split < n_splits)
                and (methods is None or run.method in methods)
            ),
            key=Run.order,
        )


def _crossed(
    methods: Mapping[str, Sequence[tuple[Setting, ...]]] | Sequence[str],
    *,
    datasets: Sequence[str] = DATASETS,
    rates: Sequence[int] = (10,),
    n_splits: int = 3,
    protocol: Protocol = "paper",
) -> list[Run]:
    """Every method (with each of its groups of settings) on every set, rate and split."""
    groups = methods if isinstance(methods, Mapping) else {name: [({},)] for name in methods}
    return [
        Run(dataset, rate, split, method, tuple(settings), protocol)
        for method, choices in groups.items()
        for settings in choices
        for dataset in datasets
        for rate in rates
        for split in range(n_splits)
    ]


def _each(name: str, values: Sequence[Any]) -> list[tuple[Setting, ...]]:
    return [({name: value},) for value in values]


def _product(**values: Sequence[Any]) -> tuple[Setting, ...]:
    """All combinations of these values."""
    settings: list[dict[str, Any]] = [{}]
    for name, choices in values.items():
        settings = [{**setting, name: choice} for setting in settings for choice in choices]
    return tuple(settings)


def _one_at_a_time(name: str, values: Sequence[Any]) -> tuple[Setting, ...]:
    """Each value as the only one of a method that would choose among several by itself."""
    return tuple({name: (value,)} for value in values)


# Four settings for each method, the same budget for all; where a method has a graph, its density is among them.
TUNED: dict[str, tuple[Setting, ...]] = {
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
            "Tables I and II: published settings",
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
            "Settings chosen on the validation labels, four for each method",
            # Each run is four fits, so one set must do.
            lambda: _crossed({name: [settings] for name, settings in TUNED.items()}, datasets=("coraml",), n_splits=2),
        ),
    )
}

SMOKE = Study(
    "grid",
    "Two bundled sets, a few epochs: whether everything runs, not how well",
    lambda: _crossed(
        {"ANGPN": [({"max_iter": 20},)], "NGPN": [({"max_iter": 20},)], "LogisticRegression": [({},)]},
        datasets=("digits", "wine"),
        n_splits=2,
    ),
)


def plain_parameters(model: Any) -> dict[str, Any]:
    """What the result of a model depends on, as JSON gives it back (tuples become lists)."""
    found = {name: value for name, value in model.get_params().items() if name != "cache_folder"}
    return json.loads(json.dumps(found, default=str))
