"""Candidates from an index: as good as asked for, and where found, the same as by exact search."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse
import torch
from numpy.testing import assert_allclose, assert_array_equal

from angpn import ANGPNClassifier, ANGPNNetworkClassifier, nearest_candidates, pairwise_distances
from angpn.ensemble.config import EnsembleConfig
from angpn.estimators import neighbor_search
from angpn.neighbors import approximate
from angpn.neighbors.approximate import FittedSearch, approximate_candidates
from angpn.neighbors.distributed_search import DistributedSearch
from angpn.neighbors.inverted_index import IndexConfig, IndexState, InvertedIndex
from angpn.neighbors.metric_rows import MetricRows, exact_nearest_distances, recall_of
from saved_files import read_saved, write_saved

pytest.importorskip("faiss")
N, M = 1500, 12
METRICS = ["chord", "euclidean", "sqeuclidean"]


def clusters(n=N, seed=0, dtype=np.float32):
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(8, 16))
    return (centres[generator.integers(8, size=n)] + 0.7 * generator.normal(size=(n, 16))).astype(dtype)


def documents(n=N, seed=0):
    generator = np.random.default_rng(seed)
    topics = np.clip(generator.normal(size=(8, 600)) - 1, 0, None)
    counts = generator.poisson(topics[generator.integers(8, size=n)])
    return scipy.sparse.csr_array(counts.astype(np.float64))


def overlap(found, true):
    return np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found.tolist(), true.tolist(), strict=True)])


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("make", [clusters, documents])
def test_the_recall_asked_for_is_met_and_the_one_reported_is_true(make, metric):
    x = make()
    neighborhood, recall, _ = approximate_candidates(x, M, metric, recall=0.9)
    farthest = nearest_candidates(x, M, metric).distances[:, -1:]  # by distance: counts of words often tie
    assert recall >= 0.88
    assert (neighborhood.distances <= farthest + 1e-5).double().mean() == pytest.approx(recall, abs=0.03)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("make", [clusters, documents])
def test_distances_are_those_of_the_rows_found(make, metric):
    x = make(300)
    neighborhood, *_ = approximate_candidates(x, M, metric)
    expected = pairwise_distances(x, metric).gather(1, neighborhood.indices.long())
    assert_allclose(neighborhood.distances, expected, rtol=1e-5, atol=1e-6)


def test_asked_for_everything_it_finds_everything():
    x = clusters(dtype=np.float64)
    neighborhood, recall, _ = approximate_candidates(x, M, "euclidean", recall=1.0)
    assert recall == 1
    assert_array_equal(neighborhood.indices, nearest_candidates(x, M, "euclidean").indices)
    assert neighborhood.distances.dtype == torch.float64


def test_a_lower_recall_looks_into_fewer_groups(monkeypatch):
    x, groups = clusters(6000), {}
    search = InvertedIndex.nearest

    for recall in (0.5, 0.99):

        def watched(self, *arguments, recall=recall):
            groups[recall] = self.n_probed
            return search(self, *arguments)

        monkeypatch.setattr(InvertedIndex, "nearest", watched)
        approximate_candidates(x, M, recall=recall)
    assert groups[0.5] < groups[0.99]


@pytest.mark.parametrize("recall", [0.5, 0.9, 0.98])
def test_hardly_fewer_groups_would_reach_the_recall(recall):
    rows, sample = MetricRows(clusters(12_000), "euclidean"), np.arange(0, 12_000, 30)
    index = InvertedIndex.learn(rows, np.random.default_rng(0), IndexConfig())
    index.add(np.arange(12_000))
    index.tune(sample, M, recall)
    true = exact_nearest_distances(rows, sample, M)

    def found(n_groups):
        return recall_of(index.within(rows[sample], index.groups(rows[sample], n_groups), M, sample)[1], true)

    assert found(index.n_probed) >= recall
    assert found(index.n_probed - max(1, index.n_probed // 8)) < recall


def test_the_same_seed_finds_the_same():
    x = clusters()
    one, same = (approximate_candidates(x, M, random_state=3) for _ in range(2))
    assert_array_equal(one.neighborhood.indices, same.neighborhood.indices)
    assert one.recall == same.recall


@pytest.mark.parametrize("metric", METRICS)
def test_equal_rows_are_at_distance_zero_and_none_is_its_own_candidate(metric):
    x = np.repeat(clusters(40), 20, axis=0)  # more equal rows than candidates
    neighborhood, recall, _ = approximate_candidates(x, M, metric)
    assert not neighborhood.distances.any()
    assert recall == 1
    assert_array_equal(neighborhood.indices // 20, np.broadcast_to(np.arange(800)[:, None] // 20, (800, M)))


def test_of_equal_rows_chance_decides_not_their_order():
    """In files sorted by class the order of the rows would give the labels away."""
    x = np.zeros((2000, 4), np.float32) + 1
    neighborhood, *_ = approximate_candidates(x, M, "euclidean")
    assert 700 < neighborhood.indices.double().mean() < 1300


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
def test_an_empty_row_has_cosine_zero_with_all(kind):
    x = clusters(400, dtype=np.float64)
    x[7] = 0
    neighborhood, *_ = approximate_candidates(kind(x), M, "chord")
    assert_allclose(neighborhood.distances[7], 2**0.5)
    assert not (neighborhood.indices == 7).any()


def test_rows_in_groups_of_few_still_get_all_their_candidates():
    x = np.concatenate([clusters(2000), 100 + 50 * np.eye(16, dtype=np.float32)[:5]])  # five that are far from all
    neighborhood, *_ = approximate_candidates(x, 40, "euclidean", recall=0.3)
    true = nearest_candidates(x, 40, "euclidean")
    assert overlap(neighborhood.indices[-5:], true.indices[-5:]) > 0.2
    assert neighborhood.indices.shape == (2005, 40)


def test_new_rows_find_the_fitted_ones():
    x, new = clusters(), clusters(50, seed=1)
    indices, distances = FittedSearch(x, M, "euclidean", recall=1.0)(new)
    expected = torch.cdist(torch.from_numpy(new), torch.from_numpy(x)).topk(M, largest=False)
    assert_array_equal(indices, expected.indices)
    assert_allclose(distances, expected.values, rtol=1e-3)
    indices, distances = FittedSearch(x, M)(x[10:20])
    assert_array_equal(indices[:, 0], np.arange(10, 20))
    assert not distances[:, 0].any()


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("make", [clusters, documents])
def test_a_restored_index_finds_the_same_without_learning_anything(monkeypatch, make, metric):
    x, new = make(), make(50, seed=1)
    learnt = FittedSearch(x, M, metric)
    monkeypatch.setattr(InvertedIndex, "learn", None)
    restored = FittedSearch(x, M, metric, state=learnt.state)
    for found, expected in zip(restored(new), learnt(new), strict=True):
        assert_array_equal(found, expected)
    for found, expected in zip(restored.state, learnt.state, strict=True):
        assert_array_equal(found, expected)


@pytest.mark.parametrize("make", [clusters, documents])
@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("centres", lambda state: state.centres[:, 1:], "'centres' is float32 of shape"),
        ("centres", lambda state: state.centres * np.nan, "'centres' has values from nan"),
        ("n_probed", lambda state: 0, "'n_probed' has values from 0 to 0"),
        ("n_probed", lambda state: len(state.sizes) + 1, r"index of \d+ groups probes \d+ of them"),
        ("sizes", lambda state: state.sizes[1:], "'sizes' is int64 of shape"),
        ("sizes", lambda state: state.sizes + (np.arange(len(state.sizes)) == 0), "each of 1500 rows once"),
        (
            "sizes",
            lambda state: np.r_[-1, state.sizes[1:-1], state.sizes[[0, -1]].sum() + 1],
            "'sizes' has values from -1",
        ),
        ("rows", lambda state: np.zeros_like(state.rows), "each of 1500 rows once"),
        ("rows", lambda state: state.rows + 1, "'rows' has values from 1 to 1500"),
    ],
)
def test_a_state_that_is_not_of_these_rows_gets_an_error(make, part, change, message):
    x = make()
    state = FittedSearch(x, M).state
    again = IndexState.from_arrays(state.to_arrays(), x)
    assert (again.n_probed, again.recall) == (state.n_probed, state.recall)
    with pytest.raises(ValueError, match=message):
        IndexState.from_arrays(state._replace(**{part: change(state)}).to_arrays(), x)


def test_an_index_of_sparse_rows_has_a_basis():
    state = FittedSearch(documents(), M).state
    for basis in (None, state.basis[1:], state.basis[0]):
        with pytest.raises(ValueError, match="the array 'basis' is"):
            IndexState.from_arrays(state._replace(basis=basis).to_arrays(), documents())


def test_a_recall_that_cannot_be_had_is_told():
    with pytest.warns(UserWarning, match=r"recall of 0.90, got 0.\d\d, since 2 main directions .* pass recall=1"):
        approximate_candidates(documents(), M, config=IndexConfig(n_directions=2, oversampling=1))


def test_rows_mapped_from_a_file_are_not_copied_whole(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", clusters())
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    longest = []
    scaled = MetricRows.scaled

    def watched(self):
        longest.append(len(self))
        return scaled(self)

    monkeypatch.setattr(MetricRows, "scaled", watched)
    config = IndexConfig(block_rows=256, rows_per_centre=2, n_sampled=200)
    neighborhood, *_ = approximate_candidates(mapped, M, config=config)
    approximate_candidates(mapped, M, "euclidean", config=config)
    assert max(longest) <= 2 * 155  # two rows for each of 4 sqrt(n) centres
    assert_array_equal(neighborhood.indices, approximate_candidates(clusters(), M, config=config).neighborhood.indices)


@pytest.fixture
def many_rows(monkeypatch):
    """As if these were very many."""
    monkeypatch.setattr(neighbor_search, "EXACT_ROWS", 100)
    monkeypatch.setattr(neighbor_search, "EXACT_PAIRS", 100)


def some_labels(x):
    truth = (x[:, 0] > 0).astype(int)
    return np.where(np.arange(len(x)) % 8 == 0, truth, -1)


@pytest.mark.filterwarnings("ignore:training did not settle")
@pytest.mark.parametrize(
    "kind", [ANGPNClassifier, partial(ANGPNNetworkClassifier, hidden_layer_sizes=(8,), max_iter=5)]
)
def test_an_estimator_uses_the_index_where_rows_are_many_and_keeps_it(many_rows, kind, monkeypatch):
    x = clusters(400)
    options = {"random_state": 0, "metric": "chord"}
    model = kind(recall=0.9, **options).fit(x, some_labels(x))
    assert 0.85 < model.recall_ <= 1
    exact = kind(recall=1, **options).fit(x, some_labels(x))
    assert exact.recall_ == 1
    assert np.mean(model.transduction_ == exact.transduction_) > 0.95
    assert_array_equal(model.predict(x), model.transduction_)
    monkeypatch.setattr(neighbor_search, "FittedSearch", None)  # not to be made again
    assert_array_equal(model.predict(x), model.transduction_)


@pytest.mark.filterwarnings("ignore:training did not settle")
@pytest.mark.parametrize(
    "kind",
    [
        partial(ANGPNClassifier, config=EnsembleConfig(max_rows_compared=300)),
        partial(ANGPNNetworkClassifier, hidden_layer_sizes=(8,), max_iter=5),
    ],
)
def test_a_model_keeps_what_the_index_of_its_fit_learnt_also_in_its_file(many_rows, kind, monkeypatch, tmp_path):
    x, new = clusters(400), clusters(50, seed=1)
    model = kind(random_state=0, metric="chord").fit(x, some_labels(x))
    assert_array_equal(
        model._fitted.index.rows, FittedSearch(model._fitted.rows, 80, random_state=model._seed).state.rows
    )
    model.save(tmp_path / "fresh")
    expected = model.predict_proba(new)
    model.save(tmp_path / "used")
    monkeypatch.setattr(InvertedIndex, "learn", None)
    for path in (tmp_path / "fresh", tmp_path / "used"):
        assert_array_equal(kind().load(path).predict_proba(new), expected)
    with pytest.raises(TypeError):  # another recall is another number of groups, and is learnt anew
        model.set_params(recall=0.5).predict_proba(new)


def test_an_index_in_a_file_that_is_not_of_its_rows_is_refused(many_rows, tmp_path):
    x = clusters(400)
    model = ANGPNClassifier(random_state=0, metric="chord", config=EnsembleConfig(max_rows_compared=300))
    model.fit(x, some_labels(x)).save(tmp_path / "model")
    saved = read_saved(tmp_path / "model")
    index = {name: array for name, array in saved.arrays.items() if name.startswith("index.")}
    rest = {name: array for name, array in saved.arrays.items() if name not in index}
    assert set(index) == {f"index.{name}" for name in ("centres", "sizes", "rows", "n_probed", "recall")}
    hostile = [{**index, name: index[name] + 10**6} for name in ("index.rows", "index.n_probed")]
    lacking = {name: array for name, array in index.items() if name != "index.centres"}
    for changed in (*hostile, lacking):
        write_saved(tmp_path / "bad", saved._replace(arrays={**rest, **changed}))
        with pytest.raises(ValueError, match=r"bad must hold a model .* got parts that do not fit together"):
            ANGPNClassifier.load(tmp_path / "bad")
    write_saved(tmp_path / "old", saved._replace(arrays=rest))  # as files were before there was an index in them
    assert_array_equal(ANGPNClassifier.load(tmp_path / "old").predict(x[:50]), model.predict(x[:50]))


def test_without_the_library_every_pair_is_compared_and_a_warning_says_so(many_rows, monkeypatch):
    x = clusters(400)
    monkeypatch.setattr(approximate, "find_spec", lambda name: None)
    with pytest.warns(UserWarning, match=r"400 rows should be searched with an index, got no faiss"):
        model = ANGPNClassifier(random_state=0, metric="chord").fit(x, some_labels(x))
    assert model.recall_ == 1


@pytest.mark.parametrize("recall", [0, 1.5])
def test_a_recall_is_a_share(recall):
    with pytest.raises(ValueError, match=r"recall must lie in \(0, 1\], got"):
        ANGPNClassifier(recall=recall).fit(clusters(50), some_labels(clusters(50)))


def test_ties_in_a_part_fall_for_each_row_anew():
    """Else all rows would list the same few of their equals, whose labels then went everywhere."""
    x = np.random.default_rng(0).integers(2, size=(300, 3)).astype(float)
    search = DistributedSearch(x, 12, "euclidean", recall=1)
    found = [search(part, search.groups(part, 1)) for part in torch.arange(300).chunk(2)]
    indices, distances = (torch.cat(parts) for parts in zip(*found, strict=True))
    exact = nearest_candidates(x, 12, "euclidean")
    assert_array_equal(distances, exact.distances)
    assert not (indices == torch.arange(300)[:, None]).any()
    most = [int(torch.bincount(lists.flatten(), minlength=300).max()) for lists in (indices, exact.indices)]
    assert most[0] <= most[1] + 5


def test_rows_too_long_for_the_floats_of_an_index_get_an_error():
    x = 1e20 * clusters(dtype=np.float64)
    with pytest.raises(ValueError, match=r"longer than 1e\+18.*; scale the columns"):
        approximate_candidates(x, M, "euclidean")
    assert_array_equal(
        approximate_candidates(x, M).neighborhood.indices, approximate_candidates(x / 1e20, M).neighborhood.indices
    )
