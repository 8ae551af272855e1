import copy

import numpy as np
import pytest
import scipy.sparse
import torch
from torch.testing import assert_close

from angpn import ANGPN, nearest_candidates, train
from angpn.network.denoising import Denoising
from angpn.network.masking import MaskedRows
from angpn.network.training import check_self_supervised


def documents(n=60, d=30, dtype=np.float64):
    """Three topics of ten words each; rows have four words of their topic and one of any."""
    generator = np.random.default_rng(0)
    topic = np.arange(n) % 3
    X = np.zeros((n, d), dtype)
    for i in range(n):
        X[i, 10 * topic[i] + generator.choice(10, 4, replace=False)] = 1
        X[i, generator.integers(d)] = 1
    return X / np.linalg.norm(X, axis=1, keepdims=True), topic


def network(d=30, **options):
    net = ANGPN(d, [8, 8], 3, n_neighbors=5, normalize_hidden=True, **{"beta": 0.3, **options}).double()
    net.reset_parameters(torch.Generator().manual_seed(2))
    return net


def masked_documents():
    """The documents, without some entries, as dense and as sparse rows."""
    X, _ = documents()
    sparse = Denoising(network(), scipy.sparse.csr_array(X), nearest_candidates(X, 15)).masking
    masked = sparse.draw(torch.Generator().manual_seed(0))
    return X, masked, masked._replace(features=torch.from_numpy(masked.features.toarray()))


def with_weights_of(denoising, other):
    denoising.load_state_dict(other.state_dict())
    return denoising


@pytest.mark.parametrize("direction", ["directed", "symmetric", "normalized"])
@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_sparse_and_dense_rows_have_the_same_loss_and_gradients(direction, beta):
    X, sparse_masked, dense_masked = masked_documents()
    lists, net = nearest_candidates(X, 15), network(direction=direction, beta=beta)
    sparse = Denoising(net, scipy.sparse.csr_array(X), lists)
    dense = with_weights_of(Denoising(net, torch.from_numpy(X), lists), sparse)
    dense.masking = sparse.masking  # the same question
    weights = list(net.convs.parameters())
    losses = sparse.loss(sparse_masked), dense.loss(dense_masked)
    assert_close(*losses)
    first, second = (
        torch.autograd.grad(loss, [*weights, decoder])
        for loss, decoder in zip(losses, (sparse.decoder, dense.decoder), strict=True)
    )
    for of_sparse, of_dense in zip(first, second, strict=True):
        assert of_sparse.abs().max() > 0
        assert_close(of_sparse, of_dense)


@pytest.mark.parametrize("backend", ["kernel", "torch", "dense"])
def test_backends_agree(backend):
    X, _, masked = masked_documents()
    lists = nearest_candidates(X, 15)
    reference = Denoising(network(), torch.from_numpy(X), lists)
    other = with_weights_of(Denoising(network(backend=backend), torch.from_numpy(X), lists), reference)
    assert_close(other.loss(masked), reference.loss(masked))


def test_masked_entries_are_unseen():
    """On a graph of given distances with beta 0, nothing that is computed before the loss depends on them."""
    X, _, masked = masked_documents()
    hidden = []
    for value in (0.0, 5.0):
        changed = torch.from_numpy(X).clone()
        changed[masked.rows, masked.columns] = value
        net = network(beta=0.0)
        denoising = Denoising(net, changed, nearest_candidates(X, 15))
        found = []
        denoising._embed = lambda *given, net=net, found=found: found.append(net.embed_propagated(*given)) or found[0]
        denoising.loss(masked)
        hidden += found
    assert_close(hidden[0], hidden[1], rtol=0, atol=0)
    whole = network(beta=0.0).embed(torch.from_numpy(X), nearest_candidates(X, 15))
    assert (hidden[0] - whole).abs().max() > 0.01  # that of all entries is another


@pytest.mark.parametrize("sparse", [False, True])
def test_training_sees_rows_without_the_entries_that_it_restores(sparse, monkeypatch):
    X, topic = documents()
    y = np.where(np.arange(60) < 12, topic, -1)
    seen = []
    original = Denoising.loss

    def spy(self, masked, generator=None):
        seen.append(masked)
        return original(self, masked, generator)

    monkeypatch.setattr(Denoising, "loss", spy)
    features = scipy.sparse.csr_array(X) if sparse else X
    list(train(network(), features, nearest_candidates(X, 15), y, max_epochs=3, self_supervised=1.0))
    assert len(seen) == 3
    for masked in seen:
        rows = masked.features.toarray() if sparse else masked.features.numpy()
        values = rows[masked.rows, masked.columns]
        assert_close(values, np.zeros_like(values) if sparse else X.mean(axis=0)[masked.columns])


