"""The paper's four data sets from their sources, a part of MNIST, and three small ones that scikit-learn bundles.

Each loader gives a Bunch (data, target, feature_names, target_names, DESCR), or with ``return_X_y`` the first two. It
looks in ``data_home``, or the folder that the environment variable ``ANGPN_DATA`` names, or a cache folder, and
downloads what is missing there from the official source.
"""

from angpn.datasets.cache import data_folder
from angpn.datasets.loaders import (
    SETS,
    DatasetInfo,
    load_20news,
    load_breast_cancer,
    load_cifar10,
    load_coraml,
    load_digits,
    load_mnist10k,
    load_svhn,
    load_wine,
)

__all__ = [
    "SETS",
    "DatasetInfo",
    "data_folder",
    "load_20news",
    "load_breast_cancer",
    "load_cifar10",
    "load_coraml",
    "load_digits",
    "load_mnist10k",
    "load_svhn",
    "load_wine",
]
