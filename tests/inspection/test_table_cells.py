"""Cells for the report."""

import polars
import pytest

from angpn.inspection import table_cells as module
from angpn.inspection.table_cells import table_cells


def test_cells_are_shown_as_they_came():
    frame = polars.DataFrame(
        {"rent": ["1.450,00 €", None], "size": [48.123456789, 1e9], "long": ["x" * 100, ""], "list": [[1], [2]]}
    )
    found = table_cells(frame)
    assert found.columns == ["rent", "size", "long"]
    assert found.values == [("1.450,00 €", "48.1235", "x" * 59 + "…"), ("", "1e+09", "")]
    assert found.n_left_out == 1


@pytest.mark.parametrize(("most", "shown"), [(4, 2), (3, 1), (1, 0)])
def test_a_page_holds_so_many_cells_at_most(monkeypatch, most, shown):
    monkeypatch.setattr(module, "_MAX_CELLS", most)
    found = table_cells(polars.DataFrame({"a": [1, 2], "b": [3, 4], "c": [5, 6]}))
    assert (0 if found is None else len(found.columns)) == shown
