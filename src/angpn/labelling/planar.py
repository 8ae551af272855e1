"""Rows in the plane."""

import numpy as np
from sklearn.manifold import TSNE
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

LANDMARKS = 3000  # t-SNE of more would take longer than all the rest


def planar_map(embedding: np.ndarray, random_state: int = 0) -> np.ndarray:  # (n, 2)
    """Rows in the plane by t-SNE: neighbours stay neighbours, distances between groups mean little.

    Of many rows a random part is laid out so, and each other row is put among the three of them nearest to it, a little
    aside, so that rows do not cover each other.
    """
    rows = normalize(embedding)
    generator = np.random.default_rng(random_state)
    n = len(rows)
    if np.ptp(rows, axis=0).max() == 0:  # all rows are alike: there is nothing to lay out
        return generator.normal(size=(n, 2)).astype(rows.dtype)
    chosen = np.sort(generator.permutation(n)[:LANDMARKS])
    perplexity = min(30.0, max(1.0, (len(chosen) - 1) / 3))
    tsne = TSNE(init="pca" if min(rows.shape) > 1 else "random", perplexity=perplexity, random_state=random_state)
    laid = tsne.fit_transform(rows[chosen])
    points = np.empty((n, 2), dtype=laid.dtype)
    points[chosen] = laid
    rest = np.setdiff1d(np.arange(n), chosen)
    if len(rest):
        finder = NearestNeighbors(n_neighbors=min(3, len(chosen))).fit(rows[chosen])
        distances, near = finder.kneighbors(rows[rest])
        weights = 1 / (distances + 1e-6)
        weights /= weights.sum(axis=1, keepdims=True)
        points[rest] = (weights[:, :, None] * laid[near]).sum(axis=1)
        points[rest] += generator.normal(0, 0.01 * np.ptp(laid, axis=0).mean(), (len(rest), 2))
    return points
