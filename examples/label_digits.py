"""
Digits
======

A tenth of 1,500 digits is labelled: label the others, draw the map, show influences, label new ones, save the model.
"""

import numpy as np
from sklearn.datasets import load_digits

from angpn import ANGPNClassifier

X, truth = load_digits(return_X_y=True)
X, truth, X_new, truth_new = X[:1500], truth[:1500], X[1500:], truth[1500:]
y = np.where(np.random.default_rng(0).random(1500) < 0.1, truth, -1)  # -1: unlabelled

model = ANGPNClassifier(random_state=0, verbose=True).fit(X, y)
print(f"unlabelled rows: {np.mean(model.transduction_[y == -1] == truth[y == -1]):.1%} right")
print(f"new rows: {model.score(X_new, truth_new):.1%} right")

model.plot_map().figure_.savefig("digits.png")
for row in model.uncertain(3):
    print(f"worth labelling next: row {row}, predicted {model.transduction_[row]}; influenced most by")
    for other, weight, label, given in model.explain(row, n=3):
        print(f"  {weight:.0%} row {other}, {'labelled' if given else 'predicted'} {label}")

model.save("digits.angpn")
loaded = ANGPNClassifier.load("digits.angpn")
print("the loaded model predicts the same:", np.array_equal(loaded.predict(X_new), model.predict(X_new)))
