"""The paper's four data sets from their sources, a part of MNIST, and three small ones that scikit-learn bundles.

Each loader returns a Bunch (data, target, feature_names, target_names, DESCR), or with ``return_X_y`` the first two. It
reads from ``data_home``, else from the folder that the environment variable ``ANGPN_DATA`` names, else from a cache
folder, and downloads what is missing from the official source.
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
