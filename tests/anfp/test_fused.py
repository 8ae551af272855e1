"""The compiled backend against the dense reference on the same neighbourhood: values and gradients, all variants."""

import multiprocessing
import os
import subprocess
import sys

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from angpn import ANGPNConv, nearest_candidates
from angpn.anfp.algorithm import Options, algorithm1
from angpn.anfp.fused import algorithm1_fused
from angpn.neighbors.neighborhood import Neighborhood
from problems import awkward_features

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}

VARIANTS = st.fixed_dictionaries(
    {
        "alpha": st.sampled_from([0.2, 0.5, 0.9]),
        "beta": st.sampled_from([0.0, 0.3, 1.0]),
        "gamma": st.sampled_from(["auto", "local", 0.3]),
        "rule": st.sampled_from(["simplex", "printed"]),
        "num_steps": st.integers(1, 4),
        "direction": st.sampled_from(["directed", "symmetric", "normalized"]),
        "graph_gradient": st.booleans(),
        "normalize": st.booleans(),
    }
)


def problem(seed: int, n: int, d: int, m: int, dtype: torch.dtype) -> tuple[torch.Tensor, Neighborhood, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(n, 5, generator=generator, dtype=torch.float64)
    features = torch.nn.functional.normalize(torch.randn(n, d, generator=generator, dtype=torch.float64) + 0.3)
    return features.to(dtype), nearest_candidates(points, m).to(dtype), torch.randn(n, d, generator=generator).to(dtype)


def value_and_gradient(run, features, cotangent):
    leaf = features.clone().requires_grad_()
    out = run(leaf)
    out.backward(cotangent)
    return out.detach(), leaf.grad


def near_a_kink(neighborhood, features, options) -> bool:
    """Whether rounding could put an entry on the other side of its threshold, in any step: there the gradient jumps.

    gamma "local" puts the candidate after the k-th exactly there wherever all affinities of a row are equal.
    """
    features = features.double()
    noise = 1e-6 * torch.randn(features.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for steps in range(1, options["num_steps"] + 1):
        near, *moved = (
            algorithm1(neighborhood, rows, Options(**options | {"num_steps": steps}))[1]
            for rows in (features, features + noise, features - noise)
        )
        if ((near > 0) & (near < 1e-5)).any() or any(((near > 0) != (other > 0)).any() for other in moved):
            return True
    return False


def assert_same(ours, reference, tolerance):
    for a, b in zip(ours, reference, strict=True):
        scale = b.abs().max().clamp(min=1e-30)
        assert_close(a / scale, b / scale, atol=tolerance, rtol=0)


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    shape=st.sampled_from([(30, 4, 12), (40, 1, 6), (33, 7, 32), (80, 50, 70), (25, 3, 9)]),
    options=VARIANTS,
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_agrees_with_the_dense_backend(seed, shape, options, dtype):
    n, d, m = shape
    features, neighborhood, cotangent = problem(seed, n, d, m, dtype)
    options = {"n_neighbors": 5} | options
    assume(not near_a_kink(neighborhood.to(torch.float64).to_dense(), features, options))
    dense = value_and_gradient(
        lambda h: algorithm1(neighborhood.to_dense(), h, Options(**options))[0], features, cotangent
    )
    ours = value_and_gradient(lambda h: algorithm1_fused(neighborhood, h, Options(**options)), features, cotangent)
    # The printed rule multiplies rounding by its row sums at every step.
    slack = 10 ** options["num_steps"] if options["rule"] == "printed" and dtype == torch.float32 else 1
    assert_same(ours, dense, TOLERANCE[dtype] * slack)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), options=VARIANTS, count=st.sampled_from([1, 2, 7, 12, 29, 30]))
def test_some_rows_are_those_rows_of_all(seed, options, count):
    features, neighborhood, cotangent = problem(seed, 30, 4, 12, torch.float64)
    options = {"n_neighbors": 5} | options
    rows = torch.randperm(30, generator=torch.Generator().manual_seed(seed))[:count]
    some = value_and_gradient(
        lambda h: algorithm1_fused(neighborhood, h, Options(**options), rows), features, cotangent[rows]
    )
    every = value_and_gradient(
        lambda h: algorithm1(neighborhood, h, Options(**options))[0][rows], features, cotangent[rows]
    )
    assert_same(some, every, 1e-10)


