"""Random tables, on which nothing of the default was chosen: what ``unseen_tables.py`` measures it on.

A class depends on the columns, or both on something that is not shown: clusters, regions around prototypes, nodes of a
random network, or linear, quadratic, tree-like and rule-like functions. Then columns are skewed, rounded, cut off, made
binary or one-hot, mixed with columns that mean nothing, and some classes are changed by chance.
"""

from collections.abc import Callable

import numpy as np

Array = np.ndarray
Generator = np.random.Generator

_ACTIVATIONS: tuple[Callable[[Array], Array], ...] = (
    np.tanh,
    lambda x: np.maximum(x, 0),
    np.sin,
    lambda x: x,
    np.abs,
    lambda x: np.exp(-x * x),
    np.sign,
    np.square,
    np.floor,
)


def random_table(
    generator: Generator, n: int, p: int, n_classes: int, kind: str
) -> tuple[Array, Array]:  # (n, p), (n,)
    """Return rows and classes of a table of this kind."""
    n_idle = int(generator.integers(0, max(1, int(p * 0.6)) + 1)) if generator.random() < 0.5 and p > 2 else 0
    X, y = KINDS[kind](generator, n, max(1, p - n_idle), n_classes)
    if n_idle:
        idle = _hidden_rows(generator, n, n_idle)
        if generator.random() < 0.4:
            idle = idle + _standardised(X)[:, generator.integers(X.shape[1], size=n_idle)] * generator.uniform(0.3, 2)
        X = np.concatenate([X, idle], axis=1)
    X = _measured(generator, X[:, :p])
    if generator.random() < 0.35:
        changed = generator.random(n) < generator.uniform(0, 0.2)
        others = generator.integers(n_classes, size=n) if generator.random() < 0.5 else y[generator.permutation(n)]
        y = np.where(changed, others, y)
    return X, y


def _clusters(generator: Generator, n: int, q: int, n_classes: int) -> tuple[Array, Array]:
    """Classes of one or several normal parts, of one shape or each of its own."""
    parts = np.repeat(np.arange(n_classes), generator.integers(1, 4 if n_classes < 4 else 3, size=n_classes))
    m = len(parts)
    shares = generator.dirichlet(np.ones(m) * np.exp(generator.uniform(-0.3, 2.5)))
    part = generator.choice(m, n, p=shares)
    distance = np.exp(generator.uniform(-1, 1.2)) * (2 / q**0.5 if generator.random() < 0.7 else 1)
    centers = generator.standard_normal((m, q)) * distance
    if generator.random() < 0.15:  # one inside the other
        centers *= 0.15
    X, kind = generator.standard_normal((n, q)), generator.random()
    if kind > 0.35:
        X *= np.exp(generator.normal(0, 0.6, (m, 1 if kind < 0.75 else q)))[part]
    if generator.random() < 0.3 and q > 1:
        X = X @ _mixing(generator, q, -1.5)
    X = centers[part] + X
    if generator.random() < 0.3:
        X = _random_network(generator, _standardised(X), q, depth=1, width=q, sparse=False)[-1]
    return X, parts[part]


def _prototypes(generator: Generator, n: int, q: int, n_classes: int) -> tuple[Array, Array]:
    """Classes of the nearest of some prototypes among few hidden numbers, of which columns are functions."""
    d = int(generator.integers(1, min(6, q) + 1))
    hidden = _hidden_rows(generator, n, d)
    m = int(generator.integers(n_classes, 4 * n_classes + 1))
    prototypes = hidden[generator.integers(n, size=m)]
    own = np.concatenate([np.arange(n_classes), generator.integers(n_classes, size=m - n_classes)])
    y = own[((hidden[:, None] - prototypes[None]) ** 2).sum(axis=-1).argmin(axis=1)]
    direct = d == q and generator.random() < 0.5
    X = hidden if direct else _random_network(generator, hidden, q, width=q)[-1]
    if generator.random() < 0.5:
        X = X + generator.standard_normal(X.shape) * np.exp(generator.uniform(-3, -0.3))
    return X, y


def _nodes(generator: Generator, n: int, q: int, n_classes: int) -> tuple[Array, Array]:
    """Columns and scores of classes are nodes of one random network, causes or effects of each other."""
    hidden = _hidden_rows(generator, n, int(generator.integers(1, max(2, q) + 2)))
    depth, width = int(generator.integers(2, 4)), int(generator.integers(max(4, q), 2 * q + 5))
    nodes = np.concatenate(_random_network(generator, hidden, q, depth=depth, width=width), axis=1)
    n_scores = 1 if n_classes == 2 or generator.random() < 0.3 else n_classes
    missing = q + n_scores - nodes.shape[1]
    if missing > 0:
        nodes = np.concatenate([nodes, generator.standard_normal((n, missing))], axis=1)
    chosen = generator.permutation(nodes.shape[1])
    scores = nodes[:, chosen[:n_scores]]
    if generator.random() < 0.5:
        scores = scores + generator.standard_normal(scores.shape) * np.exp(generator.uniform(-3, -0.3))
    return nodes[:, chosen[n_scores : n_scores + q]], _classes_of(generator, scores, n_classes)


