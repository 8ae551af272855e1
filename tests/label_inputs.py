"""Words of synthetic texts, and helpers that write label files and read predictions."""

import csv

import numpy as np

TOPICS = {
    "billing": "invoice payment refund card charge bank account price euro subscription receipt",
    "network": "router wifi cable signal internet connection slow modem outage speed antenna",
    "parcel": "delivery box courier address late tracking shipped package street door returned",
}


def partial_labels(truth, share, seed=0):
    """Return the label for a share of each class, '' for the others."""
    generator = np.random.default_rng(seed)
    labels = np.full(len(truth), "", dtype=object)
    for name in np.unique(truth):
        rows = generator.permutation(np.flatnonzero(truth == name))
        chosen = rows[: max(4, round(share * len(rows)))]
        labels[chosen] = truth[chosen]
    return labels


def write_labels(path, ids, labels):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "label"])
        writer.writerows((name, label) for name, label in zip(ids, labels, strict=True) if label)
    return path


def read_predictions(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
