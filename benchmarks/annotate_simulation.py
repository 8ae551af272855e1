"""A simulated person labels by ``angpn annotate``: labels needed, beside random order, and whether "reached" is true.

    ANGPN_DATA=folder python benchmarks/annotate_simulation.py [results/annotate.jsonl] [--seeds 10] [--sets digits,...]

The person knows the truth and labels whatever row comes next, audits included (one in five after the first twenty
rows). The queue, the log, the estimate and the model are those of the server; the model is fitted after each ten
labels. A fifth of the rows, drawn once a seed, is never asked for: accuracy is counted on it. Compared is random order
with the same model. The goal is 90 % of the accuracy that the labels of all other rows give; that is also the
``--target``, so that it is known whether the interval holds the truth at the moment when the target is first said to be
reached. One line for each run, appended as it comes; a restart resumes. At most 1,500 rows of a set are taken, and at
most 300 labels.
"""

import argparse
import json
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars

from angpn.annotation.actions import Label, Post
from angpn.annotation.contents import Contents
from angpn.annotation.learning import RowLearner
from angpn.annotation.messages import Begin, Learn
from angpn.annotation.project import Project
from angpn.annotation.session import BATCH, Session
from angpn.annotation.views import state_view
from angpn.datasets import load_20news, load_cifar10, load_digits
from angpn.labelling.input_options import InputOptions
from angpn.labelling.input_rows import Rows

ROWS, TEST, GOAL = 1500, 0.2, 0.9
MOST = 300  # labels after which a run ends
ARRAYS = {"digits": load_digits, "cifar10": load_cifar10, "20news": load_20news}


def read_set(name: str, seed: int) -> tuple[Rows, np.ndarray]:
    """Return the rows of a set, at most so many, and their classes."""
    if name in ARRAYS:
        X, truth = ARRAYS[name](return_X_y=True)
        chosen = np.sort(np.random.default_rng(seed).permutation(len(truth))[:ROWS])
        return Rows("array", [str(row) for row in range(len(chosen))], X[chosen], None), np.asarray(truth)[chosen]
    frame = polars.read_csv(Path(os.environ["ANGPN_DATA"]) / "tables" / f"{name}.csv", infer_schema_length=None)
    truth = frame[frame.columns[-1]].cast(polars.String).to_numpy()
    frame = frame[:, :-1]
    chosen = np.sort(np.random.default_rng(seed).permutation(len(truth))[:ROWS])
    return Rows("table", [str(row) for row in range(len(chosen))], frame[chosen], None), np.asarray(truth)[chosen]