PAPER = {
    "n_neighbors": 5,
    "alpha": 0.5,
    "beta": 0.3,
    "gamma": "auto",
    "rule": "simplex",
    "num_steps": 2,
    "direction": "directed",
    "graph_gradient": True,
    "normalize": True,
}


@pytest.mark.parametrize("rows", [None, torch.tensor([3, 1, 20])])
def test_run_to_convergence(rows):
    features, neighborhood, cotangent = problem(0, 30, 4, 12, torch.float64)
    options = PAPER | {"num_steps": None}
    kept = slice(None) if rows is None else rows
    dense = value_and_gradient(
        lambda h: algorithm1(neighborhood.to_dense(), h, Options(**options))[0][kept], features, cotangent[kept]
    )
    ours = value_and_gradient(
        lambda h: algorithm1_fused(neighborhood, h, Options(**options), rows), features, cotangent[kept]
    )
    assert_same(ours, dense, 1e-10)


def test_a_single_candidate_with_a_numeric_gamma():
    features, neighborhood, cotangent = problem(0, 30, 4, 1, torch.float64)
    options = PAPER | {"gamma": 0.3}
    dense = value_and_gradient(
        lambda h: algorithm1(neighborhood.to_dense(), h, Options(**options))[0], features, cotangent
    )
    ours = value_and_gradient(lambda h: algorithm1_fused(neighborhood, h, Options(**options)), features, cotangent)
    assert_same(ours, dense, 1e-12)


def test_m_of_k_plus_one():
    features, neighborhood, cotangent = problem(0, 30, 4, 6, torch.float64)
    dense = value_and_gradient(
        lambda h: algorithm1(neighborhood.to_dense(), h, Options(**PAPER))[0], features, cotangent
    )
    ours = value_and_gradient(lambda h: algorithm1_fused(neighborhood, h, Options(**PAPER)), features, cotangent)
    assert_same(ours, dense, 1e-12)


def test_input_that_is_not_contiguous():
    features, neighborhood, cotangent = problem(0, 30, 4, 12, torch.float64)
    strided = torch.stack([features, features], dim=2)[..., 0]
    assert not strided.is_contiguous()
    ours = value_and_gradient(
        lambda h: algorithm1_fused(neighborhood, h.T.contiguous().T, Options(**PAPER)), strided, cotangent
    )
    assert_same(
        ours,
        value_and_gradient(lambda h: algorithm1_fused(neighborhood, h, Options(**PAPER)), features, cotangent),
        1e-15,
    )


@pytest.mark.parametrize("rule", ["simplex", "printed", "knn"])
def test_a_fixed_graph_is_made_once(rule):
    features, neighborhood, _ = problem(0, 30, 4, 12, torch.float64)
    options = PAPER | {"beta": 0.0, "rule": rule}
    first = algorithm1_fused(neighborhood, features, Options(**options))
    graphs = [value for key, value in neighborhood.memo.items() if key[0] == "graph"]
    assert_close(algorithm1_fused(neighborhood, features, Options(**options)), first)
    assert [value for key, value in neighborhood.memo.items() if key[0] == "graph"] == graphs
    assert_close(
        first, algorithm1(neighborhood.to_dense(), features, Options(**options))[0] if rule != "knn" else first
    )


@pytest.mark.parametrize("direction", ["directed", "symmetric", "normalized"])
def test_the_result_is_the_same_bit_for_bit_whatever_the_threads(direction):
    features, neighborhood, cotangent = problem(0, 1200, 10, 12, torch.float32)
    options = PAPER | {"direction": direction}
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3, 2):
            torch.set_num_threads(threads)
            results.append(
                value_and_gradient(lambda h: algorithm1_fused(neighborhood, h, Options(**options)), features, cotangent)
            )
    finally:
        torch.set_num_threads(before)
    for result in results[1:]:
        assert_same(result, results[0], 0.0)


