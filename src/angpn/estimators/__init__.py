"""The scikit-learn estimators, and what they share: answers for new rows, explanations, one file a model."""
