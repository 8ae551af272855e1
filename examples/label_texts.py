"""
Texts
=====

The documentation of about 700 functions on four subjects, with five labels for each subject.
"""

import inspect

import numpy as np
import scipy.linalg
import scipy.signal
import scipy.special
import scipy.stats

from angpn import ANGPNClassifier
from angpn.features import text_features

subjects = {
    "linear algebra": scipy.linalg,
    "signals": scipy.signal,
    "functions": scipy.special,
    "statistics": scipy.stats,
}
texts, truth, names = [], [], []
for subject, module in subjects.items():
    for name in sorted(module.__all__):
        if inspect.isfunction(getattr(module, name)) or isinstance(getattr(module, name), np.ufunc):
            texts.append(inspect.getdoc(getattr(module, name)))
            truth.append(subject)
            names.append(name)
truth = np.array(truth)

generator = np.random.default_rng(0)
y = np.full(len(truth), None, dtype=object)  # None: unlabelled
for subject in subjects:
    y[generator.permutation(np.flatnonzero(truth == subject))[:5]] = subject

X = text_features(texts)
model = ANGPNClassifier(random_state=0).fit(X, y)
unlabelled = np.array([label is None for label in y])
accuracy = np.mean((model.transduction_ == truth)[unlabelled])
print(f"{len(texts)} texts, {np.sum(~unlabelled)} labelled, {accuracy:.1%} of the others right")

# %%
# The texts that influenced a prediction most.
row = names.index("butter")
print(f"{names[row]}: {model.transduction_[row]}")
for influence in model.explain(row, n=4):
    print(f"  {influence.weight:.0%} {names[influence.row]}: {influence.label}{' (given)' if influence.given else ''}")
