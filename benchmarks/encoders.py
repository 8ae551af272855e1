"""Accuracy and time of encoders of texts and images, by the number of labels.

    ANGPN_DATA=folder python benchmarks/encoders.py texts [results/encoders.jsonl] [--model FOLDER] [--sets ...]
    ANGPN_DATA=folder python benchmarks/encoders.py images [results/encoders.jsonl] [--networks a.pt,...]

Texts of three kinds: messages of four groups of 20 Newsgroups without their headers (``20news_raw.zip``, 500 a group),
docstrings of functions of eight Python packages up to their parameters (150 a package), and one-line descriptions of
Debian packages of eight sections (150 a section, from ``apt-cache dumpavail``). Encoders are TF-IDF, WordLlama and, by
``--model``, a folder of sentence-transformers; then TF-IDF and one of these, and what labels choose. Images are
100 of each class of CIFAR-10; ``--networks`` names files of TorchScript. The default is fitted with 3, 10 and 50 labels
a class, drawn three times; accuracy is that of the other rows. Seconds are those of encoding all rows, choosing and
fitting, on one thread. One line for each run, appended as it comes.
"""

import argparse
import importlib
import inspect
import json
import os
import re
import subprocess
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.preprocessing import normalize

from angpn import ANGPNClassifier
from angpn.features import image_features
from angpn.features.image_networks import feature_network, input_size
from angpn.labelling.block_weights import choose_weights, join_blocks
from angpn.labelling.embedding_encoder import EmbeddingEncoder
from angpn.labelling.encoders import TextEncoder

LABELS, DRAWS = (3, 10, 50), (10, 11, 12)
SECTIONS = ("games", "science", "sound", "graphics", "mail", "math", "web", "database")
MODULES = ("sympy", "networkx", "torch", "numpy", "scipy.special", "scipy.stats", "matplotlib.pyplot", "polars")
Texts = tuple[list[str], np.ndarray]


def messages() -> Texts:
    """Return messages of 20 Newsgroups and their group."""
    by_group: dict[str, list[str]] = {}
    with zipfile.ZipFile(Path(os.environ["ANGPN_DATA"]) / "20news_raw.zip") as archive:
        for name in archive.namelist():
            body = archive.read(name).decode("latin-1").partition("\n\n")[2]
            by_group.setdefault(name.split("/")[1], []).append(body)
    return _drawn(by_group, 500)


def docstrings() -> Texts:
    """Return what functions do, by their own words, and the package that they are from."""
    by_module: dict[str, list[str]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in MODULES:
            module = importlib.import_module(name)
            public = [getattr(module, each) for each in dir(module) if not each.startswith("_")]
            texts = [inspect.getdoc(each) or "" for each in public if callable(each)]
            heads = [re.split(r"\n(?=Parameters|Examples|Args|Returns|See Also|>>>)", text)[0] for text in texts]
            by_module[name] = sorted({head.strip()[:1000] for head in heads} - {""})
    return _drawn(by_module, 150)


def packages() -> Texts:
    """Return one-line descriptions of packages and their section."""
    found = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True).stdout
    by_section: dict[str, set[str]] = {name: set() for name in SECTIONS}
    for record in found.split("\n\n"):
        fields = dict(re.findall(r"^(Section|Description): (.+)", record, re.MULTILINE))
        if fields.get("Section") in by_section and "Description" in fields:
            by_section[fields["Section"]].add(fields["Description"])
    return _drawn({name: sorted(texts) for name, texts in by_section.items()}, 150)


def _drawn(by_class: dict[str, list[str]], count: int) -> Texts:
    generator = np.random.default_rng(0)
    chosen = {name: generator.permutation(len(texts))[:count] for name, texts in by_class.items()}
    texts = [by_class[name][row] for name, rows in chosen.items() for row in rows]
    return texts, np.repeat(np.arange(len(chosen)), [len(rows) for rows in chosen.values()])


SETS: dict[str, Callable[[], Texts]] = {"packages": packages, "docstrings": docstrings, "messages": messages}


