"""Duration and accuracy of a fit of every method, neighbours included."""

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from angpn.baselines import METHODS
from angpn.bench.epochs import make_problem


def measure_methods(
    n: int, names: Sequence[str], on_method: Callable[[str], None] = lambda name: None
) -> Iterator[tuple[str, dict[str, float]]]:
    """Fit each method of :data:`angpn.baselines.METHODS` once, and yield its name, seconds and accuracy."""
    problem = make_problem(n)
    features, truth = problem.features.numpy(), problem.labels.numpy()
    generator = np.random.default_rng(0)
    order = generator.permutation(n)
    given, validation = order[: n // 10 + n // 20], np.zeros(n, dtype=bool)
    validation[order[n // 10 : n // 10 + n // 20]] = True
    y = np.full(n, -1)
    y[given] = truth[given]
    for name in names:
        on_method(name)
        start = time.perf_counter()
        model = METHODS[name](random_state=0).fit(features, y, validation_mask=validation)
        seconds = time.perf_counter() - start
        yield name, {"seconds": seconds, "accuracy": float(np.mean((model.transduction_ == truth)[y == -1]))}