def _functions(generator: Generator, n: int, q: int, n_classes: int) -> tuple[Array, Array]:
    """Scores of classes are functions of the columns."""
    X = _hidden_rows(generator, n, q)
    if generator.random() < 0.45:
        X = _in_steps(generator, X)
    kind, k = generator.random(), 1 if n_classes == 2 or generator.random() < 0.25 else n_classes
    weighted = X * np.exp(generator.normal(0, 0.8, q))
    if kind < 0.3:
        scores = weighted @ generator.standard_normal((q, k)) / q**0.5
    elif kind < 0.5:
        last = _random_network(generator, _standardised(X), q)[-1]
        scores = last @ generator.standard_normal((last.shape[1], k)) / last.shape[1] ** 0.5
    elif kind < 0.58:
        scores = np.stack([_quadratic(generator, weighted) for _ in range(k)], axis=1)
    elif kind < 0.92:
        n_trees = int(generator.integers(1, 6))
        scores = sum((_tree(generator, X, int(generator.integers(2, 7)), k) for _ in range(n_trees)), np.zeros((n, k)))
    else:
        scores = sum((_rule(generator, X, k) for _ in range(int(generator.integers(2, 9)))), np.zeros((n, k)))
    if generator.random() < 0.6:
        scores = scores + scores.std() * generator.standard_normal(scores.shape) * np.exp(generator.uniform(-3, -0.3))
    return X, _classes_of(generator, scores, n_classes)


def _quadratic(generator: Generator, X: Array) -> Array:  # (n,)
    q = X.shape[1]
    own = np.diag(2 * generator.standard_normal(q)) * generator.integers(2)
    values: Array = ((X @ (generator.standard_normal((q, q)) + own)) * X).sum(axis=1)
    return values


def _tree(generator: Generator, X: Array, depth: int, k: int) -> Array:  # (n, k)
    """Return a random function that is constant in the leaves of a tree, with thresholds where rows are."""
    n, p = X.shape
    leaf = np.zeros(n, dtype=np.int64)
    shares = generator.dirichlet(np.ones(p) * np.exp(generator.uniform(-1.5, 1)))
    for _ in range(depth):
        if generator.random() < 0.5:  # one threshold for the whole level
            column = generator.choice(p, p=shares)
            leaf = 2 * leaf + (X[:, column] > X[generator.integers(n), column])
        else:
            leaf = np.unique(leaf, return_inverse=True)[1]
            columns = generator.choice(p, leaf.max() + 1, p=shares)
            thresholds = X[generator.integers(n, size=len(columns)), columns]
            leaf = 2 * leaf + (X[np.arange(n), columns[leaf]] > thresholds[leaf])
    leaf = np.unique(leaf, return_inverse=True)[1]
    return generator.standard_normal((leaf.max() + 1, k))[leaf]


def _rule(generator: Generator, X: Array, k: int) -> Array:  # (n, k)
    """Return scores of rows that fulfil some conditions at once."""
    width = int(generator.integers(1, min(4, X.shape[1]) + 1))
    columns = generator.choice(X.shape[1], width, replace=False)
    limits, at_least = X[generator.integers(len(X)), columns], generator.random(width) < 0.5
    holds = np.where(at_least, X[:, columns] >= limits, X[:, columns] <= limits).all(axis=1)
    return holds[:, None] * generator.standard_normal((1, k)) * 2


def _classes_of(generator: Generator, scores: Array, n_classes: int) -> Array:  # (n,)
    """Return classes of scores (n, k): of one by thresholds at random shares, of several by the largest."""
    if scores.shape[1] > 1:
        scores = _standardised(scores)
        return (scores + generator.standard_normal(n_classes) * np.exp(generator.uniform(-3, 0.5))).argmax(axis=1)
    score = scores[:, 0] + 1e-6 * generator.standard_normal(len(scores))
    if n_classes == 2:
        shares = [generator.uniform(0.35, 0.65) if generator.random() < 0.5 else generator.uniform(0.03, 0.97)]
        if generator.random() < 0.15:  # the second class lies between
            low = generator.uniform(0.05, 0.5)
            shares = [low, min(0.97, low + generator.uniform(0.2, 0.6))]
        place = np.searchsorted(np.quantile(score, shares), score)
        return (place == 1).astype(np.int64)
    weights = generator.dirichlet(np.ones(n_classes) * np.exp(generator.uniform(0, 3)))
    limits = np.quantile(score, np.cumsum(0.9 * weights + 0.1 / n_classes)[:-1])
    place = np.searchsorted(limits, score)
    return generator.permutation(n_classes)[place] if generator.random() < 0.7 else place