def labelled(truth: np.ndarray, count: int, draw: int) -> np.ndarray:
    """Return the labels of so many rows of each class, None for all others."""
    generator = np.random.default_rng(draw)
    y = np.full(len(truth), None, dtype=object)
    for name in np.unique(truth):
        rows = generator.permutation(np.flatnonzero(truth == name))[:count]
        y[rows] = str(name)
    return y


def fitted(X: Any, y: np.ndarray, truth: np.ndarray) -> float:
    """Return the accuracy of the default on unlabelled rows."""
    model = ANGPNClassifier(random_state=0).fit(X, y)
    unlabelled = np.array([label is None for label in y])
    return float(np.mean((model.transduction_ == truth.astype(str))[unlabelled]))


def measure_texts(write: Callable[..., None], sets: list[str], model: str | None) -> None:
    """Measure encoders of texts."""
    for name in sets:
        texts, truth = SETS[name]()
        embeddings = {"wordllama": "wordllama"} | ({} if model is None else {"model": f"sentence-transformers:{model}"})
        encoders: dict[str, Any] = {"tfidf": TextEncoder()}
        encoders |= {short: EmbeddingEncoder(long) for short, long in embeddings.items()}
        blocks, seconds = {}, {}
        for short, encoder in encoders.items():
            start = time.perf_counter()
            blocks[short] = normalize(encoder.fit_transform(texts))
            seconds[short] = time.perf_counter() - start
        for count in LABELS:
            for draw in DRAWS:
                y = labelled(truth, count, draw)
                for short, rows in blocks.items():
                    start = time.perf_counter()
                    accuracy = fitted(rows, y, truth)
                    took = time.perf_counter() - start + seconds[short]
                    write(set=name, rows=len(texts), labels=count, draw=draw, encoder=short, accuracy=accuracy, s=took)
                for short in embeddings:
                    pair = [blocks["tfidf"], blocks[short]]
                    start = time.perf_counter()
                    weights = choose_weights(pair, y)
                    choosing = time.perf_counter() - start
                    for how, used in (("both", (1.0, 1.0)), ("chosen", weights)):
                        start = time.perf_counter()
                        accuracy = fitted(join_blocks(pair, used), y, truth)
                        took = time.perf_counter() - start + seconds["tfidf"] + seconds[short]
                        took += choosing if how == "chosen" else 0
                        about = {"set": name, "rows": len(texts), "labels": count, "draw": draw, "weights": used}
                        write(**about, encoder=f"{how} tfidf {short}", accuracy=accuracy, s=took)
        write(set=name, rows_a_second={short: len(texts) / seconds[short] for short in seconds})


def measure_images(write: Callable[..., None], networks: list[str]) -> None:
    """Measure encoders of images."""
    with np.load(Path(os.environ["ANGPN_DATA"]) / "cifar10_images.npz") as found:
        images, truth = found["X"], found["y"]
    kept = np.concatenate([np.flatnonzero(truth == name)[:100] for name in np.unique(truth)])
    images, truth = images[kept], truth[kept]
    for name in ("efficientnet-lite0", *networks):
        network = feature_network(name)
        start = time.perf_counter()
        X = image_features(images, model=network, size=input_size(network), batch_size=16)
        seconds = time.perf_counter() - start
        write(set="cifar10", rows_a_second={Path(name).name: len(images) / seconds}, size=input_size(network))
        for count in LABELS:
            for draw in DRAWS:
                y = labelled(truth, count, draw)
                start = time.perf_counter()
                accuracy = fitted(X, y, truth)
                took = time.perf_counter() - start + seconds
                write(set="cifar10", labels=count, draw=draw, encoder=Path(name).name, accuracy=accuracy, s=took)


def main() -> None:
    """Append a line of JSON for each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("texts", "images"))
    parser.add_argument("output", nargs="?", default="results/encoders.jsonl", type=Path)
    parser.add_argument("--model", help="folder of a model of sentence-transformers")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--networks", default="", help="TorchScript files, comma-separated")
    given = parser.parse_args()
    torch.set_num_threads(1)

    def write(**facts: Any) -> None:
        with given.output.open("a") as file:
            file.write(json.dumps(facts) + "\n")

    if given.what == "texts":
        measure_texts(write, given.sets.split(","), given.model)
    else:
        measure_images(write, [name for name in given.networks.split(",") if name])


if __name__ == "__main__":
    main()
