import numpy as np
import torch

from angpn.bench import fits
from angpn.bench.problems import labelled_rows


class Recorder:
    """Stands for ANGPNClassifier and keeps what it was called with."""

    def __init__(self, **parameters):
        self.parameters, self.calls = parameters, []
        Recorder.last = self

    def fit(self, X, y):
        self.calls.append(("fit", X, y, torch.get_num_threads()))

    def predict(self, X):
        self.calls.append(("predict", X, None, torch.get_num_threads()))


def test_the_refit_has_ten_more_labels_and_predict_ten_new_rows(monkeypatch):
    monkeypatch.setattr(fits, "ANGPNClassifier", Recorder)
    problem = labelled_rows("150x4")
    assert fits.ours(problem).keys() == {"ours", "warm", "predict10"}
    assert Recorder.last.parameters["warm_start"]
    (_, X, y, _), *predicts, (_, again, more, _) = Recorder.last.calls
    assert X is again is problem.X
    np.testing.assert_array_equal(y, problem.y)
    new = more != y
    assert new.sum() == 10
    np.testing.assert_array_equal(more[new], problem.truth[new])
    rows = predicts[0][1]
    assert {name for name, *_ in predicts} == {"predict"}
    assert rows.shape == (10, 4)
    assert not (rows[:, None] == problem.X).all(axis=2).any()


def test_methods_take_turns_on_the_threads_that_were_asked_for(monkeypatch):
    order = []
    monkeypatch.setattr(fits, "ANGPNClassifier", Recorder)
    monkeypatch.setattr(fits, "PEERS", {name: lambda problem, name=name: order.append(name) for name in ("a", "b")})
    before = torch.get_num_threads()
    found = fits.measure("150x4", turns=3, threads=before + 1)
    assert order == ["a", "b"] * 3
    assert found.keys() == {"ours", "warm", "predict10", "a", "b"}
    assert {threads for *_, threads in Recorder.last.calls} == {before + 1}
    assert torch.get_num_threads() == before
