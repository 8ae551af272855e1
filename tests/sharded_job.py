"""What each process of the jobs in neighbors/test_distributed.py does: `torchrun ... sharded_job.py NAME FOLDER`."""

import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import scipy.sparse
import torch
import torch.distributed as dist

from angpn import ANGPN, ANGPNClassifier, ANGPNNetworkClassifier, EnsembleConfig, nearest_candidates, train
from angpn.anfp.propagation import Direction
from angpn.cli import main
from angpn.neighbors.distributed import _leave, join_process_group
from angpn.neighbors.distributed_search import DistributedSearch, distribute_rows
from angpn.neighbors.locality import in_local_order
from angpn.network.training_loop import Training

K, M = 5, 12
MANY_ROWS = EnsembleConfig(max_rows_compared=100)  # a hundred count as many, which are distributed


def problem(dtype=np.float64, n=241):
    """Rows in three clusters, a quarter labelled; as many as do not divide evenly."""
    generator = np.random.default_rng(0)
    truth = generator.integers(3, size=n)
    x = (generator.normal(size=(3, 6))[truth] + 0.8 * generator.normal(size=(n, 6))).astype(dtype)
    y = np.where(generator.random(n) < 0.25, truth, -1)
    return x, y, truth


def trained(x, y, neighborhood, epochs=20, **options):
    """Weights after some epochs."""
    dtype = torch.float32 if x.dtype == np.float32 else torch.float64
    network = ANGPN(x.shape[1], 7, 3, n_neighbors=K, normalize_hidden=True, **options).to(dtype)
    mask = (y != -1) & (np.arange(len(y)) % 3 == 0)
    run = train(network, x, neighborhood, y, validation_mask=mask, max_epochs=epochs, random_state=1)
    losses = [(epoch.loss, epoch.validation_loss, epoch.validation_accuracy) for epoch in run]
    return network, np.array(losses)


def variants():
    """Ways to propagate, each with its own traffic."""
    for direction in ("directed", "symmetric", "normalized"):
        yield direction, {"direction": direction}
    yield "torch", {"direction": "normalized", "backend": "torch"}
    yield "fixed", {"beta": 0.0, "direction": "symmetric"}
    yield "settled", {"num_steps": None}
    yield "constant", {"graph_gradient": False, "direction": "normalized"}
    yield "local", {"gamma": "local", "rule": "printed", "beta": 0.01}


def weights(folder):
    """The weights of each variant in both precisions."""
    found = {}
    for dtype in (np.float32, np.float64):
        x, y, _ = problem(dtype)
        neighborhood = distribute_rows(DistributedSearch(x, M))
        for name, options in variants():
            network, losses = trained(x, y, neighborhood, **options)
            found |= {f"{dtype.__name__}.{name}.losses": losses}
            found |= {
                f"{dtype.__name__}.{name}.{place}": weight.detach().numpy()
                for place, weight in enumerate(network.parameters())
            }
        whole = neighborhood.in_data_order()
        found |= {f"{dtype.__name__}.lists": whole.indices.numpy(), f"{dtype.__name__}.near": whole.distances.numpy()}
        found[f"{dtype.__name__}.halo"] = np.array([neighborhood.n_rows, neighborhood.n_columns])
    np.savez(folder / f"weights{dist.get_rank()}.npz", **found)


def words():
    """The same rows with a third of their entries zero, so that no two are alike."""
    x, y, _ = problem()
    return scipy.sparse.csr_array(np.where(np.abs(x) > 0.5, x, 0)), y


def sparse_variants():
    """Those that sparse rows can go."""
    return ((name, options) for name, options in variants() if options.get("backend") != "torch")


def sparse_weights(folder):
    """The weights of each variant on sparse rows."""
    x, y = words()
    neighborhood = distribute_rows(DistributedSearch(x, M))
    found = {}
    for name, options in sparse_variants():
        network, found[f"{name}.losses"] = trained(x, y, neighborhood, **options)
        found[f"{name}.weight"] = network.convs[0].weight.detach().numpy()
    found["distributions"] = small_network(distributed=True).fit(x, y).label_distributions_
    np.savez(folder / f"sparse_weights{dist.get_rank()}.npz", **found)


def few_rows():
    """So few that a part of three has fewer than a list."""
    return np.random.default_rng(2).normal(size=(60, 3)), 45


def lists(folder):
    """The lists of a few rows, asked for in several turns."""
    x, count = few_rows()
    whole = distribute_rows(DistributedSearch(x, count), max_queries=25).in_data_order()
    np.savez(folder / f"lists{dist.get_rank()}.npz", indices=whole.indices, distances=whole.distances)


def many(sparse):
    """Rows for an index, dense or as words are."""
    generator = np.random.default_rng(1)
    x = generator.normal(size=(5, 40))[generator.integers(5, size=1501)] + generator.normal(size=(1501, 40))
    return scipy.sparse.csr_array(np.maximum(x - 1, 0)) if sparse else x.astype(np.float32)


def mostly_equal():
    """Rows of which most are in one group, so that a process may have none to answer for."""
    x = many(sparse=False)
    x[200:] = x[0]
    return x


def indexed(folder):
    """Neighbours by an index that is shared out, with the recall that was measured."""
    found = {}
    for kind in (False, True):
        x = many(kind)
        search = DistributedSearch(x, M, recall=0.9, max_exact_rows=100)
        shard = distribute_rows(search)
        whole = shard.in_data_order()
        found |= {f"{kind}.lists": whole.indices.numpy(), f"{kind}.near": whole.distances.numpy()}
        found[f"{kind}.recall"] = np.array(search.recall(shard))
    x = mostly_equal()
    whole = distribute_rows(DistributedSearch(x, M, "euclidean", max_exact_rows=100)).in_data_order()
    found |= {"equal.lists": whole.indices.numpy(), "equal.near": whole.distances.numpy()}
    np.savez(folder / f"indexed{dist.get_rank()}.npz", **found)


