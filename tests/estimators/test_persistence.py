"""Saved models: one file, no pickle, whole or refused."""

import json
import pickle
import struct
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from numpy.testing import assert_allclose, assert_array_equal
from safetensors.numpy import load_file, save_file

from angpn import ANGPNClassifier, ANGPNNetworkClassifier, EnsembleConfig
from angpn.utils.container import read_contents, write_contents

pytestmark = pytest.mark.filterwarnings("ignore:training did not settle")


@pytest.fixture(scope="module")
def fitted():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(60, 5)) + 2 * np.eye(5)[np.arange(60) % 3]
    y = np.where(np.arange(60) < 15, np.arange(60) % 3, -1)
    return ANGPNNetworkClassifier(max_iter=10, random_state=0, n_neighbors=4), X, y


@pytest.mark.parametrize(
    "kind", ["dense", "float32", "sparse", "names", "frame", "class_weight", "paper", "ensemble", "standard", "config"]
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
    write_contents(path, "checkpoint", {}, {"a": np.ones(2)})
    with pytest.raises(ValueError, match="must be an angpn model file, got a checkpoint"):
        ANGPNClassifier.load(path)
    with pytest.raises(FileNotFoundError, match="must be an angpn model file, got none there; check the name"):
        ANGPNClassifier.load(tmp_path / "nothing")


def test_a_newer_format_is_named(saved, tmp_path):
    arrays = load_file(saved)
    raw = saved.read_bytes()
    stamp = json.loads(raw[8 : 8 + struct.unpack("<Q", raw[:8])[0]])["__metadata__"]
    save_file(arrays, tmp_path / "newer", metadata={**stamp, "format": "99"})
    with pytest.raises(ValueError, match="must have a format up to 2, got format 99; a newer angpn wrote it: upgrade"):
        ANGPNClassifier.load(tmp_path / "newer")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda header, arrays: arrays["candidates"].__setitem__((0, 0), 1000), "candidates must be rows 0 to 59"),
        (lambda header, arrays: arrays["codes"].__setitem__(0, 7), "a label is not among the classes"),
        (lambda header, arrays: arrays.update(codes=arrays["codes"][:5]), "expected 60 rows and 3 classes everywhere"),
        (lambda header, arrays: arrays.update(validation_mask=np.ones(3, dtype=bool)), "expected 60 rows"),
        (lambda header, arrays: arrays.pop("distances"), "distances"),
        (lambda header, arrays: header["network"].update(in_channels=4), "size mismatch"),
        (lambda header, arrays: header.pop("classes"), "classes"),
        (lambda header, arrays: header.update(estimator="SVC"), "SVC"),
    ],
)
def test_a_file_made_to_look_whole_is_still_checked(saved, tmp_path, change, message):
    """The digest guards against accidents; whoever writes a new one meets the checks of the parts."""
    header, arrays, _ = read_contents(saved, "model")
    arrays = {name: array.copy() for name, array in arrays.items()}
    change(header, arrays)
    write_contents(tmp_path / "made", "model", header, arrays)
    with pytest.raises(ValueError, match=f"parts that do not fit together .*{message}"):
        ANGPNClassifier.load(tmp_path / "made")


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


def test_a_parameter_of_another_version_is_named(saved, tmp_path):
    header, arrays, _ = read_contents(saved, "model")
    header["parameters"]["nonsense"] = 1
    write_contents(tmp_path / "made", "model", header, arrays)
    with pytest.raises(ValueError, match="only parameters that this version has, got nonsense; use the version"):
        ANGPNClassifier.load(tmp_path / "made")


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
