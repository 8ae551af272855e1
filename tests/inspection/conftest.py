"""Fitted models whose figures and reports are looked at, and figures without a screen."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from angpn import ANGPNClassifier, ANGPNNetworkClassifier, EnsembleConfig

BRIEF = EnsembleConfig(hops=((0.5, 2),))


@pytest.fixture(scope="session")
def iris():
    """Features, labels of a quarter of the rows by name, and the true labels."""
    X, truth = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"], dtype=object)[truth]
    return X, np.where(np.arange(150) % 4 == 0, names, None), names


@pytest.fixture(scope="session")
def ensemble(iris):
    X, y, _ = iris
    return ANGPNClassifier(config=BRIEF, random_state=0).fit(X, y)


@pytest.fixture(scope="session")
def network(iris):
    X, y, _ = iris
    return ANGPNNetworkClassifier(n_iter_no_change=10, random_state=0).fit(X, y)


@pytest.fixture(scope="session")
def single_labels(iris):
    """A model of a label for each class, of which none could be held out."""
    X, y, _ = iris
    return ANGPNClassifier(config=BRIEF, random_state=0).fit(
        X, np.where(np.isin(np.arange(150), [0, 52, 100]), y, None)
    )


@pytest.fixture(autouse=True)
def figures():
    """Draw without a screen, and close what was drawn."""
    import matplotlib
    from matplotlib import pyplot

    matplotlib.use("Agg")
    yield
    pyplot.close("all")
