"""The two ways an estimator is fitted: a network with hidden layers, or a committee."""
