"""The figures of docs/deviations.md: the effect of each decision where the paper is silent or slips, on real data.

    ANGPN_DATA=folder python benchmarks/deviations.py

Digits come with scikit-learn; CoraML and 20News are read from ANGPN_DATA, and omitted without it.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy.sparse
import torch
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler
from torch import Tensor
from torch.nn.functional import normalize

from angpn import ANGPN, nearest_candidates, neighbor_graph, pairwise_distances, solve_anfp, train
from angpn.anfp.neighbor_graph import resolve_gamma
from angpn.utils.validation import hold_out

K, M, SPLITS = 10, 40, 3


def sets() -> Iterator[tuple[str, Tensor, Tensor]]:
    """Yield name, unscaled float64 rows, and labels."""
    digits = load_digits()
    yield "digits", torch.as_tensor(digits.data), torch.as_tensor(digits.target)
    if "ANGPN_DATA" in os.environ:
        for name in ("coraml", "20news"):
            with np.load(Path(os.environ["ANGPN_DATA"]) / f"{name}.npz") as file:
                rows = scipy.sparse.csr_array((file["data"], file["indices"], file["indptr"]), shape=file["shape"])
                yield name, torch.as_tensor(rows.toarray()).double(), torch.as_tensor(file["y"]).long()


def printed_row_sums() -> None:
    """Print the row sums of S by Eq. (9) as printed."""
    digits = torch.as_tensor(load_digits().data)
    scaled = torch.as_tensor(StandardScaler().fit_transform(digits))
    for name, x in {"raw": digits, "standardised": scaled, "unit rows": normalize(digits)}.items():
        distances = pairwise_distances(x, "euclidean")
        for beta, gamma in ((0.3, "auto"), (0.0, "auto"), (0.0, "local")):
            graph = neighbor_graph(distances, x, n_neighbors=K, beta=beta, gamma=gamma, rule="printed")
            print(f"  digits {name}, beta={beta}, gamma={gamma}: median row sum {graph.sum(dim=1).median():.4g}")


def tied_rows(name: str, x: Tensor) -> None:
    """Print how many rows have equal distances to their k + 1 nearest, and how many to all others."""
    distances = pairwise_distances(x).fill_diagonal_(torch.inf)
    nearest = distances.topk(K + 1, largest=False).values
    distance_range = distances.masked_fill(torch.isinf(distances), -1).amax(dim=1) - nearest[:, 0]
    print(
        f"  {name}: {int((nearest[:, 0] == nearest[:, -1]).sum())} rows whose {K + 1} nearest tie, of those "
        f"{int((distance_range == 0).sum())} equidistant from all {len(x) - 1} others"
    )


def empty_rows_as_neighbours(name: str, x: Tensor) -> None:
    """Print how often an empty row is among the k nearest of a row that is not empty."""
    empty = (x != 0).sum(dim=1) == 0
    if not empty.any():
        return
    for metric, rows in {"chord": x, "euclidean": normalize(x)}.items():
        indices = nearest_candidates(rows, K, metric).indices[~empty]
        print(f"  {name}, {metric}: {empty[indices].double().mean():.1%} of the {K} nearest are empty rows")


def exact_step_two(name: str, x: Tensor) -> None:
    """Print from which alpha on the exact solver meets a graph without minimiser."""
    if len(x) > 2000:
        return  # an eigenvalue problem of that size takes minutes
    x = normalize(x)
    distances = pairwise_distances(x)
    for alpha in (0.5, 0.2, 0.1, 1.9 * (len(x) - 1) ** 0.5 / len(x)):
        try:
            result = solve_anfp(distances, x, n_neighbors=K, beta=0.3, alpha=alpha, max_iter=60)
            outcome = f"{'converged' if result.converged else 'not yet'} after {result.n_iter}"
        except ValueError as error:
            outcome = str(error).split(":")[0]
        print(f"  {name}, n={len(x)}, alpha={alpha:.3f}: {outcome}")


def training_choices(name: str, x: Tensor, truth: Tensor) -> None:
    """Print the test accuracy of the network by option: 10 % labels, 5 % validation, mean over splits."""
    x = normalize(x).float()
    neighborhood, distances = nearest_candidates(x, M), pairwise_distances(x)
    if x.shape[1] > 1000:
        x = scipy.sparse.csr_array(x.numpy())  # text
    base = {"n_neighbors": K, "normalize_hidden": True}
    options = {
        "ANGPN": {},
        "hidden rows not normalised": {"normalize_hidden": False},
        "rule printed": {"rule": "printed"},
        "gamma local": {"gamma": "local"},
        "T = 1": {"num_steps": 1},
        "to convergence": {"num_steps": None},
        "no gradient through S": {"graph_gradient": False},
        "symmetric": {"direction": "symmetric"},
        "normalized": {"direction": "normalized"},
        "NGPN": {"beta": 0.0},
        "binary k-NN": {"beta": 0.0, "rule": "knn"},
    }
    if scipy.sparse.issparse(x):
        del options["to convergence"]  # up to 100 steps in every epoch: too long
    for label, option in options.items():
        scores, outside = [], []
        for split in range(SPLITS):
            generator = torch.Generator().manual_seed(split)
            known = hold_out(truth, 0.15, generator)
            labels = torch.where(known, truth, -1)
            validation = hold_out(labels, 1 / 3, generator)
            network = ANGPN(x.shape[1], 50, int(truth.max()) + 1, **(base | option))
            for _ in train(
                network, x, neighborhood, labels, validation_mask=validation, max_epochs=400, random_state=split
            ):
                pass
            with torch.no_grad():
                scores.append((network(x, neighborhood).argmax(dim=1) == truth)[~known].double().mean().item())
                outside.append(mass_outside(network, x, neighborhood, distances))
        print(
            f"  {name}, {label}: {100 * np.mean(scores):.1f} ({100 * np.std(scores):.1f}), "
            f"mass of the last layer's full S outside the {M} candidates {np.mean(outside):.4f}",
            flush=True,
        )


def mass_outside(network: ANGPN, x, neighborhood, distances: Tensor) -> float:
    """Return the share of the last hidden layer's S, solved over all rows, outside the candidates."""
    conv = network.convs[-1]
    hidden = network.convs[0](x, neighborhood)
    full = conv.graph(hidden, distances)
    return float(1 - (full.gather(1, neighborhood.indices).sum(dim=1) / full.sum(dim=1)).mean())


def main() -> None:
    """Print every figure."""
    torch.set_num_threads(2)
    print("row sums of Eq. (9) as printed")
    printed_row_sums()
    everything = list(sets())
    for title, measure in {
        "ties under the chord distance": lambda name, x, y: tied_rows(name, x),
        "empty rows as neighbours": lambda name, x, y: empty_rows_as_neighbours(name, x),
        "exact Step 2": lambda name, x, y: exact_step_two(name, x),
        "training": training_choices,
    }.items():
        print(title)
        for name, x, y in everything:
            measure(name, x, y)
    print("gamma by the CAN rule, unit rows, chord")
    for name, x, _ in everything:
        own = resolve_gamma(pairwise_distances(x).fill_diagonal_(torch.inf), K, "local")
        print(f"  {name}: mean {own.mean():.3g}, smallest {own.min():.3g}, largest {own.max():.3g}")


if __name__ == "__main__":
    main()
