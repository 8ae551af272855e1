"""A result does not depend on the number of threads, or, of many rows, by rounding alone."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

from angpn import ANGPNClassifier, EnsembleConfig


def fitted_on(n_threads, config):
    X, truth = load_digits(return_X_y=True)
    X, truth = X[:700], truth[:700]
    y = np.where(np.arange(700) % 4 == 0, truth, -1)
    before = torch.get_num_threads()
    with threadpool_limits(n_threads):
        torch.set_num_threads(n_threads)
        try:
            model = ANGPNClassifier(scaling="unit", max_rounds=1, config=config, random_state=0).fit(X, y)
            assert torch.get_num_threads() == n_threads  # as the user had it
        finally:
            torch.set_num_threads(before)
    return model.label_distributions_


# A kernel head: torch's own BLAS and LAPACK sum in another order on two threads.
CONFIG = {
    "hops": ((0.5, 2),),
    "first_heads": ((1.0, 100.0),),
    "more_heads": (),
    "spreading_alphas": (),
}


def test_a_fit_of_few_rows_is_the_same_to_the_bit():
    one, two = (fitted_on(n, EnsembleConfig(**CONFIG)) for n in (1, 2))
    assert_array_equal(two, one)


@pytest.mark.slow  # all threads work, and on a busy machine wait for each other
def test_a_fit_of_many_rows_is_the_same_to_rounding():
    one, two = (fitted_on(n, EnsembleConfig(**CONFIG, max_rows_compared=500)) for n in (1, 2))
    assert_allclose(two, one, atol=1e-4)  # what the solvers of the heads make of a last bit
