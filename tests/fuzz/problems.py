"""Problems for the estimators as users have them, and worse."""

import numpy as np
import pandas as pd
import scipy.sparse
import torch

from fuzz.mutations import pick


def hostile_rows(X, generator):
    """Return rows at an extreme scale, with equal rows or columns, empty ones, or numbers that are none."""
    with np.errstate(all="ignore"):
        if generator.random() < 0.3:
            X = X * pick(generator, [1e-300, 1e-200, 1e-30, 1e30, 1e150, 1e200, 1e300, 0.0])
        if generator.random() < 0.2:
            X = X * 10.0 ** generator.integers(-200, 200, size=X.shape[1])
        if generator.random() < 0.1:
            X = X * 10.0 ** generator.integers(-150, 150, size=X.shape[0])[:, None]
    X = X[generator.integers(len(X), size=len(X))] if generator.random() < 0.15 else X
    for place in (np.s_[:, 0], np.s_[: len(X) // 2], np.s_[:]):
        if generator.random() < 0.1:
            X = X.copy()
            X[place] = pick(generator, [0, 1, 1e300])
    if generator.random() < 0.1:
        X = X.copy()
        X.reshape(-1)[generator.integers(X.size)] = pick(generator, [np.nan, np.inf, -np.inf, 1e308, 5e-324])
    return X


def in_container(X, generator):
    """Return the rows in one of the forms that users have."""
    with np.errstate(all="ignore"):
        forms = [lambda: X] * 5 + [
            lambda: X.astype(np.float32),
            lambda: X.astype(np.float16),
            lambda: np.asfortranarray(X),
            lambda: X.astype(">f8"),
            lambda: np.rint(np.clip(X, -1e6, 1e6)).astype(np.int64),
            lambda: X.astype(object),
            lambda: X.tolist(),
            lambda: pd.DataFrame(X),
            lambda: torch.from_numpy(X),
            lambda: np.frombuffer(X.tobytes()).reshape(X.shape),  # read-only
            *[
                lambda form=form: form(X)
                for form in (scipy.sparse.csr_array, scipy.sparse.csc_matrix, scipy.sparse.coo_array)
            ],
            lambda: X[0],
            lambda: X[None],
            lambda: X.astype(str),
            lambda: X + 1j,
        ]
        return pick(generator, forms)()


def in_label_form(codes, generator):
    """Return the labels as numbers, names, dates or what else users have; some forms are wrong."""
    names = np.array(["a", "b b", "ä", "\x1b", "", None], dtype=object)
    days = np.datetime64("2020-01-01") + np.where(codes < 0, 0, codes)
    forms = [lambda: codes] * 4 + [
        lambda: codes.tolist(),
        lambda: names[codes],
        lambda: pd.Series(names[codes]),
        lambda: pd.Categorical(names[codes]),
        lambda: np.where(codes < 0, np.nan, codes),
        lambda: np.where(codes < 0, None, codes * 10**12),
        lambda: np.where(codes < 0, np.datetime64("NaT"), days),
        lambda: np.where(codes < 0, -1, codes * 1e300),
        lambda: codes.astype(bool),
        lambda: np.where(codes < 0, None, np.array([b"x", b"y", b"z", b"v", b"w"], object)[codes]),
        lambda: codes[:-1],
        lambda: codes[:, None],
        lambda: np.where(codes < 0, -1, codes + 0.5),
        lambda: [[1], 2] * len(codes),
        lambda: None,
    ]
    return pick(generator, forms)()


def fit_options(n, given, generator):
    """Return weights, masks and distances, of which some do not fit."""
    options = {}
    if generator.random() < 0.25:
        options["sample_weight"] = pick(
            generator,
            [
                np.ones(n),
                np.zeros(n),
                np.full(n, 1e300),
                np.full(n, 1e-300),
                -np.ones(n),
                np.full(n, np.nan),
                generator.random(n),
                np.geomspace(1e-200, 1e200, n),
                np.ones(n + 1),
                2.0,
                "x",
            ],
        )
    if generator.random() < 0.2:
        options["validation_mask"] = pick(
            generator,
            [
                np.zeros(n, bool),
                np.ones(n, bool),
                given >= 0,
                (given >= 0) & (np.arange(n) % 3 == 0),
                np.zeros(n + 1, bool),
                np.arange(n),
            ],
        )
    if generator.random() < 0.2:
        D = np.abs(np.subtract.outer(np.arange(n), np.arange(n))) * pick(
            generator, [1.0, 1.0, 1e-300, 1e300, 0.0, -1.0, np.inf]
        )
        options["distances"] = pick(
            generator, [D, D, scipy.sparse.csr_array(D), D[:, :-1], D + np.nan, D.astype(np.float32)]
        )
    return options
