"""Rows in an order in which neighbours are near each other."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from angpn import ANGPNClassifier, EnsembleConfig, nearest_candidates, pairwise_distances
from angpn.neighbors.locality import in_local_order, locality_order


@pytest.fixture(scope="module")
def clusters():
    """Four clusters that hardly touch, their rows mixed: which cluster, and the lists."""
    generator = np.random.default_rng(0)
    cluster = generator.integers(4, size=2000)
    x = 2 * generator.normal(size=(4, 12))[cluster] + generator.normal(size=(2000, 12))
    return cluster, nearest_candidates(x, 20, "euclidean")


def crossing(neighborhood, part):
    """The share of candidates that are in another part than their row."""
    return np.mean(part[neighborhood.indices] != part[:, None])


def test_halves_hang_together(clusters):
    _, neighborhood = clusters
    order = locality_order(neighborhood.indices[:, :8]).numpy()
    assert_array_equal(np.sort(order), np.arange(2000))
    half = np.empty(2000, dtype=int)
    half[order] = np.arange(2000) // 1000
    assert crossing(neighborhood, half) < 0.05  # 0.5 in the order of the data
    assert crossing(neighborhood, np.arange(2000) // 1000) > 0.45


def test_the_order_does_not_depend_on_the_number_of_threads(clusters):
    nearest = clusters[1].indices[:, :8]
    before = torch.get_num_threads()
    try:
        orders = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            orders.append(locality_order(nearest))
    finally:
        torch.set_num_threads(before)
    assert_array_equal(*orders)


def test_rows_without_a_way_to_each_other_and_few_rows_have_an_order_too():
    apart = torch.arange(600).view(-1, 2).flip(1).reshape(-1, 1)  # pairs
    assert_array_equal(locality_order(apart).sort().values, np.arange(600))
    assert_array_equal(locality_order(torch.tensor([[1], [0]])).sort().values, [0, 1])


def test_a_partition_knows_which_rows_it_has(clusters):
    _, neighborhood = clusters
    reordered = in_local_order(neighborhood)
    partition = reordered.partition
    values = partition.rows.double() * 10  # of each row, ten times its number in the data
    assert_array_equal(partition.gather_in_data_order(values), 10.0 * np.arange(2000))
    assert_array_equal(partition.local_rows(10.0 * np.arange(2000)), values)
    asked = np.array([7, 1999, 0])
    assert_array_equal(partition.gather_rows(values, asked), 10.0 * asked)
    numbers, places = partition.local_index(asked)
    assert_array_equal(partition.global_ids(torch.from_numpy(numbers)), asked[places])
    whole = reordered.in_data_order()
    assert_array_equal(whole.indices, neighborhood.indices)
    assert_array_equal(whole.distances, neighborhood.distances)


def test_lists_in_another_order_are_not_pickled(clusters):
    with pytest.raises(TypeError, match=r"lists of a Reordered partition .* pickle those of in_data_order\(\)"):
        pickle.dumps(in_local_order(clusters[1]))


LINEAR = EnsembleConfig(first_heads=((None, 10.0),), more_heads=((None, 1.0), (None, 100.0)))


# Sums in another order differ by 1e-7 in float32. Linear heads amplify that little; the whitening of a kernel divides
# by the roots of eigenvalues down to 1e-6, and so multiplies it by up to 1e3.
@pytest.mark.parametrize(("config", "tolerance"), [(LINEAR, 1e-5), (EnsembleConfig(), 1e-4)], ids=["linear", "kernel"])
@pytest.mark.parametrize("direction", ["directed", "symmetric", "normalized"])
def test_many_rows_get_the_same_answers_in_another_order(direction, config, tolerance):
    generator = np.random.default_rng(1)
    truth = generator.integers(3, size=300)
    x = generator.normal(size=(3, 5))[truth] + 0.8 * generator.normal(size=(300, 5))
    y = np.where(generator.random(300) < 0.2, truth, -1)
    distances = pairwise_distances(x, "euclidean").numpy()  # with these all rows select the hyper-parameters

    def fitted(config):
        model = ANGPNClassifier(random_state=0, direction=direction, config=config).fit(x, y, distances=distances)
        return model.label_distributions_, model.predict_proba(x[:5] + 0.01, distances=distances[:5] + 0.01)

    many = replace(config, max_rows_compared=100)
    for found, wanted in zip(fitted(many), fitted(config), strict=True):
        assert_allclose(found, wanted, rtol=0, atol=tolerance)