@pytest.mark.parametrize("sparse", [False, True])
def test_gradient_of_a_weight_by_differences(sparse):
    X, _, _ = masked_documents()
    net, lists = network(), nearest_candidates(X, 15)
    denoising = Denoising(net, scipy.sparse.csr_array(X) if sparse else torch.from_numpy(X), lists)
    masked = denoising.masking.draw(torch.Generator().manual_seed(0))
    denoising.loss(masked).backward()
    # A weight before the graph of the second layer, one after it, and one of the decoder.
    for weight in (net.convs[0].weight, net.convs[1].weight, denoising.decoder):
        place = tuple(int(i) for i in (weight.grad.abs() == weight.grad.abs().max()).nonzero()[0])
        values = []
        for step in (1e-6, -1e-6):
            with torch.no_grad():
                weight[place] += step
                values.append(float(denoising.loss(masked)))
                weight[place] -= step
        assert (values[0] - values[1]) / 2e-6 == pytest.approx(float(weight.grad[place]), rel=1e-4)


def test_the_gradient_goes_through_the_graph():
    X, _, masked = masked_documents()
    gradients = []
    for graph_gradient in (True, False):
        net = network(graph_gradient=graph_gradient, beta=1.0)
        denoising = Denoising(net, torch.from_numpy(X), nearest_candidates(X, 15), torch.Generator().manual_seed(0))
        denoising.loss(masked).backward()
        gradients.append(net.convs[0].weight.grad)
    assert (gradients[0] - gradients[1]).abs().max() > 1e-6


@pytest.mark.parametrize("sparse", [False, True])
def test_the_loss_falls_below_that_of_the_column_means(sparse):
    X, _ = documents()
    net, lists, generator = network(), nearest_candidates(X, 15), torch.Generator().manual_seed(0)
    features = scipy.sparse.csr_array(X) if sparse else torch.from_numpy(X)
    denoising = Denoising(net, features, lists, generator)
    draws = [denoising.masking.draw(generator) for _ in range(20)]
    constant = denoising.masking.first_bias()
    by_means = np.mean([float(denoising.masking.mean_loss(constant[d.columns], d.targets)) for d in draws])
    optimizer = torch.optim.Adam([*net.convs.parameters(), *denoising.parameters()], lr=0.02)
    for _ in range(150):
        optimizer.zero_grad()
        denoising(generator).backward()
        optimizer.step()
    with torch.no_grad():
        trained = np.mean([float(denoising.loss(draw)) for draw in draws])
    assert trained < 0.95 * by_means


def test_a_draw_without_entries_has_loss_0():
    X, _ = documents()
    denoising = Denoising(network(), torch.from_numpy(X), nearest_candidates(X, 15))
    none = torch.empty(0, dtype=torch.int64)
    loss = denoising.loss(MaskedRows(torch.from_numpy(X), none, none, torch.empty(0).double()))
    loss.backward()
    assert loss == 0
    assert (denoising.decoder.grad == 0).all()


def test_without_self_supervision_training_is_the_plain_loop_to_the_last_bit():
    X, topic = documents()
    y = torch.from_numpy(np.where(np.arange(60) < 12, topic, -1))
    validation = torch.arange(60) < 3
    lists = nearest_candidates(X, 15)
    net = network()
    arguments = {"validation_mask": validation, "max_epochs": 10, "patience": 10, "random_state": 5}
    epochs = list(train(net, X, lists, y, self_supervised=0.0, **arguments))
    plain, generator = network(), torch.Generator().manual_seed(5)
    plain.reset_parameters(generator)
    optimizer = torch.optim.Adam(plain.parameters(), lr=0.005, fused=True)
    order = train(copy.deepcopy(plain), X, lists, y, **arguments)._task  # rows are sorted for the cache
    best, lowest = None, np.inf
    for epoch in epochs:
        logits = plain.classify(order.propagated, order.neighborhood, order.rows)
        losses = [
            torch.nn.functional.cross_entropy(logits[part], order.labels[part])
            for part in (order.training, order.validation)
        ]
        assert losses[0].item() == epoch.loss
        if losses[1].item() < lowest:
            lowest, best = losses[1].item(), copy.deepcopy(plain.state_dict())
        optimizer.zero_grad()
        losses[0].backward()
        optimizer.step()
    for name, weight in net.state_dict().items():
        assert torch.equal(weight, best[name])


def test_the_decoder_is_no_part_of_the_network():
    X, topic = documents()
    y = np.where(np.arange(60) < 12, topic, -1)
    net = network()
    names = list(net.state_dict())
    list(train(net, X, nearest_candidates(X, 15), y, max_epochs=2, self_supervised=1.0))
    assert list(net.state_dict()) == names


@pytest.mark.parametrize("weight", [-1.0, float("inf")])
def test_a_weight_out_of_range_is_refused(weight):
    with pytest.raises(ValueError, match=r"self_supervised must be finite and >= 0, got .*; 0 trains on labels alone"):
        check_self_supervised(weight, 1)


def test_several_processes_are_refused():
    check_self_supervised(0.0, 2)
    with pytest.raises(ValueError, match=r"must be 0 where several processes share the rows, got 0.5 with 2 processes"):
        check_self_supervised(0.5, 2)
