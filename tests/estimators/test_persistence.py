"""Saved models: one file, no pickle, whole or refused."""

import datetime
import os
import pickle
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from numpy.testing import assert_allclose, assert_array_equal
from safetensors.numpy import save_file

from angpn import ANGPNClassifier, ANGPNNetworkClassifier, EnsembleConfig
from saved_files import SavedFile, read_saved, write_saved

pytestmark = pytest.mark.filterwarnings("ignore:training did not settle")


@pytest.fixture(scope="module")
def fitted():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(60, 5)) + 2 * np.eye(5)[np.arange(60) % 3]
    y = np.where(np.arange(60) < 15, np.arange(60) % 3, -1)
    return ANGPNNetworkClassifier(max_iter=10, random_state=0, n_neighbors=4), X, y


@pytest.mark.parametrize(
    "kind",
    [
        "dense",
        "float32",
        "sparse",
        "names",
        "frame",
        "class_weight",
        "paper",
        "ensemble",
        "standard",
        "config",
        "pca",
        "standard_pca",
    ],
)
def test_a_loaded_model_answers_as_the_saved_one(fitted, tmp_path, kind):
    model, X, y = fitted
    model = ANGPNNetworkClassifier(**model.get_params())
    if kind == "float32":
        X = X.astype(np.float32)
    elif kind == "sparse":
        X = scipy.sparse.csr_array(np.where(np.abs(X) < 0.5, 0, X))
    elif kind == "names":
        y = np.where(y == -1, None, np.array(["ä", "b", "c"], dtype=object)[y])
    elif kind == "frame":
        X = pd.DataFrame(X, columns=list("abcde"))
    elif kind == "class_weight":
        model.set_params(
            class_weight={0: 1.0, 1: 2.0, 2: 1.0}, hidden_layer_sizes=[7], random_state=np.random.RandomState(0)
        )
    elif kind == "paper":
        model = ANGPNClassifier.paper(max_iter=10, gamma=0.5, num_steps=None, random_state=0)
        model.set_params(beta=np.float64(0.2), n_neighbors=np.int64(4), tol=-np.inf)
    elif kind == "ensemble":
        model = ANGPNClassifier(n_neighbors=4, random_state=0)
    elif kind == "config":
        config = EnsembleConfig(hops=((0.5, 2),), pseudo_label_threshold=0.9)
        model = ANGPNClassifier(n_neighbors=4, random_state=0, config=config)
    elif kind in ("pca", "standard_pca"):
        config = EnsembleConfig(max_share_of_pca=1.0)
        model = ANGPNClassifier(n_neighbors=4, scaling=kind, random_state=0, config=config)
    elif kind == "standard":
        X = X * np.geomspace(1, 1000, 5)
        model = ANGPNClassifier(n_neighbors=4, random_state=0)
    model.fit(X, y)
    model.save(tmp_path / "model")
    torch.manual_seed(0)
    again = ANGPNClassifier.load(tmp_path / "model")
    assert torch.rand(1) == torch.rand(
        1, generator=torch.Generator().manual_seed(0)
    )  # the user's numbers stay in order
    new = X[:10] * 1.5 if kind == "frame" else X[:10] * np.linspace(1, 2, 5)
    assert_array_equal(again.predict_proba(new), model.predict_proba(new))
    assert_array_equal(again.predict(X), model.transduction_)
    assert_array_equal(again.transduction_, model.transduction_)
    assert again.explain(3) == model.explain(3)
    assert_array_equal(again.uncertain(5), model.uncertain(5))
    assert again.classes_.dtype == model.classes_.dtype
    assert_array_equal(again.validation_transduction_, model.validation_transduction_)
    assert_array_equal(again.validation_distributions_, model.validation_distributions_)
    for name in ("n_iter_", "loss_curve_", "validation_scores_", "best_validation_score_", "n_neighbors_"):
        assert getattr(again, name) == getattr(model, name)
    parameters = model.get_params()
    if kind == "class_weight":
        parameters |= {"random_state": None, "hidden_layer_sizes": (7,)}  # a generator is not saved
    assert again.get_params() == parameters
    assert type(again) is type(model)
    assert getattr(again, "coverage_", None) == getattr(model, "coverage_", None)
    if kind == "frame":
        assert list(again.feature_names_in_) == list("abcde")


