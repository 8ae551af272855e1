"""The automatic classifier: shallow base learners whose hyper-parameters held-out labels select."""
