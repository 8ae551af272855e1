"""DeepWalk: skip-gram embedding of random walks."""

import os
from collections.abc import Iterator

import numpy as np
import scipy.sparse
from numba import njit

from angpn.baselines.base import GraphBaseline, Problem, parameters, require_extra
from angpn.baselines.embedding_cache import cached_embedding
from angpn.baselines.graph import connected
from angpn.baselines.reference import logistic_distributions
from angpn.utils.typing import Array


@parameters
class DeepWalk(GraphBaseline):
    """Perozzi, Al-Rfou, Skiena (2014), *DeepWalk: online learning of social representations*.

    Uniform random walks from every row, skip-gram with hierarchical softmax on them by gensim, then logistic regression
    on the embedding. The defaults are the paper's. The embedding does not depend on the labels: it is cached for the
    next fit on the same graph, and in ``cache_folder`` for other processes.

    Args:
        n_walks: Number of walks from each row.
        walk_length: Number of rows of a walk.
        window: Size of the skip-gram window.
        n_components: Width of the embedding.
        cache_folder: Folder of cached embeddings, or None.
    """

    n_walks: int = 80
    walk_length: int = 40
    window: int = 10
    n_components: int = 128
    cache_folder: str | os.PathLike[str] | None = None

    def _distributions(self, problem: Problem) -> Array:
        require_extra("gensim")
        parts = {
            "method": "DeepWalk",
            "graph": problem.graph,
            "parameters": (self.n_walks, self.walk_length, self.window, self.n_components),
            # Of the embedding, not of the split: with random_state an int it is the same for all splits.
            "seed": problem.seed,
        }
        embedding = cached_embedding(parts, self.cache_folder, lambda: self._embedding(problem))
        self.embedding_, self.cached_seconds_ = embedding.vectors, embedding.cached_seconds
        return logistic_distributions(self.embedding_, problem)

    def _embedding(self, problem: Problem) -> Array:  # (n, n_components)
        word2vec = require_extra("gensim.models").Word2Vec
        model = word2vec(
            _Walks(problem.graph, self.n_walks, self.walk_length, problem.seed),
            vector_size=self.n_components,
            window=self.window,
            sg=1,
            hs=1,
            negative=0,
            min_count=0,
            sample=0,
            epochs=1,
            seed=problem.seed % 2**31,
            workers=1,  # with several the result would depend on their timing
        )
        order = [model.wv.key_to_index[str(row)] for row in range(len(problem.codes))]
        return model.wv.vectors[order]


class _Walks:
    """Iterable of all walks, which gensim reads twice: for the vocabulary and for training."""

    def __init__(self, graph: scipy.sparse.csr_array, n_walks: int, walk_length: int, seed: int) -> None:
        self._graph = connected(graph)
        self._names = np.array([str(row) for row in range(graph.shape[0])], dtype=object)
        self._n_walks, self._walk_length, self._seed = n_walks, walk_length, seed

    def __iter__(self) -> Iterator[list[str]]:
        generator = np.random.default_rng(self._seed)
        for _ in range(self._n_walks):
            starts = generator.permutation(self._graph.shape[0])
            walks = random_walks(self._graph, starts, self._walk_length, int(generator.integers(2**62)))
            for walk in walks:
                yield self._names[walk].tolist()


def random_walks(
    graph: scipy.sparse.csr_array, starts: Array, length: int, seed: int
) -> Array:  # (len(starts), length)
    """Return uniform random walks, one from each start."""
    walks = np.empty((len(starts), length), np.int64)
    walks[:, 0] = starts
    _walk(graph.indptr.astype(np.int64), graph.indices.astype(np.int64), np.uint64(seed), walks)
    return walks


@njit(nogil=True, cache=True)
def _walk(starts, columns, seed, walks):  # type: ignore[no-untyped-def]
    state = seed
    for row in range(walks.shape[0]):
        current = walks[row, 0]
        for step in range(1, walks.shape[1]):
            # splitmix64 (Steele, Lea, Flood 2014)
            state += np.uint64(0x9E3779B97F4A7C15)
            bits = state
            bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            bits = bits ^ (bits >> np.uint64(31))
            degree = np.uint64(starts[current + 1] - starts[current])
            current = columns[starts[current] + np.int64(bits % degree)]
            walks[row, step] = current
