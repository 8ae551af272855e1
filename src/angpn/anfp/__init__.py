"""Adaptive neighbourhood feature propagation, Eqs. (1) to (13): the maths, and its compiled forms."""
