"""Several processes (torchrun on this machine) against one: the same lists, weights and answers."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.preprocessing import normalize
from typer.testing import CliRunner

import sharded_job as job
from angpn import ANGPNClassifier, nearest_candidates
from angpn.anfp.propagation import Direction
from angpn.cli import app
from angpn.neighbors.approximate import approximate_candidates
from angpn.neighbors.distributed import is_main_process, join_process_group, n_processes

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without torch.distributed")
PROCESSES = 2


def start(name, folder, processes=PROCESSES):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    return subprocess.run(
        [*command, str(Path(job.__file__)), name, str(folder)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def run(name, folder, processes=PROCESSES):
    done = start(name, folder, processes)
    assert done.returncode == 0, done.stderr[-3000:]
    found = []
    for rank in range(processes):
        with np.load(folder / f"{name}{rank}.npz") as file:
            found.append(dict(file))
    return found


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    return run("weights", tmp_path_factory.mktemp("weights"))


@pytest.fixture(scope="module")
def indexed(tmp_path_factory):
    pytest.importorskip("faiss")
    return run("indexed", tmp_path_factory.mktemp("indexed"), processes=3)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, _ in job.variants()])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-4), (np.float64, 1e-9)])
def test_after_twenty_epochs_weights_and_losses_are_those_of_one_process(weights, name, dtype, tolerance):
    x, y, _ = job.problem(dtype)
    neighborhood = nearest_candidates(x, job.M)
    network, losses = job.trained(x, y, neighborhood, **dict(job.variants())[name])
    for found in weights:
        prefix = f"{dtype.__name__}.{name}"
        assert_allclose(found[f"{prefix}.losses"], losses, rtol=tolerance)
        for place, weight in enumerate(network.parameters()):
            assert_allclose(found[f"{prefix}.{place}"], weight.detach(), rtol=tolerance, atol=tolerance)


@pytest.fixture(scope="module")
def sparse_weights(tmp_path_factory):
    return run("sparse_weights", tmp_path_factory.mktemp("sparse_weights"), processes=3)


@pytest.mark.parametrize("name", [name for name, _ in job.sparse_variants()])
@pytest.mark.slow
def test_sparse_rows_give_the_weights_of_one_process_too(sparse_weights, name):
    x, y = job.words()
    network, losses = job.trained(x, y, nearest_candidates(x, job.M), **dict(job.variants())[name])
    for found in sparse_weights:
        assert_allclose(found[f"{name}.losses"], losses, rtol=1e-9)
        assert_allclose(found[f"{name}.weight"], network.convs[0].weight.detach(), rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings("ignore:training did not settle", "ignore:. of 200 sampled rows would be labelled")
@pytest.mark.slow
def test_an_estimator_takes_sparse_rows_that_are_shared_out(sparse_weights):
    x, y = job.words()
    model = job.small_network().fit(x, y)
    for found in sparse_weights:
        assert_allclose(found["distributions"], model.label_distributions_, rtol=1e-8)


@pytest.mark.slow
def test_lists_are_those_of_one_process(weights):
    x, *_ = job.problem()
    neighborhood = nearest_candidates(x, job.M)
    for found in weights:
        assert_array_equal(found["float64.lists"], neighborhood.indices)
        assert_allclose(found["float64.near"], neighborhood.distances, atol=1e-12)


@pytest.mark.slow
def test_lists_may_be_longer_than_parts_and_take_several_turns(tmp_path):
    x, count = job.few_rows()
    neighborhood = nearest_candidates(x, count)
    for found in run("lists", tmp_path, processes=3):
        assert_array_equal(found["indices"], neighborhood.indices)
        assert_allclose(found["distances"], neighborhood.distances, atol=1e-12)


@pytest.mark.slow
def test_rows_are_shared_out_and_halos_are_smaller_than_the_rest(weights):
    own, all_seen = zip(*(found["float64.halo"] for found in weights), strict=True)
    assert sum(own) == 241
    assert max(own) - min(own) <= 1
    assert max(all_seen) < 241


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.slow
def test_an_index_that_is_shared_out_finds_the_nearest(indexed, sparse):
    x = job.many(sparse)
    exact = nearest_candidates(x, job.M)
    for found in indexed:
        lists, near = found[f"{sparse}.lists"], found[f"{sparse}.near"]
        share = np.mean([len(np.intersect1d(*rows)) for rows in zip(lists, exact.indices, strict=True)]) / job.M
        assert 0.85 < share < 1
        assert found[f"{sparse}.recall"] == pytest.approx(share, abs=0.05)
        rows = np.repeat(np.arange(len(lists)), job.M)
        unit = normalize(x)
        pairs = unit[rows] - unit[lists.ravel()]
        lengths = np.sqrt((pairs * pairs).sum(axis=1))
        assert_allclose(near.ravel(), lengths, atol=1e-5)


@pytest.mark.slow
def test_an_index_that_is_shared_out_finds_what_that_of_one_process_does(indexed):
    one = approximate_candidates(job.many(sparse=False), job.M)
    for found in indexed:
        assert_array_equal(found["False.lists"], one.neighborhood.indices)
        assert_array_equal(found["False.near"], one.neighborhood.distances)


@pytest.mark.slow
def test_an_index_may_be_shared_out_where_most_rows_are_equal(indexed):
    x = job.mostly_equal()
    rows = np.arange(len(x))[:, None]
    for found in indexed:
        lists, near = found["equal.lists"], found["equal.near"]
        assert (lists != rows).all()
        assert all(len(np.unique(numbers)) == job.M for numbers in lists)
        assert_allclose(near, np.linalg.norm(x[lists] - x[rows], axis=2), atol=1e-4)
        assert not near[200:].any()


@pytest.mark.filterwarnings("ignore:no training label for class")
@pytest.mark.slow
def test_a_process_without_labels_takes_part(tmp_path):
    x, y = job.labelled_in_a_corner()
    network, losses = job.trained(x, y, nearest_candidates(x, job.M))
    processes = run("unlabelled_part", tmp_path, processes=3)
    assert [int(found["labelled"]) for found in processes] == [70, 0, 0]
    for found in processes:
        assert_allclose(found["losses"], losses, rtol=1e-9)
        assert_allclose(found["weight"], network.perceptron.weight.detach(), rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings("ignore:training did not settle")
@pytest.mark.slow
def test_every_process_ends_with_the_whole_fitted_model(tmp_path):
    x, y, _ = job.problem()
    model = job.small_network().fit(x, y)
    for found in run("estimator", tmp_path):
        assert_allclose(found["distributions"], model.label_distributions_, rtol=1e-8)
        assert_array_equal(found["lists"], model.neighborhood_.indices)
        assert_allclose(found["new"], model.predict_proba(x[:9] + 0.01), rtol=1e-8)


def test_an_ensemble_whose_rows_are_distributed_is_that_of_one_process(tmp_path):
    x, y, _ = job.problem()
    processes = run("ensemble", tmp_path)
    for direction in get_args(Direction):
        model = job.default(direction=direction).fit(x, y)
        for found in processes:
            assert_allclose(found[f"{direction}.distributions"], model.label_distributions_, atol=1e-4)
            assert_allclose(found[f"{direction}.new"], model.predict_proba(x[:9] + 0.01), atol=1e-4)


@pytest.mark.slow
def test_under_torchrun_the_command_writes_and_speaks_once(tmp_path):
    done = start("command", tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("rows labelled from") == 1
    assert len((tmp_path / "out" / "predictions.csv").read_text().splitlines()) == 242


@pytest.mark.slow
def test_in_a_job_a_fit_must_say_whether_rows_are_distributed(tmp_path):
    done = start("unsaid", tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    for name in ("default0", "default1", "network0", "network1"):
        assert (tmp_path / f"{name}.txt").read_text() == (
            "distributed must be said in a job of several processes, got 2 processes and distributed=None; pass "
            "distributed=True to share the rows out, or distributed=False for independent fits"
        )


@pytest.mark.filterwarnings("ignore:training did not settle")
@pytest.mark.slow
def test_independent_fits_of_a_job_do_not_wait_for_each_other(tmp_path):
    processes = run("independent", tmp_path)
    for rank, found in enumerate(processes):
        x, y, _ = job.problem(n=200 + 20 * rank)
        default = job.default().fit(x, y).label_distributions_
        network = job.small_network().fit(x, y).label_distributions_
        for group in (False, True):
            assert_allclose(found[f"default.{group}"], default, atol=1e-4)
            assert_allclose(found[f"network.{group}"], network, rtol=1e-8)


def test_distributed_needs_a_job():
    x, y, _ = job.problem()
    with pytest.raises(ValueError, match="distributed=True needs several processes, got neither torchrun nor an init"):
        ANGPNClassifier(distributed=True).fit(x, y)


@pytest.mark.parametrize(("size", "distributed"), [("1", None), ("1", True), ("2", False)])
def test_a_job_of_one_process_and_one_that_is_not_asked_for_are_not_joined(monkeypatch, size, distributed):
    monkeypatch.setenv("WORLD_SIZE", size)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    assert not join_process_group(distributed)
    assert n_processes() == 1
    assert is_main_process()
    assert not torch.distributed.is_initialized()


@pytest.mark.slow
def test_the_command_must_say_too(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    done = CliRunner().invoke(app, ["label", "rows.npy", "--labels", "labels.csv"])
    assert done.exit_code == 1
    assert "error: distributed must be said in a job of several processes" in done.output


def start_without_torchrun(name, folder):
    """The processes by themselves: torchrun would end the one that is left before it could say anything."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(Path(job.__file__)), name, str(folder)]
    return [
        subprocess.Popen(command, env={**os.environ, **place, "RANK": str(rank)}, stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]


@pytest.mark.slow
def test_a_killed_process_ends_the_job_and_a_checkpoint_takes_it_up(tmp_path):
    unbroken = tmp_path / "unbroken"
    unbroken.mkdir()
    expected = run("checkpointed", unbroken)
    (tmp_path / "kill").touch()
    left, killed = start_without_torchrun("checkpointed", tmp_path)
    killed.communicate(timeout=120)
    assert killed.returncode == -signal.SIGKILL
    error = left.communicate(timeout=60)[1]
    assert left.returncode != 0  # gloo may abort after the error was told
    assert "all processes of the job must stay to the end" in error
    assert (tmp_path / "fit.ckpt").exists()
    (tmp_path / "kill").unlink()
    for found, whole in zip(run("checkpointed", tmp_path), expected, strict=True):
        assert_allclose(found["distributions"], whole["distributions"], rtol=1e-12)
