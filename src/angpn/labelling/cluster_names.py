"""Names of clusters: the words or columns that tell a cluster from the other rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
from scipy.special import xlogy

from angpn.features import TableEncoder
from angpn.features.table import FeatureColumn
from angpn.labelling.encoders import Encoder, TextEncoder
from angpn.labelling.joint_encoder import blocks_of, columns_of
from angpn.utils.typing import Array

_PARTS = 3  # words or columns in a name
_LEAST_SCORE = 6.63  # the 1 % point of chi-squared with one degree of freedom: chance alone rarely exceeds it


def can_name_clusters(encoder: Encoder) -> bool:
    """Whether an encoder has words or columns to name clusters by."""
    return any(isinstance(part.encoder, TextEncoder | TableEncoder) for part in blocks_of(encoder))


def cluster_names(
    encoder: Encoder,
    features: Any,  # (n, d) dense or CSR
    labels: Array,  # (n,)
    examples: Sequence[str],  # (c,)
) -> list[str]:  # (c,)
    """Name each cluster by what is telling of it: words of texts, columns of a table, or else a typical row.

    Args:
        encoder: The fitted encoder of the rows.
        features: What it returned.
        labels: The cluster of each row, from 0.
        examples: The id of the most typical row of each cluster.

    Returns:
        The names; two clusters may have the same.
    """
    names = []
    for cluster, example in enumerate(examples):
        members = labels == cluster
        parts: list[str] = []
        for block in blocks_of(encoder):
            columns = columns_of(encoder, block, features)
            if isinstance(block.encoder, TextEncoder):
                parts += telling_words(columns, members, block.encoder.vocabulary)
            elif isinstance(block.encoder, TableEncoder):
                parts += telling_columns(columns, members, block.encoder.feature_columns)
        names.append(", ".join(parts) or f"like {example}")
    return names


def telling_words(
    features: Any,  # (n, d) CSR
    members: Array,  # (n,) bool
    vocabulary: Sequence[str],  # (d,)
) -> list[str]:
    """Return the words that are in more texts of the cluster than chance explains, the clearest first."""
    present = scipy.sparse.csr_array(features > 0, dtype=np.int64)
    inside = present[np.flatnonzero(members)].sum(axis=0)
    scores = presence_scores(inside, present.sum(axis=0), int(members.sum()), len(members))
    return [vocabulary[word] for word in _highest(scores)[:_PARTS]]


def telling_columns(
    features: Array,  # (n, d)
    members: Array,  # (n,) bool
    columns: Sequence[FeatureColumn],  # (d,)
) -> list[str]:
    """Return in words which columns differ most in the cluster: "price high", or "brand = acme".

    Args:
        features: Standardised numbers and one-hot categories.
        members: Which rows are in the cluster.
        columns: What each feature stands for.
    """
    scores = _column_scores(features, members, columns)
    parts: dict[str, str] = {}  # one for each column
    for feature in _highest(np.abs(scores)):
        name, category, part = columns[feature]
        side = f"{f'{part} ' if part else ''}{'high' if scores[feature] > 0 else 'low'}"
        parts.setdefault(name, f"{name} {side}" if category is None else f"{name} = {category}")
    return list(parts.values())[:_PARTS]


def order_columns(
    features: Array,  # (n, d)
    labels: Array,  # (n,)
    columns: Sequence[FeatureColumn],  # (d,)
) -> list[str]:
    """Return the names of the columns, those first that are most telling of any cluster."""
    scores = [np.abs(_column_scores(features, labels == cluster, columns)) for cluster in np.unique(labels)]
    order = np.argsort(-np.max(scores, axis=0), kind="stable")
    return list(dict.fromkeys(columns[feature].name for feature in order))


def _column_scores(features: Array, members: Array, columns: Sequence[FeatureColumn]) -> Array:  # (d,)
    """Return the score of each feature: of a mean with its sign, or of the presence of a category."""
    is_number = np.array([column.category is None for column in columns])
    inside, total = (np.where(is_number, 0, rows.sum(axis=0)) for rows in (features[members], features))
    present = presence_scores(inside, total, int(members.sum()), len(members))
    return np.where(is_number, mean_scores(features, members), present)


def presence_scores(
    inside: Array,  # (d,)
    total: Array,  # (d,)
    n_members: int,
    n_rows: int,
) -> Array:  # (d,)
    r"""Return how clearly each feature is present more often inside a cluster than elsewhere.

    The log-likelihood ratio of Dunning (1993) of its 2 x 2 table of counts, with what independence expects,

    .. math:: 2 \sum_{ij} O_{ij} \ln (O_{ij} / E_{ij}),

    and 0 where the feature is rarer inside. It holds for rare words too, for which chi-squared is too large.

    Args:
        inside: In how many rows of the cluster each feature is present.
        total: In how many rows altogether.
        n_members: How many rows the cluster has.
        n_rows: How many there are.
    """
    inside, total = np.asarray(inside, dtype=np.float64), np.asarray(total, dtype=np.float64)
    share = n_members / n_rows
    cells = (
        (inside, total * share),
        (total - inside, total * (1 - share)),
        (n_members - inside, (n_rows - total) * share),
        (n_rows - n_members - total + inside, (n_rows - total) * (1 - share)),
    )
    score = 2 * sum(xlogy(observed, observed) - xlogy(observed, expected) for observed, expected in cells)
    return np.where(inside > total * share, score, 0)


def mean_scores(
    features: Array,  # (n, d)
    members: Array,  # (n,) bool
) -> Array:  # (d,)
    r"""Return how clearly the mean of each feature differs inside a cluster, with the sign of the difference.

    The log-likelihood ratio of two normal distributions with one variance to a single one, :math:`-n \ln (1 - r^2)`
    with the correlation :math:`r` of the feature and membership; so it compares with :func:`presence_scores`.
    """
    centred = features - features.mean(axis=0, dtype=np.float64)
    membership = members - members.mean()
    spread = np.sqrt((centred**2).sum(axis=0) * (membership**2).sum())
    correlation = (membership @ centred) / np.where(spread > 0, spread, 1)
    return -np.sign(correlation) * len(members) * np.log1p(-np.minimum(correlation**2, 1 - 1e-12))


def _highest(scores: Array) -> list[int]:
    """Return the features whose score is more than chance, the highest first."""
    order = np.argsort(-scores, kind="stable")
    return order[scores[order] > _LEAST_SCORE].tolist()
