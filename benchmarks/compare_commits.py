"""Default fits of two source trees beside each other, such as two commits that `git worktree add` checked out.

    python benchmarks/compare_commits.py OLD NEW [--shapes 150x4,1797x64,5000x256,50000x256] [--turns 3] [--threads 1]

OLD and NEW are folders that contain the package angpn, such as the src of a checkout. Both get the same problems, which
the installed angpn makes (`angpn.bench.problems`). Each fit has a process of its own, in which a fit of the first 1,000
rows comes first, since that loads what is compiled; the trees take turns. Printed for each shape as a line of JSON:
medians of the fit's seconds, wall clock and CPU, of the accuracy on unlabelled rows, and ratios. A table of all follows
on standard error.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

WARM_UP = 1_000
FIGURES = "wall", "cpu", "accuracy"


def fit(path: Path) -> None:
    """Fit the problem of a file with the angpn of this process, and print what was measured."""
    import angpn
    from angpn import ANGPNClassifier

    if Path(angpn.__file__).resolve().parents[1] != Path(os.environ["PYTHONPATH"]):
        sys.exit(f"angpn must come from {os.environ['PYTHONPATH']}, got {angpn.__file__}")
    warnings.simplefilter("ignore")
    with np.load(path) as file:
        X, y, truth = file["X"], file["y"], file["truth"]
    ANGPNClassifier(random_state=0).fit(X[:WARM_UP], y[:WARM_UP])
    wall, cpu = time.perf_counter(), time.process_time()
    model = ANGPNClassifier(random_state=0).fit(X, y)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    accuracy = float(np.mean((model.transduction_ == truth)[y == -1]))
    print(json.dumps({"wall": wall, "cpu": cpu, "accuracy": accuracy}))


def run(tree: Path, problem: Path, threads: int) -> dict[str, float]:
    """Run a fit in a new process that imports angpn from a tree."""
    limits = {f"{name}_NUM_THREADS": str(threads) for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
    done = subprocess.run(
        [sys.executable, __file__, "fit", str(problem)],
        env={**os.environ, **limits, "PYTHONPATH": str(tree)},
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        sys.exit(f"the fit with {tree} failed, see above")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(shape: str, trees: dict[str, Path], turns: int, threads: int) -> dict[str, object]:
    """Alternate fits of both trees on the problem of a shape, and return medians and ratios."""
    from angpn.bench.problems import labelled_rows

    runs: dict[str, list[dict[str, float]]] = {name: [] for name in trees}
    with tempfile.TemporaryDirectory() as folder:
        problem = Path(folder) / "problem.npz"
        np.savez(problem, **labelled_rows(shape)._asdict())
        for turn in range(turns):
            for name in ("old", "new") if turn % 2 == 0 else ("new", "old"):
                runs[name].append(run(trees[name], problem, threads))
                figures = ", ".join(f"{key} {value:.3f}" for key, value in runs[name][-1].items())
                print(f"{shape}, turn {turn + 1}, {name}: {figures}", file=sys.stderr, flush=True)
    medians = {name: {key: float(np.median([one[key] for one in runs[name]])) for key in FIGURES} for name in runs}
    ratios = {f"{key}_old_over_new": medians["old"][key] / medians["new"][key] for key in ("wall", "cpu")}
    return {"shape": shape, "turns": turns, "threads": threads, **medians, **ratios}


def show(found: list[dict[str, object]]) -> None:
    """Print all comparisons as one table on standard error."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="A default fit, old → new: seconds, and accuracy on unlabelled rows")
    for name in ("shape", "wall", "ratio", "CPU", "ratio", "accuracy, %"):
        table.add_column(name, justify="left" if name == "shape" else "right")
    for at in found:
        old, new = at["old"], at["new"]
        cells = []
        for key in ("wall", "cpu"):
            cells += [f"{old[key]:.3f} → {new[key]:.3f}", f"{at[f'{key}_old_over_new']:.2f}"]
        table.add_row(at["shape"], *cells, f"{100 * old['accuracy']:.2f} → {100 * new['accuracy']:.2f}")
    Console(stderr=True).print(table)


def main() -> None:
    """Compare two trees, or run the one fit of a new process."""
    if sys.argv[1:2] == ["fit"]:
        fit(Path(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--shapes", default="150x4,1797x64,5000x256,50000x256")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    trees = {"old": options.old.resolve(), "new": options.new.resolve()}
    for tree in trees.values():
        if not (tree / "angpn" / "__init__.py").is_file():
            parser.error(f"a source tree must contain angpn/__init__.py, got {tree}; name the folder src of a checkout")
    found = []
    for shape in options.shapes.split(","):
        found.append(compare(shape, trees, options.turns, options.threads))
        print(json.dumps(found[-1]), flush=True)
    show(found)


if __name__ == "__main__":
    main()
