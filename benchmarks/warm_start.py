"""Labels that grow ten at a time: accuracy and time of ``warm_start=True`` beside a cold fit on the same labels.

    ANGPN_DATA=folder python benchmarks/warm_start.py [results/warm_start.jsonl] [--seeds 10] [--sets digits,...]

From 20 labels, drawn at random, to 120. After each ten, one estimator fits again with what it kept, another anew.
Accuracy is counted on the rows that are never labelled. One line for each run, appended as it comes; a restart resumes.
The table has the mean difference of the two over all sizes, its standard error over the runs, the same for the last
size alone, and how many of the refits searched again.
"""

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from first_labels import load
from threadpoolctl import threadpool_limits

from angpn import ANGPNClassifier

FIRST, LAST, BATCH = 20, 120, 10
NAMES = ("digits", "20news", "optdigits", "pima", "led7digit")


def run(name: str, seed: int) -> dict[str, Any]:
    """Return accuracy and seconds at each number of labels, warm and cold."""
    X, truth = load(name, seed)
    order = np.random.default_rng(seed).permutation(len(truth))
    test, y, curve = order[LAST:], np.full(len(truth), -1), []
    warm = ANGPNClassifier(warm_start=True, random_state=seed)
    for count in range(FIRST, LAST + 1, BATCH):
        y[order[:count]] = truth[order[:count]]
        point: dict[str, Any] = {"labels": count}
        for kind, model in (("warm", warm), ("cold", ANGPNClassifier(random_state=seed))):
            start = time.perf_counter()
            model.fit(X, y)
            point[f"{kind}_seconds"] = round(time.perf_counter() - start, 3)
            point[kind] = round(100 * float((model.transduction_ == truth)[test].mean()), 3)
        curve.append(point)
    return {"dataset": name, "seed": seed, "curve": curve}


def table(records: list[dict[str, Any]]) -> str:
    """Return a line a set, as Markdown."""
    lines = ["| set | warm | cold | difference | with 120 labels | refit, share of a cold fit | searches |"]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in dict.fromkeys(record["dataset"] for record in records):
        runs = [record["curve"][1:] for record in records if record["dataset"] == name]  # the first is cold in both
        warm, cold, warm_seconds, cold_seconds = (
            np.array([[point[key] for point in curve] for curve in runs])
            for key in ("warm", "cold", "warm_seconds", "cold_seconds")
        )
        differences = (warm - cold).mean(axis=1), (warm - cold)[:, -1]
        both = (f"{each.mean():+.2f} ({each.std(ddof=1) / len(each) ** 0.5:.2f})" for each in differences)
        ratio = warm_seconds / cold_seconds
        cells = [name, f"{warm.mean():.2f}", f"{cold.mean():.2f}", *both]
        lines.append(f"| {' | '.join(cells)} | {np.median(ratio):.1%} | {(ratio > 0.5).mean():.0%} |")
    return "\n".join(lines)


def main() -> None:
    """Execute the runs that have no record, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("path", nargs="?", default="results/warm_start.jsonl")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--sets", default=",".join(NAMES))
    options = parser.parse_args()
    path = Path(options.path)
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(record["dataset"], record["seed"]) for record in records}
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with threadpool_limits(1):
        for name in options.sets.split(","):
            for seed in range(options.seeds):
                if (name, seed) not in done:
                    records.append(json.loads(json.dumps(run(name, seed))))
                    with path.open("a") as file:
                        file.write(json.dumps(records[-1]) + "\n")
    print(table(records))


if __name__ == "__main__":
    main()
