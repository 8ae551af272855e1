"""The scripts of benchmarks/: what they import is there; their measurements are too long for a test."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"


def test_every_script_finds_what_it_imports():
    names = sorted(path.stem for path in FOLDER.glob("*.py"))
    code = f"import importlib\nfor name in {names!r}: importlib.import_module(name)"
    environment = os.environ | {"PYTHONPATH": str(FOLDER)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("kind", ["clusters", "prototypes", "network nodes", "functions"])
def test_random_tables_are_of_the_shape_asked_for_and_the_same_again(monkeypatch, kind, n_classes):
    monkeypatch.syspath_prepend(FOLDER)
    from random_tables import KINDS, random_table

    assert kind in KINDS
    for p in (1, 2, 7, 30):
        for seed in range(5):
            with np.errstate(all="ignore"):
                (X, y), (again, classes) = (
                    random_table(np.random.default_rng(seed), 150, p, n_classes, kind) for _ in range(2)
                )
            assert X.shape == (150, p)
            assert np.isfinite(X).all()
            assert set(np.unique(y)) <= set(range(n_classes))
            np.testing.assert_array_equal(again, X)
            np.testing.assert_array_equal(classes, y)
