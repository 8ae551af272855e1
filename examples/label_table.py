"""
A table with standardised columns
=================================

569 tumours by 30 measurements, labels for one in twenty. The columns have different units, so they are standardised,
and rows are compared by Euclidean distance, not by angle.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from angpn import ANGPNClassifier

data = load_breast_cancer()
X, truth = StandardScaler().fit_transform(data.data), data.target_names[data.target]
known = np.random.default_rng(0).random(len(X)) < 0.05
y = np.where(known, truth, None)  # names as labels, None: unlabelled

model = ANGPNClassifier(metric="euclidean", scaling="none", random_state=0).fit(X, y)
logistic = LogisticRegression().fit(X[known], truth[known])
print(f"{known.sum()} labels given")
print(f"angpn: {np.mean(model.transduction_[~known] == truth[~known]):.1%} of the others right")
print(f"logistic regression: {logistic.score(X[~known], truth[~known]):.1%}")

# %%
# Calibration: in each interval of confidence, the share of correct predictions.
confidence = model.label_distributions_.max(axis=1)[~known]
correct = (model.transduction_ == truth)[~known]
for low, high in ((0.5, 0.8), (0.8, 0.95), (0.95, 1.01)):
    inside = (confidence >= low) & (confidence < high)
    print(f"confidence {low:.2f} to {min(high, 1):.2f}: {inside.sum():3d} rows, {correct[inside].mean():.1%} correct")
