"""The default of the estimator: a committee of shallow networks that chooses its settings by the labels there are."""