def _hidden_rows(generator: Generator, n: int, d: int) -> Array:  # (n, d)
    """Return normal, uniform, clustered or heavy-tailed rows, their columns independent or not."""
    kind = generator.random()
    if kind < 0.35:
        rows = generator.standard_normal((n, d))
    elif kind < 0.5:
        rows = generator.uniform(-1.7, 1.7, (n, d))
    elif kind < 0.85:
        m = int(generator.integers(2, 10))
        centers = generator.standard_normal((m, d)) * np.exp(generator.uniform(-0.5, 1))
        shares = generator.dirichlet(np.ones(m) * np.exp(generator.uniform(-0.5, 2)))
        spreads = np.exp(generator.normal(-0.3, 0.5, (m, 1 if generator.random() < 0.5 else d)))
        part = generator.choice(m, n, p=shares)
        rows = centers[part] + generator.standard_normal((n, d)) * spreads[part]
    else:
        rows = generator.standard_t(3, (n, d))
    if d > 1 and generator.random() < 0.5:
        rows = rows @ _mixing(generator, d, -2)
    return _standardised(rows)


def _mixing(generator: Generator, d: int, weakest: float) -> Array:  # (d, d)
    return np.eye(d) + generator.standard_normal((d, d)) * np.exp(generator.uniform(weakest, 0.3)) / d**0.5


def _random_network(
    generator: Generator, rows: Array, q: int, depth: int | None = None, width: int | None = None, sparse: bool = True
) -> list[Array]:
    """Return the rows, and the nodes of each layer of a random network on them."""
    depth = int(generator.integers(1, 4)) if depth is None else depth
    width = int(generator.integers(max(3, q // 2), max(6, 2 * q) + 1)) if width is None else width
    activation, nodes = _ACTIVATIONS[generator.integers(len(_ACTIVATIONS))], [rows]
    for _ in range(depth):
        n_inputs = nodes[-1].shape[1]
        weights = generator.standard_normal((n_inputs, width)) / n_inputs**0.5 * np.exp(generator.uniform(-0.3, 1))
        if sparse and generator.random() < 0.6:
            weights = weights * (generator.random(weights.shape) < generator.uniform(0.15, 0.8)) * 1.5
        layer = activation(nodes[-1] @ weights + generator.standard_normal(width) * 0.7)
        if generator.random() < 0.3:
            layer = layer + generator.standard_normal(layer.shape) * np.exp(generator.uniform(-3, -0.7))
        nodes.append(_standardised(layer))
        if generator.random() < 0.3:
            activation = _ACTIVATIONS[generator.integers(len(_ACTIVATIONS))]
    return nodes


def _in_steps(generator: Generator, X: Array) -> Array:  # (n, p)
    """Return columns of which some, or all, have few values."""
    X, all_of_them = _standardised(X), generator.random() < 0.4
    for j in range(X.shape[1]):
        if all_of_them or generator.random() < 0.5:
            count = 2 if generator.random() < 0.6 else int(generator.integers(3, 8))
            limits = np.quantile(X[:, j], np.sort(generator.uniform(0.02, 0.98, count - 1)))
            X[:, j] = np.searchsorted(limits, X[:, j])
    return X


def _measured(generator: Generator, X: Array) -> Array:  # (n, p)
    """Return what measurement makes of columns: skew, steps, ceilings, names one-hot; in any order."""
    X, p = _standardised(X), X.shape[1]
    if generator.random() < 0.35:
        return X[:, generator.permutation(p)]
    for j in range(p):
        kind, x = generator.random(), X[:, j]
        if kind < 0.15:
            X[:, j] = np.exp(np.clip(x * generator.uniform(0.3, 1.5), -6, 6))
        elif kind < 0.25:
            X[:, j] = np.sign(x) * np.abs(x) ** generator.uniform(0.3, 2.5)
        elif kind < 0.4:
            X[:, j] = np.round(x * generator.uniform(0.4, 3))
        elif kind < 0.5:
            X[:, j] = np.clip(x, *np.quantile(x, [generator.uniform(0, 0.4), generator.uniform(0.6, 1)]))
        elif kind < 0.6:
            X[:, j] = x > np.quantile(x, generator.uniform(0.05, 0.95))
    if p > 3 and generator.random() < 0.25:
        _name_columns(generator, X)
    return X[:, generator.permutation(p)]


def _name_columns(generator: Generator, X: Array) -> None:
    """Make groups of columns the one-hot names of their first."""
    j, p = 0, X.shape[1]
    while j < p - 1:
        width = 1
        if generator.random() < 0.5:
            width = int(generator.integers(2, min(6, p - j) + 1))
            limits = np.quantile(X[:, j], np.sort(generator.uniform(0, 1, width - 1)))
            names = generator.permutation(width)[np.searchsorted(limits, X[:, j])]
            X[:, j : j + width] = names[:, None] == np.arange(width)
        j += width


def _standardised(x: Array) -> Array:
    found: Array = (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-6)
    return found


KINDS: dict[str, Callable[[Generator, int, int, int], tuple[Array, Array]]] = {
    "clusters": _clusters,
    "prototypes": _prototypes,
    "network nodes": _nodes,
    "functions": _functions,
}
