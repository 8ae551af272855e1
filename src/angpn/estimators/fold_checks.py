"""Warn of cross-validation whose folds or scores are wrong for y with unlabelled rows."""

import sys
from typing import Any

import numpy as np

from angpn.utils.checks import warn
from angpn.utils.inputs import as_array
from angpn.utils.labels import UNLABELLED, encode_labels

_REMEDY = "pass cv=angpn.model_selection.SemiSupervisedKFold()"


def warn_of_folds() -> None:
    """Warn where scikit-learn cross-validates the fit that calls this, with unlabelled rows in its test fold.

    Such folds are not stratified where labels are names, and scores other than the default count unlabelled rows as
    wrong. Neither shows in y, so what scikit-learn calls ``test`` and ``scorer`` is looked up in the frames of the
    call; where another version has no such names, nothing is said.
    """
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "_fit_and_score":
        frame = frame.f_back
    if frame is None or not frame.f_globals.get("__name__", "").startswith("sklearn.model_selection"):
        return
    y, test, scorer = (frame.f_locals.get(name) for name in ("y", "test", "scorer"))
    if y is None or test is None:
        return
    labels = encode_labels(y)
    if not (labels.codes[np.asarray(test)] == UNLABELLED).any():
        return
    if as_array(y).dtype.kind not in "iu":
        warn(
            "folds should be stratified by the labels, got folds by the order of rows, since y holds names or gaps, so "
            f"that a fold may lack classes; {_REMEDY}"
        )
    elif any(type(one).__name__ != "_PassthroughScorer" for one in getattr(scorer, "_scorers", {"": scorer}).values()):
        warn(f"scoring should leave unlabelled rows out, got one that counts them as wrong; {_REMEDY}")
