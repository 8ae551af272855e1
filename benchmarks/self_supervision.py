"""The study of docs/accuracy.md on self-supervision: masked entries restored through the graph.

    ANGPN_DATA=folder python benchmarks/self_supervision.py [results/self_supervision.jsonl]

One line for each fit, appended as it comes; a restart resumes. The tables are printed at the end. Accuracy is that of
test rows. The configuration of the denoising network was chosen on splits 20 to 22 of CoraML, which have no part here.
"""

import json
import sys
import time
from collections.abc import Callable
from functools import cache, cached_property, partial
from itertools import chain, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from sklearn.decomposition import TruncatedSVD
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize, scale
from threadpoolctl import threadpool_limits

from angpn import ANGPN, ANGPNClassifier, ANGPNNetworkClassifier, nearest_candidates
from angpn.anfp.sparse import propagation_matrix
from angpn.datasets import SETS
from angpn.experiments.splits import SPLITS
from angpn.network.denoising import Denoising

N_SPLITS = 3
# Set, protocol, and per cent or number of labels.
TASKS = (
    ("wine", "lds", 10),
    ("breast_cancer", "lds", 10),
    ("coraml", "paper", 10),
    ("20news", "paper", 10),
    ("digits", "lds", 50),
)
NEIGHBORS, WIDTH, EPOCHS, ALPHA, DROPOUT, LEARNING_RATE = 20, 256, 100, 0.9, 0.5, 0.01
PENALTIES = (1.0, 10.0, 100.0, 1000.0)  # C of logistic regression, of which validation labels choose one


class Result(NamedTuple):
    """Probabilities of the classes for every row, and the seconds that they took, with all they depend on."""

    probabilities: Any  # (n, c)
    seconds: float


@cache
def data(name: str, protocol: str) -> tuple[Any, Any]:
    """Return rows and labels, standardised where the protocol does so."""
    X, y = SETS[name].load(return_X_y=True)
    X = scale(X) if protocol == "lds" and name != "digits" else X
    return X.astype(np.float32), np.unique(y, return_inverse=True)[1]


class Problem:
    """One split of one set, with what several variants share."""

    def __init__(self, task: tuple[str, str, int], split: int) -> None:
        self.X, self.truth = data(*task[:2])
        self.seed, self.parts = split, SPLITS[task[1]](self.truth, task[2], split)
        self.y = np.where(self.parts.test, -1, self.truth)

    @cached_property
    def rows(self) -> Any:
        """Rows of unit length, as a network takes them."""
        rows = normalize(self.X)
        return rows if scipy.sparse.issparse(rows) else torch.from_numpy(rows)

    @cached_property
    def neighborhood(self) -> Any:
        """The candidates of each row."""
        return nearest_candidates(self.rows, min(4 * NEIGHBORS, self.X.shape[0] - 1))

    def network(self, width: int) -> ANGPN:
        """Return a layer on the fixed graph; its perceptron is not used."""
        options = {"n_neighbors": NEIGHBORS, "alpha": ALPHA, "beta": 0.0, "direction": "normalized"}
        return ANGPN(self.X.shape[1], [width], 2, dropout=DROPOUT, **options)

    @cached_property
    def hops(self) -> tuple[Any, float]:
        """Features after five hops."""
        start = time.perf_counter()
        graph = self.network(1).convs[0].graph_matrix(self.rows, self.neighborhood)
        matrix, features = propagation_matrix(graph, ALPHA, "normalized"), self.rows
        features = features if scipy.sparse.issparse(features) else features.numpy()
        for _ in range(5):
            features = matrix @ features
        features = features.toarray() if scipy.sparse.issparse(features) else features
        return features, time.perf_counter() - start

    def hidden(self, epochs: int) -> tuple[Any, float]:
        """Return the hidden layer of a denoising network; no label has a part in it."""
        start = time.perf_counter()
        generator = torch.Generator().manual_seed(self.seed)
        network = self.network(WIDTH).train()
        network.reset_parameters(generator)
        denoising = Denoising(network, self.rows, self.neighborhood, generator)
        optimizer = torch.optim.Adam([*network.convs.parameters(), *denoising.parameters()], lr=LEARNING_RATE)
        for _ in range(epochs):
            optimizer.zero_grad()
            denoising(generator).backward()
            optimizer.step()
        with torch.no_grad():
            hidden = network.eval().embed(self.rows, self.neighborhood).numpy()
        return hidden, time.perf_counter() - start

    @cached_property
    def representation(self) -> tuple[Any, float]:
        """The hidden layer after training."""
        return self.hidden(EPOCHS)

    def default(self, X: Any) -> Result:
        """Fit the automatic classifier."""
        start = time.perf_counter()
        model = ANGPNClassifier(random_state=self.seed).fit(X, self.y, validation_mask=self.parts.validation)
        return Result(model.label_distributions_, time.perf_counter() - start)

    @cached_property
    def default_on_rows(self) -> Result:
        """The default, as it is."""
        return self.default(self.X)

    @cached_property
    def default_on_representation(self) -> Result:
        """The default with the hidden layer in the place of X."""
        features, seconds = self.representation
        found = self.default(features)
        return found._replace(seconds=found.seconds + seconds)

    @cached_property
    def default_on_singular_vectors(self) -> Result:
        """The default with the first singular vectors of X in its place, another representation of that width."""
        start = time.perf_counter()
        width = min(WIDTH, self.X.shape[1] - 1)
        features = TruncatedSVD(width, random_state=self.seed).fit_transform(normalize(self.X))
        seconds = time.perf_counter() - start
        found = self.default(features.astype(np.float32))
        return found._replace(seconds=found.seconds + seconds)