@pytest.fixture(scope="module")
def saved(fitted, tmp_path_factory):
    model, X, y = fitted
    path = tmp_path_factory.mktemp("saved") / "model"
    ANGPNNetworkClassifier(**model.get_params()).fit(X, y).save(path)
    return path


def test_no_byte_can_be_changed_unnoticed(saved, tmp_path):
    whole = saved.read_bytes()
    generator = np.random.default_rng(0)
    for place in generator.integers(len(whole), size=200):
        changed = bytearray(whole)
        changed[place] ^= 1 << generator.integers(8)
        (tmp_path / "changed").write_bytes(changed)
        with pytest.raises(ValueError, match="must (be an angpn model file|be as it was written|have a format)"):
            ANGPNClassifier.load(tmp_path / "changed")


@pytest.mark.parametrize("length", [0, 4, 100, 5000, -1])
def test_a_truncated_file_is_refused(saved, tmp_path, length):
    (tmp_path / "cut").write_bytes(saved.read_bytes()[:length])
    with pytest.raises(ValueError, match="cannot be read .* cut short, altered or of another kind; write it anew"):
        ANGPNClassifier.load(tmp_path / "cut")


class _Trap:
    def __reduce__(self):
        return pytest.fail, ("a file was executed",)


def test_foreign_files_are_refused_and_not_executed(saved, tmp_path):
    path = tmp_path / "foreign"
    path.write_bytes(pickle.dumps(_Trap()))
    with pytest.raises(ValueError, match="must be an angpn model file, got one that cannot be read"):
        ANGPNClassifier.load(path)
    torch.save({"a": torch.ones(2)}, path)
    with pytest.raises(ValueError, match="must be an angpn model file, got one that cannot be read"):
        ANGPNClassifier.load(path)
    save_file({"a": np.ones(2)}, path)
    with pytest.raises(ValueError, match="got a safetensors file of something else"):
        ANGPNClassifier.load(path)
    write_saved(path, SavedFile("checkpoint", 3, {}, {"a": np.ones(2)}))
    with pytest.raises(ValueError, match="must be an angpn model file, got one of kind 'checkpoint'"):
        ANGPNClassifier.load(path)
    with pytest.raises(FileNotFoundError, match="must be an angpn model file, got none there; check the name"):
        ANGPNClassifier.load(tmp_path / "nothing")


def test_a_newer_format_is_named(saved, tmp_path):
    path = write_saved(tmp_path / "newer", read_saved(saved)._replace(format=99))
    with pytest.raises(
        ValueError, match="must have a format up to 3, got format '99'; a newer angpn wrote it: upgrade"
    ):
        ANGPNClassifier.load(path)


@pytest.mark.parametrize("kind", ["network", "ensemble", "sparse", "few_labels"])
def test_models_of_0_1_0_are_still_read(kind):
    """Files that 0.1.0 wrote, and what it then predicted: make_0_1_0.py says how they were made."""
    folder = Path(__file__).parent / "saved_by_0_1_0"
    with np.load(folder / f"{kind}.npz") as expected:
        X, new = expected["X"], expected["new"]
        rows, new_rows = (scipy.sparse.csr_array(part) if kind == "sparse" else part for part in (X, new))
        for opened_by in (ANGPNClassifier, ANGPNNetworkClassifier):
            model = opened_by.load(folder / f"{kind}.angpn")
            assert type(model) is (ANGPNNetworkClassifier if kind == "network" else ANGPNClassifier)
            assert_allclose(model.label_distributions_, expected["distributions"], rtol=1e-6)
            # A network computes its fitted rows anew, on this machine.
            assert_allclose(model.predict_proba(rows), model.label_distributions_, rtol=1e-6)
            # Sums of a prediction are in float32, of some hundred terms.
            assert_allclose(model.predict_proba(new_rows), expected["probabilities"], rtol=1e-3, atol=1e-5)
            assert [found.row for found in model.explain(3, 3)] == expected["explained"].tolist()
    parameters = model.get_params()
    assert parameters["n_neighbors"] == 4
    if kind != "network":
        assert (parameters["max_rounds"], parameters["scaling"]) == (1, "auto")
    model.set_params(**({"max_iter": 2} if kind == "network" else {"max_rounds": 0}))
    model.fit(rows, model.transduction_)  # its parameters are those of this version


