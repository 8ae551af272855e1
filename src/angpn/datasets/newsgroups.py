"""20News: word counts of the four ``rec`` groups of 20 Newsgroups, from the raw messages."""

import re
from collections import Counter
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from angpn.datasets.archives import archive_files
from angpn.datasets.cache import Source, download, read_arrays
from angpn.utils.files import replacing

ARCHIVE = Source(
    "https://ndownloader.figshare.com/files/5975967",
    "sha256:8f1b2514ca22a5ade8fbb9cfa5727df95fa587f4c87b786e15c759fa66d95610",
    "20news-bydate.tar.gz",
    "scikit-learn's fetch_20newsgroups",
)
GROUPS = ("rec.autos", "rec.motorcycles", "rec.sport.baseball", "rec.sport.hockey")
# Two messages that the matrix of Zhou et al. (2004) does not have.
ABSENT = ("train/rec.motorcycles/104667", "train/rec.motorcycles/104668")
MIN_DOCUMENTS = 6  # words in fewer documents are dropped

_WORD = re.compile(r"[a-z]{2,}")


class WordCounts(NamedTuple):
    """The number of occurrences of each word in each document."""

    counts: scipy.sparse.csr_array  # (n, d) int
    target: np.ndarray[Any, Any]  # (n,) the group
    vocabulary: list[str]
    documents: list[str]  # "train/rec.autos/101551"


def load_arrays(folder: Path, *, progress: bool) -> dict[str, np.ndarray[Any, Any]]:
    """Read the matrix from 20news.npz, which is computed from the raw messages where it is missing."""
    prepared = folder / "20news.npz"
    if not prepared.exists():
        raw = folder / "20news_raw.zip"
        found = count_words(read_messages(raw if raw.exists() else download(ARCHIVE, folder, progress=progress)))
        weighted = tf_idf(found.counts)
        with replacing(prepared) as temporary, temporary.open("wb") as file:
            np.savez_compressed(
                file,
                data=weighted.data.astype(np.float32),
                indices=weighted.indices,
                indptr=weighted.indptr,
                shape=np.array(weighted.shape),
                y=found.target,
                class_names=np.array(GROUPS),
                vocab=np.array(found.vocabulary),
            )
    arrays = read_arrays(prepared)
    meta = folder / "20news_meta.npz"
    if "vocab" not in arrays and meta.exists():
        arrays["vocab"] = read_arrays(meta)["vocab"]
    return arrays


def read_messages(archive: Path) -> dict[str, str]:
    """Read the messages of the four groups, by part/group/number."""
    found = {}
    for name, contents in archive_files(archive, lambda name: Path(name).parent.name in GROUPS):
        part, group, number = name.split("/")[-3:]
        found[f"{part.removeprefix('20news-bydate-')}/{group}/{number}"] = contents.decode("latin-1")
    if not found:
        raise ValueError(
            f"{archive} must hold messages of {', '.join(GROUPS)}, got none; it is not the published archive"
        )
    return found


def count_words(messages: Mapping[str, str]) -> WordCounts:
    """Count words of the bodies: two letters or more, not a SMART stop word, in six documents or more.

    Words are not stemmed, although the paper that published the matrix says so: with Porter's stems 6,553 would remain
    of 8,014. Documents without a remaining word are dropped.
    """
    stop = frozenset((files("angpn.datasets") / "smart_stop_words.txt").read_text().split())
    order = sorted(name for name in messages if name not in ABSENT)
    order.sort(key=lambda name: GROUPS.index(name.split("/")[1]))
    bags = {}
    for name in order:
        _, _, body = messages[name].replace("\r\n", "\n").partition("\n\n")
        bags[name] = Counter(word for word in _WORD.findall(body.lower()) if word not in stop)
    document_frequency = Counter(word for bag in bags.values() for word in bag)
    vocabulary = sorted(word for word, count in document_frequency.items() if count >= MIN_DOCUMENTS)
    column = {word: number for number, word in enumerate(vocabulary)}
    kept = {name: {column[word]: n for word, n in bag.items() if word in column} for name, bag in bags.items()}
    kept = {name: bag for name, bag in kept.items() if bag}
    starts = np.cumsum([0, *(len(bag) for bag in kept.values())])
    columns = np.array([number for bag in kept.values() for number in bag])
    values = np.array([n for bag in kept.values() for n in bag.values()])
    counts = scipy.sparse.csr_array((values, columns, starts), shape=(len(kept), len(vocabulary)))
    counts.sort_indices()
    target = np.array([GROUPS.index(name.split("/")[1]) for name in kept])
    return WordCounts(counts, target, vocabulary, list(kept))


def tf_idf(counts: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Return the counts times ln(n / number of documents with the word)."""
    documents = np.bincount(counts.indices, minlength=counts.shape[1])
    weights = np.log(counts.shape[0] / np.maximum(documents, 1))
    return scipy.sparse.csr_array(counts @ scipy.sparse.diags_array(weights))
