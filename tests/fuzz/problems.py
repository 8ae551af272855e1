"""Problems for the estimators as users have them, and now and then wrong ones."""

from functools import partial

import numpy as np
import pandas as pd
import scipy.sparse
import torch

from fuzz.mutations import pick


def one(generator, good, bad):
    """Return one of the good values, or rarely a bad one, so that most problems have something to compute."""
    return pick(generator, bad if generator.random() < 0.06 else good)


def hostile_rows(X, generator):
    """Return rows at an extreme scale, with equal rows or columns, empty ones, or numbers that are none."""
    X = X * one(generator, [1.0] * 8 + [1e-300, 1e-200, 1e-30, 1e30, 1e150, 1e200], [0.0, 1e300])
    if generator.random() < 0.15:
        X = X * 10.0 ** generator.integers(-100, 100, size=X.shape[1])
    if generator.random() < 0.1:
        X = X * 10.0 ** generator.integers(-100, 100, size=X.shape[0])[:, None]
    if generator.random() < 0.15:
        X = X[generator.integers(len(X), size=len(X))]
    for place in (np.s_[:, 0], np.s_[: len(X) // 2], np.s_[:]):
        if generator.random() < 0.07:
            X[place] = pick(generator, [0, 1, 1e300])
    if generator.random() < 0.06:
        X.reshape(-1)[generator.integers(X.size)] = pick(generator, [np.nan, np.inf, -np.inf, 1e308, 5e-324])
    return X


def in_container(X, generator):
    """Return the rows in one of the forms that users have."""
    good = [
        *[lambda: X] * 8,
        lambda: X.astype(np.float32),
        lambda: X.astype(np.float16),
        lambda: np.asfortranarray(X),
        lambda: X.astype(">f8"),
        lambda: np.rint(np.clip(np.nan_to_num(X), -1e6, 1e6)).astype(np.int64),
        lambda: X.astype(object),
        lambda: X.tolist(),
        lambda: pd.DataFrame(X),
        lambda: torch.from_numpy(X),
        lambda: np.frombuffer(X.tobytes()).reshape(X.shape),  # read-only
        *(partial(form, X) for form in (scipy.sparse.csr_array, scipy.sparse.csc_matrix, scipy.sparse.coo_array)),
    ]
    bad = [lambda: X[0], lambda: X[None], lambda: X.astype(str), lambda: X + 1j, lambda: X[:0], lambda: "rows"]
    return one(generator, good, bad)()


def in_label_form(codes, generator):
    """Return the labels as numbers, names, dates or what else users have."""
    unknown = codes < 0
    names = np.array(["a", "b b", "ä", "\x1b", "x" * 300, None], dtype=object)[codes]
    good = [
        *[lambda: codes] * 4,
        lambda: codes.tolist(),
        lambda: names,
        lambda: pd.Series(names),
        lambda: pd.Series(pd.Categorical(names)),
        lambda: np.where(unknown, np.nan, codes),
        lambda: np.where(unknown, None, codes * 10**12),
        lambda: np.where(unknown, np.datetime64("NaT"), np.datetime64("2020-01-01") + codes),
        lambda: np.where(unknown, np.timedelta64("NaT"), codes.astype("m8[s]")),
        lambda: np.where(unknown, None, codes > 0),
        lambda: np.where(unknown, None, np.array([b"x", b"y", b"z", b"v", b"w"], object)[codes]),
        lambda: codes[:, None],
    ]
    bad = [
        lambda: codes[:-1],
        lambda: np.where(unknown, -1, codes + 0.5),
        lambda: np.where(unknown, -1, codes * 1e300),
        lambda: np.stack([codes, codes], axis=1),
        lambda: np.where(codes % 2, "a", np.array(3, dtype=object)),
        lambda: [[1], 2] * len(codes),
        lambda: np.full(len(codes), -1),
        lambda: None,
    ]
    return one(generator, good, bad)()


def fit_options(n, codes, generator):
    """Return weights, masks and distances for a fit."""
    options, given = {}, codes >= 0
    if generator.random() < 0.25:
        good = [
            np.ones(n),
            generator.random(n),
            2.0,
            np.full(n, 1e300),
            np.full(n, 1e-300),
            np.geomspace(1e-200, 1e200, n),
        ]
        bad = [np.zeros(n), -np.ones(n), np.full(n, np.nan), np.ones(n + 1), "x", np.ones((n, 2))]
        options["sample_weight"] = one(generator, good, bad)
    if generator.random() < 0.2:
        good = [np.zeros(n, bool), given & (np.arange(n) % 3 == 0), (given & (np.arange(n) % 4 == 0)).tolist()]
        bad = [given, np.ones(n, bool), np.zeros(n + 1, bool), np.arange(n), "x"]
        options["validation_mask"] = one(generator, good, bad)
    if generator.random() < 0.2:
        D = np.abs(np.subtract.outer(np.arange(n), np.arange(n))) + 0.0
        good = [
            D,
            D,
            scipy.sparse.csr_array(D),
            D.astype(np.float32),
            D * 1e-300,
            D * 1e300,
            D * 0,
            np.where(D > 2, np.inf, D),
        ]
        options["distances"] = one(generator, good, [D[:, :-1], D + np.nan, -D, D[0], "x"])
    return options
