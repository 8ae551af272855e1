import numpy as np
import pytest
import scipy.sparse
import torch
from torch.testing import assert_close

from angpn import ANGPN, nearest_candidates, train
from angpn.network.loss import semi_supervised_loss
from angpn.network.training import EPOCHS_WITHOUT_VALIDATION
from angpn.utils.validation import hold_out


@pytest.fixture(scope="module")
def blobs():
    """Three clusters of 20 rows, four labels in each."""
    generator = torch.Generator().manual_seed(0)
    truth = torch.arange(60) // 20
    features = torch.nn.functional.normalize(3 * torch.eye(3)[truth] + torch.randn(60, 3, generator=generator))
    labels = torch.where(torch.arange(60) % 5 == 0, truth, -1)
    return features, nearest_candidates(features, 12), labels, truth


def network():
    return ANGPN(3, 8, 3, n_neighbors=5)


def test_eq15_is_the_mean_cross_entropy_of_the_labelled_rows():
    logits = torch.randn(6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = torch.tensor([0, 2, 1, 1, 0, 2])
    mask = torch.tensor([True, False, True, True, False, False])
    y = torch.eye(3).double()[labels]
    eq15 = -sum((y[i] * logits.softmax(dim=1).log()[i]).sum() for i in range(6) if mask[i])
    assert_close(semi_supervised_loss(logits, labels, mask), eq15 / 3)


def test_it_learns_and_stops_by_itself(blobs):
    features, neighborhood, labels, truth = blobs
    net = network()
    epochs = list(train(net, features, neighborhood, labels, validation_fraction=0.25, patience=30))
    assert len(epochs) < 10_000
    assert [epoch.number for epoch in epochs] == list(range(1, len(epochs) + 1))
    losses = [epoch.validation_loss for epoch in epochs]
    assert min(losses[-30:]) > min(losses[:-30]) - 1e-4
    accuracy = (net(features, neighborhood).argmax(dim=1) == truth).double().mean()
    assert accuracy > 0.9


def test_the_best_weights_are_put_back(blobs):
    features, neighborhood, labels, _ = blobs
    validation = torch.zeros(60, dtype=torch.bool)
    validation[[0, 20, 40]] = True
    labels = labels.clone()
    labels[0] = 1  # a wrong label: after a while, learning the others makes its loss go up
    net = network()
    epochs = list(
        train(net, features, neighborhood, labels, validation_mask=validation, patience=20, learning_rate=0.05)
    )
    best = min(epochs, key=lambda epoch: epoch.validation_loss)
    kept = semi_supervised_loss(net(features, neighborhood), labels, validation).item()
    assert kept == pytest.approx(best.validation_loss, rel=1e-5)
    assert kept < epochs[-1].validation_loss


def test_the_best_weights_are_in_place_after_every_epoch_and_stay_when_the_caller_leaves(blobs):
    features, neighborhood, labels, _ = blobs
    validation = (labels >= 0) & (torch.arange(60) % 20 > 5)
    net = network()
    epochs = train(net, features, neighborhood, labels, validation_mask=validation, learning_rate=1.0)
    lowest = float("inf")
    for epoch in epochs:
        lowest = min(lowest, epoch.validation_loss)
        shown = semi_supervised_loss(net(features, neighborhood), labels, validation).item()
        assert shown == pytest.approx(lowest, rel=1e-5)
        if epoch.number == 12:
            break


def test_an_interrupt_inside_an_epoch_leaves_the_best_weights(blobs, monkeypatch):
    features, neighborhood, labels, _ = blobs
    net = network()
    seen = []
    epochs = train(net, features, neighborhood, labels, validation_fraction=0.25, learning_rate=1.0)

    def interrupt(*arguments):
        raise KeyboardInterrupt

    for _ in range(7):
        next(epochs)
        seen.append(net(features, neighborhood))
    monkeypatch.setattr(net, "classify", interrupt)
    with pytest.raises(KeyboardInterrupt):
        next(epochs)
    monkeypatch.undo()
    assert_close(net(features, neighborhood), seen[-1])


def test_a_loss_that_is_not_a_number_stops_training(blobs):
    features, neighborhood, labels, _ = blobs
    net = ANGPN(3, 8, 3, n_neighbors=5, beta=0.0)
    with pytest.raises(ValueError, match="the loss became nan in epoch .* lower learning_rate, pass features of unit"):
        list(train(net, features, neighborhood, labels, learning_rate=1e30))


def test_the_same_seed_gives_the_same_result(blobs):
    features, neighborhood, labels, _ = blobs
    runs = []
    for seed in (3, 3, 4):
        torch.manual_seed(len(runs))  # the global state does not matter
        net = network()
        epochs = list(train(net, features, neighborhood, labels, max_epochs=20, random_state=seed))
        runs.append((epochs, net(features, neighborhood)))
    assert runs[0][0] == runs[1][0]
    assert_close(runs[0][1], runs[1][1], rtol=0, atol=0)
    assert runs[0][0] != runs[2][0]


def test_validation_labels_are_never_trained_on(blobs):
    features, neighborhood, labels, _ = blobs
    validation = torch.zeros(60, dtype=torch.bool)
    validation[[0, 20, 40]] = True
    flipped = torch.where(validation, (labels + 1) % 3, labels)
    losses = [
        [e.loss for e in train(network(), features, neighborhood, y, validation_mask=validation, max_epochs=20)]
        for y in (labels, flipped)
    ]
    assert losses[0] == losses[1]


def test_a_class_with_a_single_label_trains_and_is_never_held_out(blobs):
    features, neighborhood, labels, truth = blobs
    labels = labels.clone()
    labels[truth == 2] = -1
    labels[47] = 2
    for seed in range(20):
        held = hold_out(labels, 0.5, torch.Generator().manual_seed(seed))
        assert not held[47]
        assert held.sum() == 4  # two of four in each of the others
    net = network()
    list(train(net, features, neighborhood, labels, validation_fraction=0.5, patience=30))
    assert (net(features, neighborhood).argmax(dim=1) == truth)[truth == 2].double().mean() > 0.8


def test_where_nothing_can_be_held_out_training_runs_a_fixed_number_of_epochs_and_says_so(blobs):
    features, neighborhood, _, truth = blobs
    labels = torch.full((60,), -1)
    labels[[0, 20, 40]] = truth[[0, 20, 40]]
    with pytest.warns(UserWarning, match="no label is held out .* 200 epochs .* label two rows or more of some class"):
        epochs = list(train(network(), features, neighborhood, labels))
    assert len(epochs) == EPOCHS_WITHOUT_VALIDATION
    assert epochs[0].validation_loss is None
    assert not any(epoch.is_best for epoch in epochs)


def test_hold_out_takes_the_fraction_of_each_class_and_labelled_rows_only():
    labels = torch.tensor([0] * 10 + [1] * 20 + [-1] * 30)
    held = hold_out(labels, 0.2, torch.Generator().manual_seed(0))
    assert (held[:10].sum(), held[10:30].sum(), held[30:].sum()) == (2, 4, 0)
    assert not hold_out(labels, 0.0, torch.Generator()).any()


def test_numpy_labels_and_a_full_matrix(blobs):
    features, _, labels, _ = blobs
    full = torch.cdist(features, features)
    (epoch,) = train(network(), features.double().numpy(), full, labels.numpy(), max_epochs=1)
    assert np.isfinite(epoch.loss)


@pytest.mark.parametrize("name", ["coraml", "20news"])
@pytest.mark.slow
def test_the_papers_text_trains(real_data, name):
    features, truth = real_data(name)
    generator = torch.Generator().manual_seed(0)
    labels = torch.where(hold_out(truth, 0.1, generator), truth, -1)
    neighborhood = nearest_candidates(features, 20)
    net = ANGPN(features.shape[1], 50, int(truth.max()) + 1, n_neighbors=10, normalize_hidden=True)
    epochs = list(train(net, features, neighborhood, labels, validation_fraction=0.2, max_epochs=25))
    assert epochs[-1].loss < 0.7 * epochs[0].loss
    with torch.no_grad():
        accuracy = (net(features, neighborhood).argmax(dim=1) == truth)[labels < 0].double().mean()
    assert accuracy > {"coraml": 0.5, "20news": 0.85}[name]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": torch.full((60,), -1)}, "training needs labelled rows, got none outside the validation set"),
        ({"labels": torch.arange(60) % 5 - 1 - torch.arange(60) % 5}, "training needs labelled rows, got none"),
        ({"labels": torch.where(torch.arange(60) < 9, 1, -1)}, "at least 2 classes among .* got only class 1; label"),
        ({"labels": torch.zeros(59, dtype=torch.int64)}, "labels must have one row .* expected 60, got 59"),
        ({"labels": torch.full((60,), 3)}, r"labels must lie between -1 .* out_channels - 1 = 2, got 3 to 3"),
        ({"labels": torch.full((60,), -2)}, r"labels must lie between -1 .* got -2 to -2"),
        ({"labels": torch.zeros(60)}, "labels must be one integer a row, got .* torch.float32; number the classes"),
        ({"features": torch.full((60, 3), torch.nan)}, "features must be finite, got 180 NaN or infinite"),
        ({"features": torch.full((60, 3), torch.inf)}, "features must be finite, got 180 NaN or infinite"),
        (
            {"labels": np.array(["a"] * 60)},
            "labels must be .* got ndarray of <U1; number the classes from 0 and write -1",
        ),
        ({"labels": torch.ones(60, dtype=torch.bool)}, "labels must be one integer a row, got .* torch.bool; number"),
        ({"features": torch.ones(60, 2)}, "features must have in_channels=3 columns, got 2"),
        ({"features": torch.ones(6, 3)}, "features must have one row for each row of distances, expected 60, got 6"),
        ({"network": ANGPN(3, 8, 3, n_neighbors=59)}, "n_neighbors=59 needs at least 61 samples, got n_samples=60"),
        ({"validation_mask": torch.ones(60, dtype=torch.bool)}, "must mark labelled rows only, got 48 unlabelled"),
        ({"validation_mask": torch.ones(60)}, "validation_mask must be one bool a row"),
        ({"validation_mask": torch.ones(5, dtype=torch.bool)}, "validation_mask must have one row .* 60, got 5"),
        ({"validation_fraction": 1.0}, r"validation_fraction must lie in \[0, 1\), got 1.0"),
        ({"max_epochs": 0}, "max_epochs and patience must be at least 1, got 0 and 100"),
    ],
)
def test_bad_input_is_refused_before_any_epoch(blobs, change, message):
    features, neighborhood, labels, _ = blobs
    arguments = {"network": network(), "features": features, "distances": neighborhood, "labels": labels} | change
    with pytest.raises(ValueError, match=message):
        train(**arguments)


