"""Problems with known answers, and transcriptions of the paper in plain numpy, shared by the tests."""

import itertools
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import LinearConstraint, minimize
from torch import Tensor


class Problem(NamedTuple):
    distances: Tensor  # (n, n)
    features: Tensor  # (n, d)


def random_problem(seed: int = 0, n: int = 14, d: int = 3, dtype: torch.dtype = torch.float64) -> Problem:
    """Gaussian rows, and the Euclidean distances between other Gaussian rows."""
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(n, 4, generator=generator, dtype=torch.float64)
    features = torch.randn(n, d, generator=generator, dtype=torch.float64)
    return Problem(torch.cdist(points, points).to(dtype), features.to(dtype))


def awkward_features(dtype: torch.dtype = torch.float32) -> Tensor:
    """Rows sorted by class, with duplicates (more than k), empty rows, and one that shares nothing with any other."""
    generator = torch.Generator().manual_seed(3)
    words = torch.zeros(40, 13)
    words[:14, :6] = torch.rand(14, 6, generator=generator)
    words[14:30, 6:12] = torch.rand(16, 6, generator=generator)
    words[20:27] = words[20]  # seven duplicates
    words[30:39] = 0  # nine empty rows
    words[39, 12] = 1  # alone in its column: equidistant from all
    return words.to(dtype)


def odd_rows(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows with empty ones, duplicates and some orthogonal to all others among them, their labels, and new rows."""
    X = np.zeros((40, 12))
    X[:30, :4] = np.random.default_rng(seed).normal(size=(30, 4))
    X[20:26] = X[0]
    X[30:34, 4:8] = np.eye(4)
    y = np.where(np.arange(40) % 4 == 0, np.arange(40) % 3, -1)
    return X, y, np.vstack([np.zeros(12), X[0], np.eye(12)[10], -X[1]])


def quadratic_program(cost: np.ndarray, gamma: float) -> np.ndarray:
    """min <cost, s> + gamma |s|^2 on the simplex, by scipy's general-purpose solver."""
    size = len(cost)
    solution = minimize(
        lambda s: cost @ s + gamma * s @ s,
        np.full(size, 1 / size),
        jac=lambda s: cost + 2 * gamma * s,
        bounds=[(0, None)] * size,
        constraints=LinearConstraint(np.ones(size), 1, 1),
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    )
    return solution.x


def numpy_gamma(distances: np.ndarray, k: int) -> np.ndarray:
    """Nie's rule, a row at a time."""
    gammas = []
    for i, row in enumerate(distances):
        others = np.sort(np.delete(row, i))
        gammas.append((k * others[k] - others[:k].sum()) / 2)
    return np.array(gammas)


def numpy_graph(distances: np.ndarray, f: np.ndarray, k: int, beta: float, gamma: float, rule: str) -> np.ndarray:
    """Step 1 with loops: Eq. (9) as printed, or the projection found by trying every support size."""
    n = len(distances)
    graph = np.zeros((n, n))
    for i in range(n):
        others = [j for j in range(n) if j != i]
        score = np.array([-(distances[i, j] - beta * f[i] @ f[j]) / (2 * gamma) for j in others])
        if rule == "printed":
            nearest = sorted(distances[i, j] for j in others)[:k]
            shift = 1 / k + sum(nearest) / (2 * k * gamma)
        else:
            ranked = sorted(score, reverse=True)
            sizes = range(1, n)
            shifts = [(1 - sum(ranked[:size])) / size for size in sizes]
            # The optimal support is the largest one whose smallest member stays positive.
            shift = [s for size, s in zip(sizes, shifts, strict=True) if ranked[size - 1] + s > 0][-1]
        graph[i, others] = np.maximum(score + shift, 0)
    return graph


def numpy_algorithm1(
    distances: np.ndarray, h: np.ndarray, k: int, alpha: float, beta: float, gamma: float, steps: int, rule: str
) -> tuple[np.ndarray, np.ndarray]:
    """Algorithm 1, line by line."""
    f = h
    for _ in range(steps):
        s = numpy_graph(distances, f, k, beta, gamma, rule)
        f = (alpha * s + (1 - alpha) * np.eye(len(h))) @ h
    return f, s


def numpy_objective(
    distances: np.ndarray, h: np.ndarray, s: np.ndarray, f: np.ndarray, beta: float, mu: float, gamma: np.ndarray
) -> float:
    """Eq. (5) as the double sum it is written as."""
    n = len(h)
    total = 0.0
    for i, j in itertools.product(range(n), range(n)):
        total += distances[i, j] * s[i, j] + gamma[i] * s[i, j] ** 2 - beta * s[i, j] * f[i] @ f[j]
    for i in range(n):
        total += beta * f[i] @ f[i] + mu * (f[i] - h[i]) @ (f[i] - h[i])
    return total