@pytest.mark.parametrize("kind", ["network", "ensemble", "sparse", "floats"])
def test_models_of_format_2_are_still_read(kind):
    """Files of the format before this one: make_format_2.py says how they were made."""
    folder = Path(__file__).parent / "saved_by_format_2"
    model = ANGPNClassifier.load(folder / f"{kind}.angpn")
    assert model.validation_distributions_ is None  # which they do not have
    with np.load(folder / f"{kind}.npz") as expected:
        new = scipy.sparse.csr_array(expected["new"]) if kind == "sparse" else expected["new"]
        assert_allclose(model.predict_proba(new), expected["probabilities"], rtol=1e-3, atol=1e-5)
    names = {
        "network": np.array(["b", "c", "ä"], dtype=object),
        "ensemble": np.array(["one", "three", "two"]),
        "sparse": np.array([False, True]),
        "floats": np.array([1.0, 2.0, 5.0]),
    }[kind]
    assert_array_equal(model.classes_, names)
    assert model.classes_.dtype == names.dtype
    parameters = model.get_params()
    if kind == "network":
        assert (parameters["tol"], parameters["hidden_layer_sizes"]) == (-np.inf, (4,))
        assert parameters["class_weight"] == {"ä": 1.0, "b": 2.0, "c": 1.0}
    elif kind == "ensemble":
        of_then = {
            "n_centers": 500,
            "more_heads": ((None, 1.0), (None, 100.0), (3.0, 100.0)),
            "n_hops_refined": 4,
            "n_reselection_candidates": 15,
            "spreading_alphas": (0.9, 0.97),
        }
        assert parameters["config"] == EnsembleConfig(hops=((0.5, 2),), **of_then)


LABELS = [
    np.array(["2026-01-01", "2026-02-01", "2026-03-01"], dtype="datetime64[D]"),
    np.array([1, 2, 300], dtype="timedelta64[25s]"),
    np.array([b"a", b"bc", b"\xff"], dtype="S5"),
    np.array(["a", "z\U0001f600", "ä"], dtype="U9"),
    np.array(["a", "b", "ä"], dtype=object),
    np.array([False, True]),
    np.array([0, 2, 5], dtype=np.int8),
    np.array([0, 2, 2**63], dtype=np.uint64),
    np.array([0.0, 2.0, 3.0], dtype=np.float16),
]


@pytest.mark.parametrize("names", LABELS, ids=lambda names: str(names.dtype))
def test_labels_of_every_type_come_back_as_they_were(fitted, tmp_path, names):
    """Datetime labels used to be fitted, and then could not be saved."""
    _, X, y = fitted
    labelled = np.flatnonzero(y >= 0)
    model = ANGPNNetworkClassifier(max_iter=2, n_neighbors=4, random_state=0)
    model.fit(X[labelled], names[y[labelled] % len(names)])
    model.save(tmp_path / "model")
    loaded = ANGPNClassifier.load(tmp_path / "model")
    assert_array_equal(loaded.classes_, names)
    for found in (loaded.classes_, loaded.predict(X), loaded.transduction_, loaded.validation_transduction_):
        assert found.dtype == names.dtype
    assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.score(X, model.predict(X)) == 1


@pytest.mark.parametrize("kind", ["categorical", "dates", "bytes", "timestamps"])
def test_labels_with_missing_ones_come_back_as_classes(fitted, tmp_path, kind):
    _, X, y = fitted
    values = {
        "categorical": np.array(["x", "y", "z"], dtype=object),
        "dates": np.array([datetime.date(2026, month, 1) for month in (1, 2, 3)], dtype=object),
        "bytes": np.array([b"a", b"b", b"c"], dtype=object),
        "timestamps": [pd.Timestamp(f"2026-0{month}-01 00:00:00.123456789") for month in (1, 2, 3)],
    }[kind]
    labels = pd.Series([values[code] if code >= 0 else None for code in y], dtype=object)
    labels = labels.astype("category") if kind == "categorical" else labels
    model = ANGPNClassifier(max_rounds=0, n_neighbors=4, random_state=0).fit(X, labels)
    assert model.classes_.dtype.kind == {"categorical": "O", "dates": "M", "bytes": "S", "timestamps": "M"}[kind]
    model.save(tmp_path / "model")
    loaded = ANGPNClassifier.load(tmp_path / "model")
    assert loaded.classes_.dtype == model.classes_.dtype
    assert_array_equal(loaded.classes_, model.classes_)
    assert_array_equal(loaded.predict(X), model.transduction_)


