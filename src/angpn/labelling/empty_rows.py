"""Rows without anything to label by: no known word, no cell with a value, or zeros alone. They get the class prior."""

from typing import Any

import numpy as np
import scipy.sparse

from angpn.estimators.suggestion import Suggestion
from angpn.features import TableEncoder
from angpn.labelling.encoders import ArrayEncoder, Encoder
from angpn.labelling.joint_encoder import JointEncoder, blocks_of, columns_of
from angpn.utils.powers_of_two import largest_entries
from angpn.utils.typing import Array

EMPTY = "empty"  # the source of their labels


def find_empty(
    encoder: Encoder,
    features: Any,  # (n, d) dense or CSR
) -> Array:  # (n,) bool
    """Tell which of the rows that were encoded last are empty.

    A row of a table is empty if no cell has a value, whatever its features are: they are medians then. Of an array also
    a row of zeros is, and of texts one without a known word; of several blocks a row that is empty in all.

    Args:
        encoder: The encoder.
        features: What it returned.

    Returns:
        Whether each row is empty.
    """
    if isinstance(encoder, JointEncoder):
        parts = [find_empty(block.encoder, columns_of(encoder, block, features)) for block in blocks_of(encoder)]
        return np.logical_and.reduce(parts)
    found: Array
    if isinstance(encoder, TableEncoder):
        found = np.zeros(features.shape[0], dtype=bool)
    elif scipy.sparse.issparse(features):
        found = largest_entries(features, axis=1) == 0
    else:
        found = np.logical_not(np.asarray(features).any(axis=1))
    if isinstance(encoder, TableEncoder | ArrayEncoder):
        found[encoder.empty_rows_] = True
    return found


def without_empty(
    suggestions: list[Suggestion],
    empty: Array,  # (n,) bool
) -> list[Suggestion]:
    """Return the suggestions of rows that are not empty.

    Args:
        suggestions: Rows to label; since of equal rows one is suggested, at most one of them is empty.
        empty: Which rows are empty.

    Returns:
        The others.
    """
    return [found for found in suggestions if not empty[found.row]]