def network(problem: Problem, **options: Any) -> Result:
    """Train the network end to end."""
    start = time.perf_counter()
    model = ANGPNNetworkClassifier(random_state=problem.seed, **options)
    model.fit(problem.X, problem.y, validation_mask=problem.parts.validation)
    return Result(model.label_distributions_, time.perf_counter() - start)


def logistic(problem: Problem, features: Callable[[Problem], tuple[Any, float]]) -> Result:
    """Fit logistic regression to the training labels; validation labels choose the penalty."""
    X, seconds = features(problem)
    start, parts, truth = time.perf_counter(), problem.parts, problem.truth
    X = X / np.sqrt((X**2).sum(axis=1).mean())
    fits = []
    for penalty in PENALTIES:
        model = LogisticRegression(C=penalty, max_iter=300).fit(X[parts.training], truth[parts.training])
        found = model.predict_proba(X)
        fits.append((log_likelihood(problem, found), found))
    return Result(max(fits, key=lambda fit: fit[0])[1], seconds + time.perf_counter() - start)


def log_likelihood(problem: Problem, probabilities: Any) -> float:
    """Return the mean log-likelihood of the validation labels."""
    held = np.flatnonzero(problem.parts.validation)
    return float(np.log(np.maximum(probabilities[held, problem.truth[held]], 1e-9)).mean())


def default_on_joined(problem: Problem) -> Result:
    """Fit the default to X joined with the hidden layer, both of mean length 1."""
    hidden, seconds = problem.representation
    hidden = hidden / np.sqrt((hidden**2).sum(axis=1).mean())
    rows = normalize(problem.X)
    sparse = scipy.sparse.issparse(rows)
    found = problem.default(scipy.sparse.hstack([rows, hidden], "csr") if sparse else np.hstack([rows, hidden]))
    return found._replace(seconds=found.seconds + seconds)


def combined(problem: Problem, other: str, combine: Callable[[Problem, Any, Any], Any]) -> Result:
    """Combine the default on X and that on another representation."""
    first, second = problem.default_on_rows, getattr(problem, other)
    probabilities = combine(problem, first.probabilities, second.probabilities)
    return Result(probabilities, first.seconds + second.seconds)


def mean(problem: Problem, first: Any, second: Any) -> Any:
    """Return the mean of the probabilities."""
    return (first + second) / 2


def likelier(problem: Problem, first: Any, second: Any) -> Any:
    """Return the probabilities under which the validation labels are likelier."""
    return max(first, second, key=partial(log_likelihood, problem))


def mixture(problem: Problem, first: Any, second: Any) -> Any:
    """Mix them by the weight under which the validation labels are likeliest, given a prior worth one label each."""
    n_held = problem.parts.validation.sum()
    weights = np.linspace(0.01, 0.99, 99)
    scores = [
        n_held * log_likelihood(problem, weight * first + (1 - weight) * second) + np.log(weight) + np.log(1 - weight)
        for weight in weights
    ]
    weight = weights[np.argmax(scores)]
    return weight * first + (1 - weight) * second


