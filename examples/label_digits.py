"""
Digits
======

A tenth of 1,500 digits is labelled: label the rest, look at them, ask why, label new ones, keep the model.
"""

import numpy as np
from sklearn.datasets import load_digits

from angpn import ANGPNClassifier
from angpn.experiments.figures import map_figure, save_figure
from angpn.labelling.planar import planar_map

X, truth = load_digits(return_X_y=True)
X, truth, X_new, truth_new = X[:1500], truth[:1500], X[1500:], truth[1500:]
y = np.where(np.random.default_rng(0).random(1500) < 0.1, truth, -1)  # -1: not labelled

model = ANGPNClassifier(random_state=0, verbose=True).fit(X, y)
print(f"rows it labelled: {np.mean(model.transduction_[y == -1] == truth[y == -1]):.1%} right")
print(f"rows it had not seen: {model.score(X_new, truth_new):.1%} right")

save_figure(map_figure(planar_map(model.embedding_), model.transduction_, y != -1), "digits.png")
for row in model.uncertain(3):
    print(f"worth labelling next: row {row}, perhaps {model.transduction_[row]}. It is made of")
    for other, weight, label, given in model.explain(row, n=3):
        print(f"  {weight:.0%} row {other}, {'labelled' if given else 'predicted'} {label}")

model.save("digits.angpn")
again = ANGPNClassifier.load("digits.angpn")
print("the loaded model predicts the same:", np.array_equal(again.predict(X_new), model.predict(X_new)))
