"""The methods of estimators that draw, and what a notebook shows of an estimator."""

import re
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.metrics import ConfusionMatrixDisplay
from sklearn.model_selection import LearningCurveDisplay
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from angpn import ANGPNClassifier, ANGPNClusterer, ANGPNEmbedding, ANGPNNetworkClassifier, EnsembleConfig
from angpn.inspection import MapDisplay, ReliabilityDisplay, Report

ESTIMATORS = {
    "ensemble": ANGPNClassifier(config=EnsembleConfig(hops=((0.5, 2),)), random_state=0),
    "network": ANGPNNetworkClassifier(max_iter=300, n_iter_no_change=5, random_state=0),
}


@pytest.fixture(scope="module")
def iris():
    X, truth = load_iris(return_X_y=True)
    return X, np.where(np.arange(150) % 4 == 0, truth, -1), truth


@pytest.fixture(scope="module", params=list(ESTIMATORS))
def model(request, iris):
    X, y, _ = iris
    return ESTIMATORS[request.param].fit(X, y)


@pytest.fixture(autouse=True)
def figures():
    import matplotlib
    from matplotlib import pyplot

    matplotlib.use("Agg")
    yield
    pyplot.close("all")


def test_each_method_returns_its_display_and_draws_in_the_axes_it_is_given(model, iris):
    from matplotlib import pyplot

    X, y, truth = iris
    figure, axes = pyplot.subplots(2, 2)
    displays = [
        model.plot_map(y_true=truth, ax=axes[0, 0]),
        model.plot_confusion(normalize="true", ax=axes[0, 1]),
        model.plot_reliability(ax=axes[1, 0]),
        model.plot_learning_curve(X, y, train_sizes=[0.5, 1.0], cv=2, ax=axes[1, 1]),
    ]
    kinds = [MapDisplay, ConfusionMatrixDisplay, ReliabilityDisplay, LearningCurveDisplay]
    assert [type(display) for display in displays] == kinds
    assert [display.ax_ for display in displays] == list(axes.ravel())
    assert {display.figure_ for display in displays} == {figure}
    assert isinstance(model.report(None), Report)


@pytest.mark.parametrize("method", ["plot_map", "plot_confusion", "plot_reliability", "report"])
def test_before_a_fit_there_is_nothing_to_draw(method, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotFittedError):
        getattr(ANGPNClassifier(), method)()
    assert list(tmp_path.iterdir()) == []


def test_a_fit_imports_no_matplotlib():
    code = "import sys, numpy as np; from angpn import ANGPNClassifier\n"
    code += "X = np.random.default_rng(0).normal(size=(40, 3)); y = np.where(np.arange(40) < 10, X[:, 0] > 0, -1)\n"
    code += "ANGPNClassifier(random_state=0).fit(X, y); print('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split() == ["False"]


def test_a_notebook_shows_parameters_and_computes_nothing(iris):
    X, y, _ = iris
    model = ESTIMATORS["ensemble"].fit(X, y)
    before = set(model.__dict__)
    shown = model._repr_html_()
    assert "n_neighbors" in shown
    assert set(model.__dict__) == before  # no embedding, which takes memory and time for many rows


@pytest.mark.parametrize("kind", [ANGPNClassifier, ANGPNNetworkClassifier, ANGPNClusterer, ANGPNEmbedding])
def test_no_link_leads_to_the_documentation_of_scikit_learn(kind):
    assert re.findall("href=", kind()._repr_html_()) == []
    links = re.findall('href="([^"]*)"', make_pipeline(StandardScaler(), kind())._repr_html_())
    assert not [link for link in links if "angpn" in link.lower()]