def test_labels_that_look_like_a_slip_are_warned_of(blobs):
    features, neighborhood, labels, _ = blobs
    with pytest.warns(
        UserWarning, match="no training label for class 2, so it will hardly be predicted; label more rows"
    ):
        train(network(), features, neighborhood, torch.where(labels == 2, -1, labels))


def test_eq15_with_weights_counts_a_row_as_often_as_its_weight(blobs):
    logits = torch.randn(3, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels, mask = torch.tensor([0, 1, 1]), torch.tensor([True, True, True])
    repeated = semi_supervised_loss(logits[[0, 1, 1, 2]], labels[[0, 1, 1, 2]], torch.ones(4, dtype=torch.bool))
    assert_close(semi_supervised_loss(logits, labels, mask, torch.tensor([1.0, 2.0, 1.0]).double()), repeated)


def test_dropout_changes_training_but_not_what_the_network_shows(blobs):
    features, neighborhood, labels, _ = blobs
    net = ANGPN(3, 8, 3, n_neighbors=5, dropout=0.5)
    epochs = list(train(net, features, neighborhood, labels, validation_fraction=0.25, max_epochs=5))
    plain = list(train(network(), features, neighborhood, labels, validation_fraction=0.25, max_epochs=5))
    assert epochs[0].loss != plain[0].loss
    assert epochs[0].validation_loss == pytest.approx(plain[0].validation_loss)  # held-out rows see the whole network
    assert not net.training
    assert_close(net(features, neighborhood), net(features, neighborhood))


def test_a_warm_start_keeps_the_weights(blobs):
    features, neighborhood, labels, _ = blobs
    net = network()
    kept = net.convs[0].weight.detach().clone()
    training = train(net, features, neighborhood, labels, validation_fraction=0.25, warm_start=True)
    assert torch.equal(net.convs[0].weight, kept)
    train(net, features, neighborhood, labels, validation_fraction=0.25)
    assert not torch.equal(net.convs[0].weight, kept)
    assert training.last_epoch == 101


def test_few_rows_are_trained_on_one_thread(blobs, monkeypatch):
    features, neighborhood, labels, _ = blobs
    seen = []
    monkeypatch.setattr(
        "angpn.network.training_loop.Training._epoch", lambda self, number: seen.append(torch.get_num_threads())
    )
    before = torch.get_num_threads()
    training = train(network(), features, neighborhood, labels, validation_fraction=0.25)
    with pytest.raises(AttributeError):
        next(training)
    assert seen == [1]
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("form", [torch.as_tensor, lambda features: scipy.sparse.csr_array(features.numpy())])
def test_many_rows_are_trained_the_same_to_the_bit_on_any_number_of_threads(form, monkeypatch):
    monkeypatch.setattr("angpn.kernels.threads._preemptions", lambda: 0)  # on a busy machine, too, use them all
    generator = torch.Generator().manual_seed(0)
    features = torch.nn.functional.normalize(torch.relu(torch.randn(2500, 20, generator=generator)))
    labels = torch.where(torch.arange(2500) % 2 == 0, features[:, :3].argmax(dim=1), -1)
    neighborhood = nearest_candidates(features, 12)
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            net = ANGPN(20, [50, 20], 3, n_neighbors=5, normalize_hidden=True)
            losses = [epoch.loss for epoch in train(net, form(features), neighborhood, labels, max_epochs=4)]
            results.append((losses, [weight.detach() for weight in net.parameters()]))
    finally:
        torch.set_num_threads(before)
    for losses, weights in results[1:]:
        assert losses == results[0][0]
        assert all(torch.equal(a, b) for a, b in zip(weights, results[0][1], strict=True))
