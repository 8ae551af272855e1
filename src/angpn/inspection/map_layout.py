"""Two-dimensional layout of rows for the map of the report."""

import numpy as np
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

from angpn.inspection.tsne import tsne

N_LANDMARKS = 3000  # the time of t-SNE grows with their square: two seconds


def map_layout(
    embedding: np.ndarray,  # (n, d)
    random_state: int = 0,
) -> np.ndarray:  # (n, 2)
    """Compute positions in the plane by t-SNE; neighbours stay close, distances between clusters mean little.

    Beyond 3,000 rows, t-SNE runs on a random sample of landmark rows. Every other row is placed at the weighted mean of
    its three nearest landmarks, with a little noise so that rows do not cover each other.

    Args:
        embedding: Features of the rows, such as ``ANGPNClassifier.embedding_``; rows are compared by angle.
        random_state: Seed of the sample, of t-SNE and of the noise.

    Returns:
        The position of each row.
    """
    rows = normalize(embedding)
    generator = np.random.default_rng(random_state)
    n = len(rows)
    if np.ptp(rows, axis=0).max() == 0:  # all rows are equal, and t-SNE would divide by their variance
        return generator.normal(size=(n, 2)).astype(rows.dtype)
    landmarks = np.sort(generator.permutation(n)[:N_LANDMARKS])
    perplexity = min(30.0, max(1.0, (len(landmarks) - 1) / 3))
    landmark_positions = tsne(rows[landmarks], perplexity=perplexity, random_state=random_state)
    positions = np.empty((n, 2), dtype=landmark_positions.dtype)
    positions[landmarks] = landmark_positions
    rest = np.setdiff1d(np.arange(n), landmarks)
    if len(rest):
        search = NearestNeighbors(n_neighbors=min(3, len(landmarks))).fit(rows[landmarks])
        distances, nearest = search.kneighbors(rows[rest])
        weights = 1 / (distances + 1e-6)
        weights /= weights.sum(axis=1, keepdims=True)
        positions[rest] = (weights[:, :, None] * landmark_positions[nearest]).sum(axis=1)
        positions[rest] += generator.normal(0, 0.01 * np.ptp(landmark_positions, axis=0).mean(), (len(rest), 2))
    return positions
