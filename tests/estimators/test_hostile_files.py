"""Model files that were made to do harm, or changed at random, under a digest that is right.

Each is refused in one line that names it, or gives a model whose predictions are probabilities; and it takes no more
memory than a small multiple of its size.
"""

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose

from angpn import ANGPNClassifier, ANGPNNetworkClassifier, EnsembleConfig
from saved_files import mutations, read_saved, write_saved

pytestmark = pytest.mark.filterwarnings("ignore:training did not settle")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Small models of all kinds: dense and sparse, with kernels and label spreading, with all kinds of labels."""
    folder, generator = tmp_path_factory.mktemp("models"), np.random.default_rng(0)
    X = generator.normal(size=(40, 5)) + 3 * np.eye(5)[np.arange(40) % 3]
    y = np.where(np.arange(40) < 21, np.arange(40) % 3, -1)
    sparse = scipy.sparse.csr_array(np.where(np.abs(X) < 0.5, 0, X))
    names = np.array([None if code < 0 else "abc"[code] for code in y], dtype=object)
    dates = np.where(y < 0, np.datetime64("NaT"), np.datetime64("2026-01-01") + y)
    kernels = EnsembleConfig(hops=((0.5, 2),), first_heads=((1.0, 100.0),), more_heads=())
    network = {"max_iter": 3, "n_neighbors": 4, "random_state": 0, "hidden_layer_sizes": (4, 3)}
    fits = {
        "network": (ANGPNNetworkClassifier(**network, class_weight={0: 1.0, 1: 2.0, 2: 1.0}, tol=-np.inf), X, y),
        "sparse_network": (ANGPNNetworkClassifier(**network, num_steps=None), sparse, dates),
        "ensemble": (ANGPNClassifier(n_neighbors=4, max_rounds=1, random_state=0, config=kernels), X, names),
        "sparse_ensemble": (ANGPNClassifier(n_neighbors=4, max_rounds=1, random_state=0), sparse, y),
    }
    for name, (model, rows, labels) in fits.items():
        model.fit(rows, labels).save(folder / name)
    return folder


def put(*place, value):
    """Return a change that puts a value somewhere into the header."""

    def change(saved):
        part = saved.header
        for key in place[:-1]:
            part = part[key]
        part[place[-1]] = value

    return change


def fill(name, value):
    """Return a change that puts a value into the first entry of the first array whose name ends so."""

    def change(saved):
        array = next(array for found, array in sorted(saved.arrays.items()) if found.endswith(name))
        array.reshape(-1)[0] = value

    return change


def drop(name):
    return lambda saved: saved.arrays.pop(name)


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("network", put("network", "hidden_channels", value=[30_000, 30_000]), "'convs.0.weight' is float64 of shape"),
        ("network", put("network", "hidden_channels", value=[4, 3, 2**40]), "'convs.2.weight' is missing"),
        ("network", put("network", "hidden_channels", value=[]), "length >= 1 - at `$.network.hidden_channels`"),
        ("network", put("network", "in_channels", value=4), "not one from 5 features to 3 classes"),
        ("network", put("network", "num_steps", value=10**9), "Expected `int` <= 100 - at `$.network.num_steps`"),
        ("network", put("network", "n_neighbors", value=39), "rows have 4 neighbours, and in the graph 39"),
        (
            "network",
            lambda saved: (saved.header["network"].update(n_neighbors=39), saved.header.update(n_neighbors=39)),
            "n_neighbors=39 needs at least 41 samples",
        ),
        (
            "ensemble",
            put("metric", value="sqeuclidean"),
            "the metric is 'sqeuclidean', and that of the scaling 'euclidean'",
        ),
        ("network", put("network", "gamma", value=0), "at `$.network.gamma`"),
        ("network", put("network", "rule", value="knn"), "rule='knn' is a fixed graph"),
        ("network", put("unit_rows", value="yes"), "Expected `bool`, got `str` - at `$.unit_rows`"),
        ("network", fill("network.convs.0.weight", np.nan), "'convs.0.weight' has values from nan to nan"),
        ("network", drop("network.perceptron.weight"), "'perceptron.weight' is missing"),
        ("network", lambda saved: saved.header.update(estimator="SVC"), "Invalid value 'SVC' - at `$.estimator`"),
        ("network", lambda saved: saved.header.update(estimator="ANGPNClassifier"), "at `$"),
        (
            "ensemble",
            put("ensemble", "temperature", value=0),
            "Expected `float` >= 1e-09 - at `$.ensemble.temperature`",
        ),
        ("ensemble", put("ensemble", "options", value=[4, 0.1, "auto", "simplex"]), "at `$.ensemble.options`"),
        (
            "ensemble",
            put("ensemble", "options", 0, value="4"),
            "Expected `int`, got `str` - at `$.ensemble.options[0]`",
        ),
        ("ensemble", put("ensemble", "learners", value=[]), "length >= 1 - at `$.ensemble.learners`"),
        (
            "ensemble",
            put("ensemble", "learners", 0, "parameters", value=[0.5, 10**9, 1.0, 1.0]),
            "`$.ensemble.learners",
        ),
        ("ensemble", put("ensemble", "learners", 0, "kind", value="pickle"), "Invalid value 'pickle'"),
        ("ensemble", fill("ensemble.shift", np.nan), "'shift' has values from nan to nan"),
        ("ensemble", fill(".weight", np.inf), "'weight' has values from"),
        ("ensemble", fill(".centers", np.nan), "'centers' has values from nan"),
        ("ensemble", drop("ensemble.shift"), "'shift' is missing"),
        ("ensemble", put("seed", value="1"), "Expected `int`, got `str` - at `$.seed`"),
        ("ensemble", put("seed", value=-1), "Expected `int` >= 0 - at `$.seed`"),
        ("ensemble", put("shape", value=[40, 2**70]), "at `$.shape[1]`"),
        ("ensemble", put("best_iter", value=9), "the best of 2 rounds or epochs is number 9"),
        ("ensemble", put("classes", "values", value=["a", "a", "b"]), "two or more classes in ascending order"),
        ("ensemble", put("feature_names", value=["a"]), "5 features have 1 names"),
        ("ensemble", put("parameters", "recall", value=0), "at `$.parameters.recall`"),
        ("ensemble", put("parameters", "nonsense", value=1), "unknown field `nonsense` - at `$.parameters`"),
        ("ensemble", put("parameters", "config", "n_centers", value="many"), "at `$.parameters.config.n_centers`"),
        ("ensemble", put("parameters", "config", "secret", value=1), "unknown field `secret`"),
        ("ensemble", fill("candidates", 40), "'candidates' has values from 0 to 40, not all in [0, 39]"),
        ("ensemble", fill("candidates", 0), "a row must not be its own candidate"),
        ("ensemble", fill("distances", -1.0), "'distances' has values from -1"),
        ("ensemble", fill("codes", 3), "'codes' has values from -1 to 3"),
        ("ensemble", fill("label_distributions", 0.999), "rows of 'label_distributions' sum to"),
        ("ensemble", fill("validation_distributions", 0.999), "rows of 'validation_distributions' sum to"),
        ("network", fill("validation_distributions", np.nan), "'validation_distributions' has values from nan"),
        ("ensemble", fill("validation_codes", 3), "'validation_codes' has values from 0 to 3"),
        (
            "ensemble",
            lambda saved: saved.arrays.update(codes=saved.arrays["codes"][:5]),
            "'codes' is int64 of shape (5,)",
        ),
        ("ensemble", drop("distances"), "the array 'distances' is missing"),
        ("ensemble", lambda saved: saved.arrays.update({"ensemble.9.weight": np.zeros(2)}), "there are arrays of '9'"),
        ("ensemble", lambda saved: saved.arrays.update({"network.w": np.zeros(2)}), "belong to the other estimator"),
        ("sparse_ensemble", put("shape", value=[10**9, 5]), "'codes' is int64 of shape (40,)"),
        ("sparse_ensemble", fill("features.indices", 5), "'indices' has values from 0 to 5, not all in [0, 4]"),
        (
            "sparse_ensemble",
            lambda saved: saved.arrays["features.indptr"].__setitem__(3, 0),
            "indptr must be a non-decreasing sequence",
        ),
        ("sparse_network", put("classes", "unit", value="parsec"), "at `$.classes.unit`"),
        ("sparse_network", put("classes", value={"kind": "text"}), "'classes' is int64 of shape (3,) and not uint32"),
    ],
)
def test_a_file_made_to_look_whole_is_still_checked(models, tmp_path, kind, change, message):
    saved = read_saved(models / kind)
    change(saved)
    path = write_saved(tmp_path / "made", saved)
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        ANGPNClassifier.load(path)
    assert str(caught.value).startswith(f"{path} must h")
    assert "\n" not in str(caught.value)


def test_wide_sparse_rows_that_were_not_reduced_are_refused(models, tmp_path):
    """They would be written out as a dense matrix of 40 rows and a billion columns."""
    saved = read_saved(models / "sparse_ensemble")
    saved.header["shape"] = [40, 10**9]
    spreading = [learner for learner in saved.header["ensemble"]["learners"] if learner["kind"] == "label_spreading"]
    saved.header["ensemble"] |= {"scaling": "unit", "learners": spreading[:1]}
    scores = np.zeros((40, 3), np.float32)
    kept = {name: array for name, array in saved.arrays.items() if not name.startswith("ensemble.")}
    arrays = {**kept, "ensemble.shift": np.zeros(3, np.float32), "ensemble.0.scores": scores}
    if not spreading:
        saved.header["ensemble"]["learners"] = [{"kind": "label_spreading", "parameters": [0.9]}]
    with pytest.raises(ValueError, match="1000000000 columns of sparse features are propagated, more than 4096"):
        ANGPNClassifier.load(write_saved(tmp_path / "made", saved._replace(arrays=arrays)))


LOAD_ALL = """
import re, sys
from pathlib import Path
from angpn import ANGPNClassifier
def memory(name):
    return 1024 * int(re.search(name + r":\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
ANGPNClassifier.load(sys.argv[1])
for path in sys.argv[2:]:
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = memory("VmRSS")
    try:
        ANGPNClassifier.load(path)
    except ValueError as error:
        assert path in str(error), error
    print(path, memory("VmHWM") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is read from /proc")
def test_a_small_file_takes_little_memory(models, tmp_path):
    """These asked for 2.6 GB (160 GB in the end), 7 GB, and lists of lists without end."""
    old = Path(__file__).parent / "saved_by_format_2" / "ensemble.angpn"
    files = []

    def made(path, change, text=None):
        saved = read_saved(path)
        change(saved)
        files.append(write_saved(tmp_path / str(len(files)), saved, text))

    made(old, put("classes", "dtype", value="<U200000000"))
    made(old, put("classes", "values", value=["a" * 200_000, *(f"b{number}" for number in range(20_000))]))
    made(models / "network", put("network", "hidden_channels", value=[30_000, 30_000]))
    made(models / "network", put("network", "hidden_channels", value=[2**40] * 1000))
    made(models / "sparse_ensemble", put("shape", value=[40, 10**12]))
    made(models / "sparse_ensemble", put("shape", value=[10**12, 5]))
    made(models / "ensemble", lambda saved: None, '{"parameters": ' + "[" * 10**6 + "]" * 10**6 + "}")
    made(old, lambda saved: None, '{"parameters": {"a": {"sequence": [' + "[]," * 10**6 + "[]]}}}")
    command = [sys.executable, "-c", LOAD_ALL, str(models / "ensemble"), *map(str, files)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=environment)
    assert done.returncode == 0, done.stderr
    grown = [int(line.split()[-1]) for line in done.stdout.splitlines()]
    for path, bytes_taken in zip(files, grown, strict=True):
        assert bytes_taken < 4e6 + 8 * path.stat().st_size


# Predictions may refuse rows, not the file: numbers at the end of their range, features that a change renamed.
OF_ROWS = "must be finite|squares float64 can hold|needs finite scores|X has|feature names"


def probabilities_or_refusal(path, new):
    """Load a file and predict; return the message where the file, or the rows, are refused as they should be."""
    try:
        model = ANGPNClassifier.load(path)
    except ValueError as error:
        return str(error) if str(error).startswith(str(path)) and "\n" not in str(error) else pytest.fail(str(error))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return model.predict_proba(new)
        except ValueError as error:
            return str(error) if re.search(OF_ROWS, str(error)) else pytest.fail(str(error))


def check_mutations(path, made, count, seed):
    saved = read_saved(path)
    n_features = ANGPNClassifier.load(path).n_features_in_
    new = np.random.default_rng(1).normal(size=(4, n_features)) + 1
    new = scipy.sparse.csr_array(new) if "features.data" in saved.arrays else new
    refused = 0
    for what, mutated in mutations(saved, seed, count):
        try:
            found = probabilities_or_refusal(write_saved(made, mutated), new)
            refused += isinstance(found, str)
            if not isinstance(found, str):
                assert_allclose(found.sum(axis=1), 1, atol=1e-3)
                assert (found >= 0).all()
        except BaseException as error:
            error.add_note(f"{path.name}, seed {seed}: {what}")
            raise
    assert count / 2 < refused < count  # or the changes are not what they should be


@pytest.mark.parametrize("kind", ["network", "sparse_network", "ensemble", "sparse_ensemble"])
def test_a_file_with_one_change_is_refused_or_predicts(models, tmp_path, kind):
    check_mutations(models / kind, tmp_path / "mutated", 80, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
def test_a_file_with_one_of_many_changes_is_refused_or_predicts(models, tmp_path, seed):
    """Ten thousand changes, of older formats too, find what eighty do not."""
    here = Path(__file__).parent
    for path in [*models.iterdir(), *here.glob("saved_by_*/[!e]*.angpn"), *here.glob("saved_by_*/ensemble.angpn")]:
        check_mutations(path, tmp_path / "mutated", 300, seed=seed)
