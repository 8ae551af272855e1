import warnings

import pytest
import scipy.sparse
import torch
from torch.testing import assert_close

from angpn import ANGPN, candidate_coverage, nearest_candidates
from angpn.neighbors.neighborhood import DenseNeighborhood
from problems import awkward_features


def clusters(n=80):
    generator = torch.Generator().manual_seed(0)
    centres = torch.eye(4)[torch.arange(n) % 4]
    return torch.nn.functional.normalize(centres + 0.3 * torch.randn(n, 4, generator=generator))


def network(width=4, **options):
    net = ANGPN(width, 6, 3, n_neighbors=5, **options)
    net.reset_parameters(torch.Generator().manual_seed(1))
    return net


def test_with_every_row_as_a_candidate_nothing_is_outside():
    x = clusters()
    found = candidate_coverage(network(), x, nearest_candidates(x, 79))
    assert found.input_mass_outside == pytest.approx(0, abs=1e-6)
    assert found.hidden_mass_outside == pytest.approx(0, abs=1e-6)
    assert (found.n_sampled, found.n_all_tied, found.n_changed) == (80, 0, 0)


@pytest.mark.filterwarnings("ignore:.*would be labelled otherwise")
@pytest.mark.parametrize("num_steps", [1, 2, 3])
def test_the_mass_is_that_of_the_full_graph_given_the_step_before(num_steps):
    x = clusters()
    net = network(num_steps=num_steps, beta=1.0)
    neighborhood = nearest_candidates(x, 6)
    found = candidate_coverage(net, x, neighborhood, n_sample=80)
    if num_steps > 1:
        net.convs[0].num_steps = num_steps - 1
        seen = net.convs[0].propagate(x, neighborhood)
        net.convs[0].num_steps = 1
    else:
        seen = x
    dense = DenseNeighborhood.from_matrix(torch.sqrt((2 - 2 * x @ x.T).clamp(min=0)))
    net.convs[0].num_steps = 1
    full = net.convs[0].graph(seen, dense)
    outside = 1 - full.gather(1, neighborhood.indices).sum(dim=1)
    assert found.input_mass_outside == pytest.approx(float(outside.mean()), abs=1e-5)
    assert found.input_mass_outside > 0.001


def test_a_change_of_predictions_is_warned_of_with_its_remedy():
    x = clusters()
    net = network(beta=5.0)  # the features decide, so the nearest rows are not what S would choose
    with pytest.warns(UserWarning, match="of 80 sampled rows would be labelled otherwise .* raise n_candidates"):
        found = candidate_coverage(net, x, nearest_candidates(x, 6))
    assert found.n_changed > 0


def test_no_warning_where_predictions_stay():
    x = clusters()
    with warnings.catch_warnings(action="error"):
        found = candidate_coverage(network(beta=0.0), x, nearest_candidates(x, 20), n_sample=30)
    assert found.n_sampled == 30
    assert found.n_changed == 0


@pytest.mark.filterwarnings("ignore:.*would be labelled otherwise")
def test_sparse_rows_and_rows_that_tie():
    x = awkward_features()
    neighborhood = nearest_candidates(x, 12)
    net = network(13)
    dense = candidate_coverage(net, x, neighborhood)
    sparse = candidate_coverage(net, scipy.sparse.csr_array(x.numpy()), neighborhood)
    assert dense.n_all_tied == 10  # nine empty rows, and one that shares nothing with any other
    assert sparse.n_all_tied == dense.n_all_tied
    assert sparse.n_changed == dense.n_changed
    assert_close(torch.tensor(sparse[:2]), torch.tensor(dense[:2]), atol=1e-5, rtol=0)


@pytest.mark.filterwarnings("ignore:.*would be labelled otherwise")
def test_a_row_that_eq09_to_the_letter_leaves_without_neighbours_has_no_mass_outside():
    x = torch.nn.functional.normalize(torch.eye(4)[0] + 0.1 * clusters())
    x[0] = -torch.eye(4)[0]  # repelled by all others
    net = network(rule="printed", beta=3.0, gamma=0.5, normalize_hidden=True)
    neighborhood = nearest_candidates(x, 40)
    assert net.graphs(x, neighborhood)[0][0].sum() == 0
    found = candidate_coverage(net, x, neighborhood, n_sample=80)
    assert 0 <= found.input_mass_outside <= 1
    assert 0 <= found.hidden_mass_outside <= 1
