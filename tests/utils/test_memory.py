"""What a fit says of its memory, and whether it is true."""

import subprocess
import sys

import numpy as np
import pytest

from angpn import ANGPNClassifier, ANGPNNetworkClassifier
from angpn.estimators import memory_estimate
from angpn.utils import memory
from angpn.utils.inputs import prepared_rows


def rows(n=400):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n, 8)).astype(np.float32)
    return X, np.where(np.arange(n) % 10 == 0, (X[:, 0] > 0).astype(int), -1)


@pytest.mark.parametrize(
    ("model", "count"), [(ANGPNClassifier(), 60), (ANGPNNetworkClassifier(hidden_layer_sizes=(8,)), 80)]
)
def test_what_will_not_fit_is_refused_before_any_work(monkeypatch, model, count):
    X, y = rows()
    monkeypatch.setattr(memory_estimate, "available_bytes", lambda: 1000)
    monkeypatch.setattr(memory_estimate, "resident_bytes", lambda: 0)
    monkeypatch.setattr("angpn.estimators.auto.fit_ensemble", None)
    monkeypatch.setattr("angpn.estimators.network.fit_network", None)
    with pytest.raises(
        MemoryError, match=rf"400 rows needs about 0.4 GB, got 0.0 GB free; lower n_candidates \(now {count}\)"
    ):
        model.fit(X, y)
    assert not hasattr(model, "classes_")


def test_much_memory_is_reported_before_it_is_taken(monkeypatch, capsys):
    X, y = rows()
    monkeypatch.setattr(memory_estimate, "_WORTH_SAYING", 0)
    ANGPNClassifier(verbose=True, random_state=0, metric="chord").fit(X, y)
    assert "this takes about 0.4 GB of " in capsys.readouterr().err


@pytest.mark.skipif(memory.peak_bytes() is None, reason="the system does not tell")
@pytest.mark.parametrize("model", ["ANGPNClassifier()", "ANGPNNetworkClassifier(max_iter=5)"])
@pytest.mark.slow
def test_the_estimate_is_near_the_peak(model):
    code = f"""
import warnings
import numpy as np
from angpn import ANGPNClassifier, ANGPNNetworkClassifier
from angpn.utils import memory
warnings.simplefilter("ignore")
model, estimates = {model}, []
estimate = model._needed_bytes
model._needed_bytes = lambda task: estimates.append(estimate(task)) or estimates[-1]
generator = np.random.default_rng(0)
X = generator.normal(size=(15000, 64)).astype(np.float32)
y = np.where(np.arange(15000) % 100 == 0, (X[:, 0] > 0).astype(int), -1)
model.set_params(random_state=0, metric="chord").fit(X, y)
print(estimates[0], memory.peak_bytes())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    estimated, peak = map(int, done.stdout.split())
    assert 0.5 < estimated / peak < 2


def test_rows_mapped_from_a_file_are_taken_as_they_are(tmp_path):
    X, y = rows()
    np.save(tmp_path / "rows.npy", X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert np.shares_memory(prepared_rows(np.asarray(mapped), False), mapped)
    assert not np.shares_memory(prepared_rows(np.load(tmp_path / "rows.npy", mmap_mode="c"), False), mapped)
    assert not np.shares_memory(prepared_rows(X, False), X)
    for options in ({}, {"metric": "euclidean", "scaling": "none"}):
        one, other = (ANGPNClassifier(random_state=0, **options).fit(part, y) for part in (X, mapped))
        np.testing.assert_array_equal(one.label_distributions_, other.label_distributions_)


def test_what_a_container_leaves_counts(monkeypatch, tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal: 9000 kB\nMemAvailable:    5000 kB\n")
    monkeypatch.setattr(memory, "_MACHINE", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_GROUP", tmp_path)
    assert memory.available_bytes() == 5000 * 1024
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("1000\n")
    assert memory.available_bytes() == 5000 * 1024
    (tmp_path / "memory.max").write_text("3000\n")
    assert memory.available_bytes() == 2000