def test_awkward_rows_forward_and_backward():
    x = awkward_features()
    neighborhood = nearest_candidates(x, 12)
    for direction in ("directed", "symmetric", "normalized"):
        out, gradient = value_and_gradient(
            lambda h, direction=direction: algorithm1_fused(
                neighborhood, h, Options(**(PAPER | {"direction": direction}))
            ),
            x,
            torch.ones(40, 13),
        )
        assert torch.isfinite(out).all()
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, 1e30])
def test_scores_that_are_not_finite(bad):
    features, neighborhood, _ = problem(0, 30, 4, 12, torch.float32)
    features[3, 1] = bad
    with pytest.raises(ValueError, match="each row needs finite scores, got NaN or an overflow; look for NaN or huge"):
        algorithm1_fused(neighborhood, features, Options(**(PAPER | {"normalize": False})))


@pytest.mark.parametrize("scale", [1e8, 1e-8])
def test_scores_near_1e8_keep_rows_on_the_simplex(scale):
    features, neighborhood, _ = problem(0, 60, 4, 20, torch.float32)
    ones = torch.ones(60, 1)
    joined = torch.cat([ones, features], dim=1)  # what rows sum to shows in the column of ones
    out = algorithm1_fused(neighborhood, joined, Options(**(PAPER | {"gamma": scale})))
    assert_close(out[:, :1], ones, atol=1e-6, rtol=0)


def _in_child(queue) -> None:
    features, neighborhood, cotangent = problem(0, 1200, 10, 12, torch.float64)
    queue.put(
        value_and_gradient(lambda h: algorithm1_fused(neighborhood, h, Options(**PAPER)), features, cotangent)[0]
        .sum()
        .item()
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_safe_after_a_fork():
    features, neighborhood, cotangent = problem(0, 1200, 10, 12, torch.float64)
    before = (
        value_and_gradient(lambda h: algorithm1_fused(neighborhood, h, Options(**PAPER)), features, cotangent)[0]
        .sum()
        .item()
    )
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_in_child, args=(queue,), daemon=True)
    child.start()
    child.join(30)
    exitcode = child.exitcode
    child.kill()
    assert exitcode == 0, "the child hung or crashed"
    assert queue.get() == before


@pytest.mark.slow
def test_compiled_code_is_kept_for_the_next_process(tmp_path):
    code = (
        "import torch; from angpn import ANGPNConv, nearest_candidates; from angpn.kernels import rows;"
        "x = torch.rand(40, 4, requires_grad=True); neighborhood = nearest_candidates(x, 9);"
        "ANGPNConv(4, 2, n_neighbors=5)(x, neighborhood).sum().backward();"
        "print(sum(sum(k.stats.cache_misses.values()) for k in vars(rows).values() if hasattr(k, 'stats')))"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    misses = [
        int(
            subprocess.run(
                [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
            ).stdout
        )
        for _ in range(2)
    ]
    assert misses[0] > 0
    assert misses[1] == 0


@pytest.mark.parametrize("backend", ["auto", "kernel", "torch", "dense"])
def test_every_backend_gives_the_same_layer(backend):
    features, neighborhood, _ = problem(0, 30, 4, 12, torch.float64)
    layer = ANGPNConv(4, 3, n_neighbors=5, backend=backend).double()
    layer.reset_parameters(torch.Generator().manual_seed(0))
    reference = ANGPNConv(4, 3, n_neighbors=5, backend="dense").double()
    reference.load_state_dict(layer.state_dict())
    assert_close(layer(features, neighborhood), reference(features, neighborhood))
    rows = torch.tensor([4, 2])
    assert_close(layer.propagate(features, neighborhood, rows), reference.propagate(features, neighborhood)[rows])


def test_bad_backends():
    features, neighborhood, _ = problem(0, 30, 4, 12, torch.float32)
    with pytest.raises(ValueError, match="backend must be one of 'auto', 'kernel', 'torch', 'dense', got 'cuda'"):
        ANGPNConv(4, 3, backend="cuda")
    with pytest.raises(ValueError, match=r"backend='kernel' works on candidate lists, got an \(n, n\) matrix"):
        ANGPNConv(4, 3, n_neighbors=5, backend="kernel")(features, neighborhood.to_dense())
