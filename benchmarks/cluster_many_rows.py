"""Clusters of up to a million rows: seconds, peak of memory, and agreement with the clusters they were drawn from.

    python benchmarks/cluster_many_rows.py [100000 300000 1000000]

Rows have 64 columns and are drawn from 20 overlapping clusters, each of which extends in eight directions of its own.
"""

import sys
import time

import numpy as np
from sklearn.metrics import adjusted_rand_score

from angpn import ANGPNClusterer
from angpn.bench.scale import make_clusters
from angpn.utils.memory import forget_peak, peak_bytes

N_CLUSTERS = 20


def main() -> None:
    """Cluster once for each number of rows."""
    for n in map(int, sys.argv[1:] or ["100000"]):
        X, truth = make_clusters(n, N_CLUSTERS, np.random.default_rng(n))
        forget_peak()
        start = time.perf_counter()
        labels = ANGPNClusterer(N_CLUSTERS, random_state=0).fit_predict(X)
        seconds = time.perf_counter() - start
        agreement = adjusted_rand_score(truth, labels)
        print(f"{n:,} rows: {seconds:.0f} s, peak {(peak_bytes() or 0) / 1e9:.2f} GB, ARI {agreement:.3f}", flush=True)


if __name__ == "__main__":
    main()
