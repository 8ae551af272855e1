"""Compiled loops over rows (:mod:`~angpn.kernels.rows`), and the threads that run them."""
