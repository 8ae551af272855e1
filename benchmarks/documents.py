"""A default fit of half a million sparse documents, 1 % labelled, without a dense copy.

    python benchmarks/documents.py [documents]

Documents are synthetic: 60 words of 50,000, half of them by Zipf's law, half from the words of one of 300 topics; a
class has thirty topics.
"""

import json
import sys
import time
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.feature_extraction.text import TfidfTransformer

from angpn import ANGPNClassifier
from angpn.utils.memory import peak_bytes

WORDS, CLASSES, TOPICS, LENGTH, OWN, SHARE, LABELLED = 50_000, 10, 300, 60, 500, 0.5, 0.01


def make_documents(n: int) -> tuple[scipy.sparse.csr_array, np.ndarray]:
    """Return TF-IDF features and the class of each document."""
    generator = np.random.default_rng(n)
    topic = generator.integers(TOPICS, size=n)
    words = _drawn(generator, WORDS, (n, LENGTH))
    lists = np.stack([generator.permutation(WORDS)[:OWN] for _ in range(TOPICS)]).astype(np.int32)
    own = generator.random((n, LENGTH)) < SHARE
    words[own] = lists[topic[np.nonzero(own)[0]], _drawn(generator, OWN, own.sum())]
    counts = scipy.sparse.csr_array(
        (np.ones(n * LENGTH, np.float32), words.ravel(), np.arange(0, n * LENGTH + 1, LENGTH)), shape=(n, WORDS)
    )
    counts.sum_duplicates()
    return scipy.sparse.csr_array(TfidfTransformer(sublinear_tf=True).fit_transform(counts)), topic % CLASSES


def _drawn(generator: np.random.Generator, n_words: int, shape: Any) -> np.ndarray:
    """Draw words by Zipf's law, the first the most frequent."""
    frequent = 1 / np.arange(1, n_words + 1)
    return generator.choice(n_words, size=shape, p=frequent / frequent.sum()).astype(np.int32)


def main() -> None:
    """Print the measurements as one line of JSON."""
    n = int(sys.argv[1]) if sys.argv[1:] else 500_000
    X, truth = make_documents(n)
    y = np.full(n, -1)
    known = np.random.default_rng(0).permutation(n)[: int(LABELLED * n)]
    y[known] = truth[known]
    start = time.perf_counter()
    model = ANGPNClassifier(random_state=0, verbose=True).fit(X, y)
    found = {
        "documents": n,
        "seconds": time.perf_counter() - start,
        "neighbour_seconds": model.neighbor_seconds_,
        "recall": model.recall_,
        "accuracy": float(np.mean((model.transduction_ == truth)[y == -1])),
        "peak_gb": (peak_bytes() or 0) / 1e9,
        "rows_gb": (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / 1e9,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