class Run:
    """One person, one set, one order of the rows."""

    def __init__(self, name: str, seed: int) -> None:
        self.rows, truth = read_set(name, seed)
        self.truth = [f"class {label}" for label in truth]
        self.codes = np.unique(self.truth, return_inverse=True)[1]
        self.options = InputOptions(input=name, seed=seed, impute=True)
        shuffled = np.random.default_rng(1000 + seed).permutation(len(truth))
        self.test, self.pool = np.split(shuffled, [round(TEST * len(truth))])
        self.learner = RowLearner(Begin(self.options, self.rows))

    def accuracy(self, labels: dict[int, int]) -> float:
        """Return the accuracy on test rows of a model of these labels."""
        return self._score(self.learner.learn(Learn(labels, [], [])))

    def _score(self, found: Any) -> float:
        if not hasattr(found, "best"):  # labels of one class teach no model
            return float((self.codes[self.test] == np.bincount(self.codes).argmax()).mean())
        predicted = np.array(found.classes)[found.best[self.test]]
        return float((predicted == self.codes[self.test]).mean())

    def full(self) -> float:
        """Return the accuracy that the labels of all rows but test rows give."""
        found = self.accuracy({int(row): int(self.codes[row]) for row in self.pool})
        self.learner._model = None
        return found

    def random(self, goal: float) -> list[tuple[int, float]]:
        """Label rows in random order until the goal."""
        curve = []
        for count in range(BATCH, min(MOST, len(self.pool)) + 1, BATCH):
            curve.append((count, self.accuracy({int(row): int(self.codes[row]) for row in self.pool[:count]})))
            if curve[-1][1] >= goal:
                break
        self.learner._model = None
        return curve

    def annotate(self, goal: float) -> dict[str, Any]:
        """Label what the queue gives until the target is said to be reached."""
        with tempfile.TemporaryDirectory() as folder:
            project = Project(Path(folder))
            rows = project.open(self.options, self.rows)
            session = Session(project, self.options, rows, Contents(rows), user="person", target=goal)
            session.queue.unreadable = set(self.test.tolist())
            put_aside = Learn({}, [], self.test.tolist())
            session.queue.suggested = self.learner.learn(put_aside).suggested
            curve, reached, count = [], None, 0
            while count < min(MOST, len(self.pool)) and (reached is None or first_at(curve, goal) is None):
                for _ in range(BATCH):
                    (wanted,) = session.next("page", 1)
                    name = self.truth[wanted.row]
                    session.act(Post("page", f"{count}", Label(wanted.row, name)))
                    count += 1
                found = self.learner.learn(session._to_learn()._replace(closed=self.test.tolist()))
                session._on_message(found)
                curve.append((count, self._scored_by_name(session, found)))
                estimate = state_view(session)["estimate"]
                if reached is None and estimate is not None and estimate["reached"]:
                    reached = {"labels": count, "truth": curve[-1][1]} | {
                        key: estimate[key] for key in ("accuracy", "low", "high", "n")
                    }
            project.close()
        return {"curve": curve, "reached": reached}

    def _scored_by_name(self, session: Session, found: Any) -> float:
        if not hasattr(found, "best"):
            return self._score(found)
        names = np.array([session.state.classes[number].name for number in found.classes])
        return float(np.mean(names[found.best[self.test]] == np.array(self.truth)[self.test]))


def first_at(curve: list[tuple[int, float]], goal: float) -> int | None:
    """Return after how many labels the goal was first reached."""
    return next((count for count, accuracy in curve if accuracy >= goal), None)


def main() -> None:
    """Run what is missing, and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("results", nargs="?", type=Path, default=Path("results/annotate.jsonl"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--sets", default="digits,cifar10,20news,optdigits,splice")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    done = [json.loads(line) for line in given.results.read_text().splitlines()] if given.results.exists() else []
    names = given.sets.split(",")
    for seed in range(given.seeds):
        for name in names:
            if any(one["set"] == name and one["seed"] == seed for one in done):
                continue
            run = Run(name, seed)
            full = run.full()
            goal = GOAL * full
            found = {"set": name, "seed": seed, "full": full, "random": run.random(goal), **run.annotate(goal)}
            done.append(found)
            with given.results.open("a") as file:
                file.write(json.dumps(found) + "\n")
    for name in names:
        report(name, [one for one in done if one["set"] == name])


def report(name: str, runs: list[dict[str, Any]]) -> None:
    """Print medians of a set."""
    needed = {
        order: [first_at(one[key], GOAL * one["full"]) or MOST for one in runs]
        for order, key in (("random", "random"), ("annotate", "curve"))
    }
    ratio = np.mean(needed["annotate"]) / np.mean(needed["random"])
    reached = [one["reached"] for one in runs if one["reached"]]
    covered = sum(one["low"] <= one["truth"] <= one["high"] for one in reached)
    print(
        f"{name}: full {np.mean([one['full'] for one in runs]):.3f}, labels to 90 %: random "
        f"{np.mean(needed['random']):.0f}, annotate {np.mean(needed['annotate']):.0f} ({ratio:.2f}); reached in "
        f"{len(reached)} of {len(runs)} runs at {np.mean([one['labels'] for one in reached] or [0]):.0f} labels, the "
        f"interval holds the truth in {covered}"
    )


if __name__ == "__main__":
    main()