def labelled_in_a_corner():
    """Labels only in that third of the rows which is dealt out first."""
    x, _, truth = problem()
    y = np.full(len(x), -1)
    first = in_local_order(nearest_candidates(x, M)).partition.rows[:70].numpy()
    y[first] = truth[first]
    return x, y


def unlabelled_part(folder):
    """The weights of a job in which one process has no labels."""
    x, y = labelled_in_a_corner()
    neighborhood = distribute_rows(DistributedSearch(x, M))
    network, losses = trained(x, y, neighborhood)
    np.savez(
        folder / f"unlabelled_part{dist.get_rank()}.npz",
        losses=losses,
        weight=network.perceptron.weight.detach(),
        labelled=np.sum(y[neighborhood.partition.rows] != -1),
    )


def small_network(distributed=None):
    """Without dropout, which each process draws for itself."""
    return ANGPNNetworkClassifier(
        hidden_layer_sizes=(8, 8),
        n_neighbors=K,
        n_candidates=M,
        max_iter=20,
        random_state=0,
        dropout=0.0,
        distributed=distributed,
    )


def estimator(folder):
    """A fit like any other; each process keeps what it got."""
    x, y, _ = problem()
    model = small_network(distributed=True).fit(x, y)
    np.savez(
        folder / f"estimator{os.environ['RANK']}.npz",
        distributions=model.label_distributions_,
        lists=model.neighborhood_.indices,
        new=model.predict_proba(x[:9] + 0.01),
    )
    _leave()
    threads = [Path(f"/proc/self/task/{task}/comm").read_text() for task in os.listdir("/proc/self/task")]
    assert not [name for name in threads if "gloo" in name]  # such a thread would abort the interpreter at its end


def unsaid(folder):
    """Fits that do not say whether rows are to be distributed: what each is told."""
    x, y, _ = problem()
    for name, kind in (("default", ANGPNClassifier()), ("network", small_network())):
        with pytest.raises(ValueError, match="distributed") as refused:
            kind.fit(x, y)
        (folder / f"{name}{os.environ['RANK']}.txt").write_text(str(refused.value))
    assert not dist.is_initialized()


def independent(folder):
    """Fits of different rows by each process for itself; the second begins only when the first has ended."""
    rank = int(os.environ["RANK"])
    x, y, _ = problem(n=200 + 20 * rank)
    found = {}
    for group in (False, True):  # also where the script has a process group for its own use
        if group:
            store = dist.FileStore(str(folder / "store"), 2)
            dist.init_process_group("gloo", store=store, rank=rank, world_size=2, timeout=timedelta(seconds=30))
        while rank and not (folder / f"first{group}").exists():
            time.sleep(0.1)
        found[f"default.{group}"] = default(distributed=False).fit(x, y).label_distributions_
        found[f"network.{group}"] = small_network(distributed=False).fit(x, y).label_distributions_
        assert dist.is_initialized() == group
        if rank == 0:
            (folder / f"first{group}").touch()
    np.savez(folder / f"independent{rank}.npz", **found)
    _leave()


def default(**options):
    """The automatic estimator, for which these rows are many."""
    return ANGPNClassifier(random_state=0, config=MANY_ROWS, **options)


def ensemble(folder):
    """The automatic estimator, on rows that count as many."""
    x, y, _ = problem()
    found = {}
    for direction in get_args(Direction):
        model = default(direction=direction, distributed=True).fit(x, y)
        found[f"{direction}.distributions"] = model.label_distributions_
        found[f"{direction}.new"] = model.predict_proba(x[:9] + 0.01)
    np.savez(folder / f"ensemble{dist.get_rank()}.npz", **found)


def command(folder):
    """angpn label, as users have it."""
    x, y, _ = problem()
    sys.argv = ["angpn", "label", str(folder / "rows.npy"), "--labels", str(folder / "labels.csv")]
    sys.argv += ["-o", str(folder / "out"), "--distributed"]
    if dist.get_rank() == 0:
        np.save(folder / "rows.npy", x)
        known = np.flatnonzero(y != -1)
        lines = [f"{row},class {y[row]}" for row in known]
        (folder / "labels.csv").write_text("\n".join(["id,label", *lines]) + "\n")
    dist.barrier()
    main()


def checkpointed(folder):
    """A fit that keeps a checkpoint; process 1 is killed in the middle where the file `kill` is there."""
    x, y, _ = problem()
    kill = (folder / "kill").exists()

    inner = Training._epoch

    def epoch(self, number):
        if kill and number == 12 and dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return inner(self, number)

    Training._epoch = epoch
    model = ANGPNNetworkClassifier(
        hidden_layer_sizes=(8, 8),
        n_neighbors=K,
        n_candidates=M,
        max_iter=30,
        random_state=0,
        checkpoint=folder / "fit.ckpt",
        resume=True,
        distributed=True,
    ).fit(x, y)
    np.savez(folder / f"checkpointed{dist.get_rank()}.npz", distributions=model.label_distributions_)


if __name__ == "__main__":
    torch.set_num_threads(1)
    name = sys.argv[1]
    if name not in ("unsaid", "independent"):
        assert join_process_group(distributed=True)
    globals()[name](Path(sys.argv[2]))
