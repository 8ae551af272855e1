"""Small inputs on disk: scikit-learn's digits as images and as an array, its wine as a table, synthetic tickets."""

import numpy as np
import polars
import pytest
from sklearn.datasets import load_digits, load_wine

from label_inputs import TOPICS, partial_labels, write_labels


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    """Images of three digits, a fifth of them labelled."""
    from PIL import Image

    folder = tmp_path_factory.mktemp("photos")
    digits = load_digits(n_class=3)
    rows = np.random.default_rng(0).permutation(len(digits.target))[:120]
    names = [f"{place:03d}.png" for place in range(len(rows))]
    for name, row in zip(names, rows, strict=True):
        pixels = np.uint8(255 - digits.images[row] * 255 / 16)
        Image.fromarray(pixels).resize((32, 32), Image.Resampling.BICUBIC).save(folder / name)
    truth = np.array([f"digit {label}" for label in digits.target[rows]])
    labels = write_labels(folder.parent / "photo_labels.csv", names, partial_labels(truth, 0.2))
    return folder, labels, dict(zip(names, truth, strict=True))


@pytest.fixture(scope="session")
def tickets(tmp_path_factory):
    """Texts of three topics; one row in eight is labelled."""
    path = tmp_path_factory.mktemp("tickets") / "tickets.csv"
    generator = np.random.default_rng(0)
    topics = generator.choice(list(TOPICS), 150)
    common = ["please", "help", "with", "my", "about", "since", "yesterday", "customer", "number", "thanks"]
    bodies = [
        " ".join(generator.permutation([*generator.choice(TOPICS[topic].split(), 6), *generator.choice(common, 4)]))
        for topic in topics
    ]
    ids = [f"T{number:04d}" for number in range(150)]
    labels = partial_labels(topics, 0.12)
    frame = polars.DataFrame({"ticket": ids, "body": bodies, "topic": [label or None for label in labels]})
    frame.write_csv(path)
    return path, dict(zip(ids, topics.tolist(), strict=True))


@pytest.fixture(scope="session")
def embeddings(tmp_path_factory):
    """Digits as a float32 matrix."""
    folder = tmp_path_factory.mktemp("embeddings")
    digits = load_digits(n_class=5)
    np.save(folder / "embeddings.npy", digits.data.astype(np.float32))
    truth = digits.target.astype(str)
    labels = write_labels(folder / "labels.csv", map(str, range(len(truth))), partial_labels(truth, 0.1))
    return folder / "embeddings.npy", labels, truth


@pytest.fixture(scope="session")
def wine(tmp_path_factory):
    """Wine as a table: numbers, one category, a label column."""
    path = tmp_path_factory.mktemp("wine") / "wine.parquet"
    data = load_wine()
    truth = np.array([f"cultivar {label}" for label in data.target])
    frame = polars.DataFrame({name: data.data[:, place] for place, name in enumerate(data.feature_names)})
    colour = np.where(data.data[:, 9] > np.median(data.data[:, 9]), "dark", "light")
    frame = frame.with_columns(
        polars.Series("colour", colour),
        polars.Series("cultivar", [label or None for label in partial_labels(truth, 0.15)]),
    )
    frame.write_parquet(path)
    return path, truth