def test_weights_of_classes_without_a_plain_name_come_back(fitted, tmp_path):
    _, X, y = fitted
    names = np.array(["2026-01-01", "2026-02-01", "2026-03-01"], dtype="datetime64[D]")
    weights = {name: number for number, name in enumerate(names, start=1)}
    model = ANGPNNetworkClassifier(max_iter=2, n_neighbors=4, class_weight=weights)
    model.fit(X[y >= 0], names[y[y >= 0]]).save(tmp_path / "model")
    assert ANGPNClassifier.load(tmp_path / "model").class_weight == weights


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"num_steps": 10**9}, "Expected `int` <= 100 - at `$.num_steps`"),
        ({"verbose": "much"}, "at `$.verbose`"),
        ({"device": ["cpu"]}, "at `$.device`"),
    ],
)
def test_what_cannot_be_saved_is_refused_before_training(fitted, parameters, message, monkeypatch):
    _, X, y = fitted
    monkeypatch.setattr("angpn.estimators.network.fit_network", lambda task: pytest.fail("it was trained"))
    with pytest.raises(ValueError, match=r"the parameters of ANGPNNetworkClassifier must be as .* got another value"):
        ANGPNNetworkClassifier(n_neighbors=4, **parameters).fit(X, y)
    with pytest.raises(ValueError, match=re.escape(message)):
        ANGPNNetworkClassifier(n_neighbors=4, **parameters).fit(X, y)
    with pytest.raises(ValueError, match="names of the features must be text that UTF-8 can encode"):
        ANGPNNetworkClassifier(n_neighbors=4).fit(pd.DataFrame(X, columns=[*"abcd", "\udc80"]), y)


class MyClassifier(ANGPNClassifier):
    """A user's own, with parameters of its own."""

    def __init__(self, *, n_neighbors=4, colour="red"):
        super().__init__(n_neighbors=n_neighbors, max_rounds=0)
        self.colour = colour


def test_a_subclass_keeps_its_own_parameters(fitted, tmp_path):
    _, X, y = fitted
    model = MyClassifier(colour="blue").fit(X, y)
    model.save(tmp_path / "model")
    loaded = MyClassifier.load(tmp_path / "model")
    assert (type(loaded), loaded.get_params()) == (MyClassifier, {"n_neighbors": 4, "colour": "blue"})
    with pytest.raises(ValueError, match="only parameters that this version has, got colour; use the version"):
        ANGPNClassifier.load(tmp_path / "model")


def test_no_path_comes_from_a_file(fitted, tmp_path, monkeypatch):
    """A later fit of a loaded model would have written to the checkpoint that the file names."""
    monkeypatch.chdir(tmp_path)
    _, X, y = fitted
    model = ANGPNNetworkClassifier(max_iter=2, n_neighbors=4, checkpoint=tmp_path / "mine", resume=True).fit(X, y)
    model.save(tmp_path / "model")
    (tmp_path / "mine").unlink()
    old = Path(__file__).parent / "saved_by_format_2" / "network.angpn"
    assert read_saved(old).header["parameters"]["checkpoint"] == "checkpoint_of_the_file"
    for path in (tmp_path / "model", old):
        loaded = ANGPNClassifier.load(path)
        assert (loaded.checkpoint, loaded.resume) == (None, False)
        rows, labels = (X, y) if path != old else (X[:, :3], loaded.classes_[np.arange(60) % 3])
        loaded.set_params(max_iter=1).fit(rows, labels)
    assert os.listdir(tmp_path) == ["model"]
    changed = read_saved(tmp_path / "model")
    changed.header["parameters"]["checkpoint"] = str(tmp_path / "hostile")
    with pytest.raises(ValueError, match="unknown field `checkpoint` - at `\\$.parameters`"):
        ANGPNClassifier.load(write_saved(tmp_path / "made", changed))


def test_an_interrupted_save_leaves_the_old_file(fitted, saved, tmp_path, monkeypatch):
    path = tmp_path / "model"
    path.write_bytes(saved.read_bytes())
    model = ANGPNClassifier.load(path)

    def half(arrays, name, metadata):
        name.write_bytes(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr("angpn.utils.container.save_file", half)
    with pytest.raises(OSError, match="no space left"):
        model.save(path)
    assert path.read_bytes() == saved.read_bytes()
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_an_unfitted_model_cannot_be_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        ANGPNClassifier().save(tmp_path / "model")
