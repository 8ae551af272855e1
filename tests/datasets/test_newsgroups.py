"""20News from raw messages."""

import io
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal

from angpn.datasets import load_20news
from angpn.datasets.newsgroups import GROUPS, count_words, read_messages, tf_idf

real = pytest.mark.skipif(
    "ANGPN_DATA" not in os.environ, reason="ANGPN_DATA does not name a folder with the raw messages"
)


@real
@pytest.mark.slow
def test_the_matrix_is_computed_from_the_raw_messages():
    folder = Path(os.environ["ANGPN_DATA"])
    found = count_words(read_messages(folder / "20news_raw.zip"))
    assert found.counts.shape[0] == 3970
    assert abs(found.counts.shape[1] - 8014) <= 8  # 0.1 %
    with np.load(folder / "20news_counts.npz") as file:
        counts = scipy.sparse.csr_array((file["data"], file["indices"], file["indptr"]), shape=file["shape"])
    with np.load(folder / "20news_meta.npz") as file:
        meta = {name: file[name] for name in file.files}
    row = {name: place for place, name in enumerate(found.documents)}
    rows = [row[name.replace("20news-bydate-", "")] for name in meta["doc_ids"]]
    column = {word: place for place, word in enumerate(found.vocabulary)}
    known = np.flatnonzero(meta["vocab"] != "")
    ours = found.counts[rows][:, [column[word] for word in meta["vocab"][known]]]
    exact = np.setdiff1d(np.arange(3970), meta["inexact_rows"])
    assert (ours[exact] != counts[:, known][exact]).nnz == 0
    assert_array_equal(found.target[rows], meta["y"])
    with np.load(folder / "20news.npz") as file:
        weighted = scipy.sparse.csr_array((file["data"], file["indices"], file["indptr"]), shape=file["shape"])
    assert_allclose(tf_idf(counts).toarray(), weighted.toarray(), rtol=1e-4, atol=1e-4)


def message(words):
    return f"From: a@b\nSubject: hockey hockey\n\n{words}\n\nsecond part\n".encode("latin-1")


def archive(path, messages):
    with tarfile.open(path, "w:gz") as tar:
        for name, contents in messages.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(contents)
            tar.addfile(entry, io.BytesIO(contents))


def test_the_recipe_on_a_small_archive(tmp_path):
    """Header out, stop words and single letters out, words in five documents out, empty and absent documents out."""
    common = {f"20news-bydate-train/rec.autos/{n}": message("Engine the engine a x W\xe4gen rare") for n in range(5)}
    others = {
        "20news-bydate-test/rec.sport.hockey/7": message("engine puck"),
        "20news-bydate-test/rec.sport.hockey/8": b"Subject: engine\n\nthe a of",
        "20news-bydate-train/rec.motorcycles/104667": message("engine engine"),
        "20news-bydate-train/sci.space/1": message("engine rocket"),
    }
    archive(tmp_path / "some.tar.gz", common | others)
    found = count_words(read_messages(tmp_path / "some.tar.gz"))
    assert found.vocabulary == ["engine", "part"]
    assert found.documents == [*(f"train/rec.autos/{n}" for n in range(5)), "test/rec.sport.hockey/7"]
    assert_array_equal(found.counts.toarray(), [[2, 1]] * 5 + [[1, 1]])
    assert_array_equal(found.target, [0] * 5 + [3])


def test_the_loader_computes_its_file_from_the_messages_and_stores_it(tmp_path):
    messages = {
        f"20news-bydate-train/{group}/{n}": message(f"engine word{group[-3:]} thing")
        for group in GROUPS
        for n in range(7)
    }
    archive(tmp_path / "20news_raw.zip", messages)
    first = load_20news(data_home=tmp_path, progress=False)
    assert first.data.shape[0] == 28
    assert first.target_names.tolist() == list(GROUPS)
    assert "engine" in first.feature_names
    (tmp_path / "20news_raw.zip").unlink()
    again = load_20news(data_home=tmp_path, progress=False)
    assert (again.data != first.data).nnz == 0


def test_an_archive_without_the_groups_is_an_error(tmp_path):
    archive(tmp_path / "other.tar", {"x/y/z": b"hello"})
    with pytest.raises(ValueError, match="other.tar must hold messages of rec.autos"):
        read_messages(tmp_path / "other.tar")
