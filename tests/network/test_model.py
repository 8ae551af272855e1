import pytest
import torch
from torch.testing import assert_close

from angpn import ANGPN, nearest_candidates
from problems import random_problem


@pytest.fixture
def problem():
    return random_problem(seed=4)


def network(**options):
    net = ANGPN(3, options.pop("hidden_channels", 5), 2, **({"n_neighbors": 4} | options)).double()
    net.reset_parameters(torch.Generator().manual_seed(0))
    return net


def test_eq14_each_row_is_a_distribution_and_the_softmax_of_the_logits(problem):
    net = network()
    logits = net(problem.features, problem.distances)
    z = net.probabilities(problem.features, problem.distances)
    assert_close(z.sum(dim=1), torch.ones(14).double())
    assert_close(z, logits.exp() / logits.exp().sum(dim=1, keepdim=True))


@pytest.mark.parametrize("normalize_hidden", [False, True])
def test_eq12_layers_then_a_perceptron_that_does_not_propagate(problem, normalize_hidden):
    net = network(hidden_channels=[5, 4, 3], normalize_hidden=normalize_hidden)
    hidden = problem.features
    for depth, conv in enumerate(net.convs):
        assert conv.normalize == (normalize_hidden and depth > 0)
        hidden = conv(hidden, problem.distances)
    assert_close(net.embed(problem.features, problem.distances), hidden)
    assert_close(net(problem.features, problem.distances), hidden @ net.perceptron.weight.T)


def test_the_papers_shape():
    net = ANGPN(64, 50, 10)
    assert [tuple(w.shape) for w in net.parameters()] == [(64, 50), (50, 50), (10, 50)]  # and no bias


def test_the_propagated_input_can_be_computed_once(problem):
    net = network()
    propagated = net.propagate_input(problem.features, problem.distances)
    assert_close(net.classify(propagated, problem.distances), net(problem.features, problem.distances))


def test_graphs_of_each_layer(problem):
    net = network(num_layers=3)
    neighborhood = nearest_candidates(problem.distances, 8, "precomputed")
    graphs = net.graphs(problem.features, neighborhood)
    hidden = problem.features
    for conv, graph in zip(net.convs, graphs, strict=True):
        assert_close(graph, conv.graph(hidden, neighborhood))
        assert_close(graph.sum(dim=1), torch.ones(14).double())
        hidden = conv(hidden, neighborhood)


def test_ngpn_is_angpn_at_beta_zero_the_same_graph_in_every_layer(problem):
    first, *rest = network(beta=0.0, num_layers=3).graphs(*problem[::-1])
    for graph in rest:
        assert_close(graph, first)


@pytest.mark.parametrize("normalize_hidden", [False, True])
def test_gradient(problem, normalize_hidden):
    net = network(normalize_hidden=normalize_hidden)
    neighborhood = nearest_candidates(problem.distances, 8, "precomputed")
    names, weights = zip(*net.named_parameters(), strict=True)

    def logits(features, *values):
        return torch.func.functional_call(net, dict(zip(names, values, strict=True)), (features, neighborhood))

    assert torch.autograd.gradcheck(logits, (problem.features.clone().requires_grad_(), *weights))


def test_repr():
    assert repr(ANGPN(8, 5, 3, num_layers=1)) == (
        "ANGPN(\n"
        "  (convs): ModuleList(\n"
        "    (0): ANGPNConv(8, 5, n_neighbors=10, alpha=0.5, beta=0.3, num_steps=2)\n"
        "  )\n"
        "  (perceptron): Linear(in_features=5, out_features=3, bias=False)\n"
        ")"
    )


@pytest.mark.parametrize(("width", "layers"), [([], None), ([5, 0], None), ([5, 5], 3), (0, 2), (5, -1)])
def test_bad_shape(width, layers):
    with pytest.raises(ValueError, match="hidden_channels must be one positive width, or one for each of num_layers"):
        ANGPN(3, width, 2, num_layers=layers)


def test_the_option_of_a_single_layer_is_refused():
    with pytest.raises(ValueError, match="normalize is set by normalize_hidden in a network"):
        ANGPN(3, 5, 2, normalize=True)


def test_fewer_than_two_classes():
    with pytest.raises(ValueError, match="out_channels must be at least 2 classes, got 1"):
        ANGPN(3, 5, 1)


def test_weights_are_drawn_once():
    torch.manual_seed(0)
    network = ANGPN(4, [5, 6], 3)
    after = torch.rand(3)
    torch.manual_seed(0)
    for weight in network.parameters():
        torch.testing.assert_close(weight.detach(), torch.nn.init.xavier_uniform_(torch.empty(weight.shape)))
    torch.testing.assert_close(torch.rand(3), after)


def test_a_network_of_shapes_alone_draws_nothing():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    with torch.device("meta"):
        network = ANGPN(4, 5, 3)
    assert all(weight.is_meta for weight in network.parameters())
    torch.testing.assert_close(torch.rand(3), expected)
