"""How an input was read: separator and encoding, what texts were taken for, what was filled, and what to look at."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from angpn.features import TableEncoder
from angpn.features.table import Imputed
from angpn.labelling.encoders import ArrayEncoder, Encoder
from angpn.labelling.input_rows import Rows
from angpn.labelling.joint_encoder import JointEncoder, blocks_of
from angpn.utils.typing import Array

_MOST_SHOWN = 10  # columns in a line
_REMARKS = "look at"
_KINDS = ("numbers", "categories", "booleans", "dates")


class ReadingFacts(NamedTuple):
    """How an input was read.

    Attributes:
        columns: The names of the columns of a table by what they hold.
        notes: What is said of the file, and examples of texts that were read as numbers, dates or truth values.
        imputed: Missing cells that were filled.
        n_empty: How many rows are empty, None where that is not known yet.
        remarks: Columns that the user should look at; they are warnings of the fit.
    """

    columns: dict[str, list[str]]
    notes: list[str]
    imputed: list[Imputed]
    n_empty: int | None
    remarks: list[str]

    def as_json(self) -> dict[str, Any]:
        """Return the facts for ``--json``."""
        imputed = [
            {"column": f.column, "cells": f.n_cells, "first_row": f.first_row, "value": f.value} for f in self.imputed
        ]
        return {**self.columns, "read": self.notes, "imputed": imputed, "empty": self.n_empty, "warnings": self.remarks}

    def lines(self, *, with_columns: bool = False) -> list[str]:
        """Return the facts for the terminal; warnings have been shown there."""
        columns = [f"{kind}: {', '.join(self.columns[kind])}" for kind in _KINDS if kind in self.columns]
        facts = [f"{title}: {text}" for title, text in self.pairs() if title != _REMARKS]
        return [*columns, *facts] if with_columns else facts

    def pairs(self) -> list[tuple[str, str]]:
        """Return the facts for the table of a report."""
        parts = {
            "read as": self.notes,
            "filled": list(map(str, self.imputed)),
            "empty": self._empty(),
            _REMARKS: self.remarks,
        }
        return [(title, _joined(texts)) for title, texts in parts.items() if texts]

    def _empty(self) -> list[str]:
        return (
            [f"{self.n_empty:,} row{'' if self.n_empty == 1 else 's'} without anything to go by"]
            if self.n_empty
            else []
        )


def _joined(texts: Sequence[str]) -> str:
    more = f"; and {len(texts) - _MOST_SHOWN} more" if len(texts) > _MOST_SHOWN else ""
    return "; ".join(texts[:_MOST_SHOWN]) + more


def reading_facts(
    rows: Rows,
    encoder: Encoder | None,
    empty: Array | None = None,  # (n,) bool
) -> ReadingFacts:
    """Return how the rows were read, and by the encoder that was fitted to them or has encoded them, if one has.

    Args:
        rows: The rows.
        encoder: Their encoder.
        empty: Which rows are empty, if that is known.

    Returns:
        The facts.
    """
    notes = list(rows.notes)
    if isinstance(encoder, JointEncoder):
        notes.append(encoder.describe())
    n_empty = None if empty is None else int(empty.sum())
    tables = [] if encoder is None else [block.encoder for block in blocks_of(encoder)]
    table = next((one for one in tables if isinstance(one, TableEncoder)), None)
    if table is not None:
        notes += map(str, table.readings_)
        return ReadingFacts(table.describe(), notes, table.imputed_, n_empty, table.remarks_)
    return ReadingFacts({}, notes, encoder.imputed_ if isinstance(encoder, ArrayEncoder) else [], n_empty, [])