REPRESENTATIONS: dict[str, Callable[[Problem], Result]] = {
    "logistic regression, five hops": partial(logistic, features=lambda problem: problem.hops),
    "logistic regression, hidden layer untrained": partial(logistic, features=lambda problem: problem.hidden(0)),
    "logistic regression, hidden layer": partial(logistic, features=lambda problem: problem.representation),
    "the default": lambda problem: problem.default_on_rows,
    "the default on the hidden layer": lambda problem: problem.default_on_representation,
    "the default on X joined with it": default_on_joined,
    "the default on X and on it: mean": partial(combined, other="default_on_representation", combine=mean),
    "the default on X and on it: the likelier": partial(combined, other="default_on_representation", combine=likelier),
    "the default on X and on it: mixture": partial(combined, other="default_on_representation", combine=mixture),
    "the default on singular vectors": lambda problem: problem.default_on_singular_vectors,
    "the default on X and on these: mean": partial(combined, other="default_on_singular_vectors", combine=mean),
    "the default on X and on these: mixture": partial(combined, other="default_on_singular_vectors", combine=mixture),
}
NETWORKS: dict[str, Callable[[Problem], Result]] = {
    "network, beta 0": partial(network, beta=0.0),
    "network, beta 0, self-supervised": partial(network, beta=0.0, self_supervised=1.0),
    "network, beta 0.1": partial(network, beta=0.1),
    "network, beta 0.1, self-supervised": partial(network, beta=0.1, self_supervised=1.0),
}
MORE_NETWORKS: dict[str, Callable[[Problem], Result]] = {
    "network, beta 0.1, self-supervised x 10": partial(network, beta=0.1, self_supervised=10.0),
    "network, beta 1": partial(network, beta=1.0),
    "network, beta 1, self-supervised": partial(network, beta=1.0, self_supervised=1.0),
}
# What each is compared with on the same splits.
REFERENCES = {
    "network, beta 0, self-supervised": "network, beta 0",
    "network, beta 0.1": "network, beta 0",
    "network, beta 0.1, self-supervised": "network, beta 0.1",
    "network, beta 0.1, self-supervised x 10": "network, beta 0.1",
    "network, beta 1": "network, beta 0",
    "network, beta 1, self-supervised": "network, beta 1",
    "logistic regression, hidden layer": "logistic regression, five hops",
    **{name: "the default" for name in REPRESENTATIONS if name.startswith("the default on")},
}
GROUPS = REPRESENTATIONS, NETWORKS, MORE_NETWORKS  # in the order of execution: each on all sets before the next


def warm_up() -> None:
    """Compile or load the compiled loops, so that no fit is charged with it."""
    X, y = data("wine", "lds")
    for rows in (X, scipy.sparse.csr_array(np.where(X > 1, X, 0))):
        for model in (ANGPNClassifier(), ANGPNNetworkClassifier(max_iter=2, self_supervised=1.0)):
            model.fit(rows, np.where(np.arange(len(y)) % 3, y, -1))


def cell(values: list[float], form: str) -> str:
    """Return mean and standard error, nothing where splits are missing."""
    if len(values) < N_SPLITS:
        return ""
    return f"{np.mean(values):{form}} ({np.std(values, ddof=1) / np.sqrt(len(values)):.1f})"


def table(records: list[dict[str, Any]], *, differences: bool) -> str:
    """Return accuracy and mean seconds, or differences of accuracy on the same splits, as Markdown."""
    names = [task[0] for task in TASKS]
    found = {(r["variant"], r["dataset"], r["split"]): r for r in records}
    lines = ["| | " + " | ".join(names) + " |", "| --- |" + " ---: |" * len(names)]
    for variant in REFERENCES if differences else chain(*GROUPS):
        cells = []
        for name in names:
            own = [found[variant, name, split] for split in range(N_SPLITS) if (variant, name, split) in found]
            if differences:
                reference = [found.get((REFERENCES[variant], name, r["split"])) for r in own]
                pairs = zip(own, reference, strict=True)
                cells.append(cell([a["accuracy"] - b["accuracy"] for a, b in pairs if b is not None], "+.1f"))
            else:
                seconds = f", {np.mean([r['seconds'] for r in own]):.0f} s" if len(own) == N_SPLITS else ""
                cells.append(cell([r["accuracy"] for r in own], ".1f") + seconds)
        lines.append(f"| {variant} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def run(problem: Problem, fit: Callable[[Problem], Result]) -> dict[str, float]:
    """Fit once and return accuracy and seconds."""
    found = fit(problem)
    correct = found.probabilities.argmax(axis=1) == problem.truth
    return {
        "accuracy": round(100 * float(correct[problem.parts.test].mean()), 4),
        "seconds": round(found.seconds, 2),
    }


def main() -> None:
    """Execute the outstanding fits, then print the table."""
    torch.set_num_threads(1)
    path = Path(sys.argv[1] if sys.argv[1:] else "results/self_supervision.jsonl")
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(record["variant"], record["dataset"], record["split"]) for record in records}
    with path.open("a") as file, threadpool_limits(1):
        warm_up()
        for variants, task, split in product(GROUPS, TASKS, range(N_SPLITS)):
            problem = Problem(task, split)  # what its variants share is computed once, by the first that needs it
            for variant in variants:
                if (variant, task[0], split) in done:
                    continue
                record = {"variant": variant, "dataset": task[0], "split": split}
                records.append(record | run(problem, variants[variant]))
                file.write(json.dumps(records[-1]) + "\n")
                file.flush()
    print(table(records, differences=False))
    print()
    print(table(records, differences=True))


if __name__ == "__main__":
    main()
