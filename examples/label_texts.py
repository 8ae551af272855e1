"""
Texts
=====

The documentation of some 700 functions, five labelled for each of four subjects: what is each one about?
"""

import inspect

import numpy as np
import scipy.linalg
import scipy.signal
import scipy.special
import scipy.stats

from angpn import ANGPNClassifier
from angpn.features import text_features

subjects = {"linear algebra": scipy.linalg, "signals": scipy.signal, "functions": scipy.special, "chance": scipy.stats}
texts, truth, names = [], [], []
for subject, module in subjects.items():
    for name in sorted(module.__all__):
        if inspect.isfunction(getattr(module, name)) or isinstance(getattr(module, name), np.ufunc):
            texts.append(inspect.getdoc(getattr(module, name)))
            truth.append(subject)
            names.append(name)
truth = np.array(truth)

generator = np.random.default_rng(0)
y = np.full(len(truth), None, dtype=object)  # None: not labelled
for subject in subjects:
    y[generator.permutation(np.flatnonzero(truth == subject))[:5]] = subject

X = text_features(texts)
model = ANGPNClassifier(random_state=0).fit(X, y)
hidden = np.array([label is None for label in y])
right = np.mean((model.transduction_ == truth)[hidden])
print(f"{len(texts)} texts, {np.sum(~hidden)} labelled, {right:.1%} of the others right")

# %%
# Why one of them got its label: the texts that carried it.
row = names.index("butter")
print(f"{names[row]}: {model.transduction_[row]}")
for influence in model.explain(row, n=4):
    print(f"  {influence.weight:.0%} {names[influence.row]}: {influence.label}{' (given)' if influence.given else ''}")
