"""Safe reading of downloaded archives."""

import io
import pickle
import tarfile
import zipfile

import numpy as np
import pytest
import scipy.io
from numpy.testing import assert_array_equal

from angpn.datasets import archives, load_cifar10, load_svhn
from angpn.datasets.archives import archive_files, unpickle_arrays
from angpn.datasets.image_datasets import CIFAR10, SVHN, read_cifar10, read_svhn, selection


def tar_of(path, files):
    with tarfile.open(path, "w:gz") as tar:
        for name, contents in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(contents)
            tar.addfile(entry, io.BytesIO(contents))


def test_nothing_is_written_whatever_the_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tar_of(tmp_path / "a.tar.gz", {"../../evil": b"x", "/etc/evil": b"y", "good": b"z"})
    assert dict(archive_files(tmp_path / "a.tar.gz", lambda name: True)) == {
        "../../evil": b"x",
        "/etc/evil": b"y",
        "good": b"z",
    }
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar.gz"]


def test_links_are_not_followed(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        entry = tarfile.TarInfo("link")
        entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(entry)
    assert list(archive_files(tmp_path / "a.tar", lambda name: True)) == []


def test_an_archive_beyond_the_size_limit_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MAX_FILE_BYTES", 100)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(10_000))
    with pytest.raises(ValueError, match="bomb.zip must unpack to at most 100 bytes a file .* got more at 'zeros'"):
        list(archive_files(tmp_path / "bomb.zip", lambda name: True))


def test_a_truncated_archive_is_named(tmp_path):
    tar_of(tmp_path / "a.tar.gz", {"file": bytes(range(256)) * 40})
    (tmp_path / "a.tar.gz").write_bytes((tmp_path / "a.tar.gz").read_bytes()[:60])
    with pytest.raises(ValueError, match="a.tar.gz must be a whole tar or zip archive, got one that cannot be read"):
        list(archive_files(tmp_path / "a.tar.gz", lambda name: True))


class _Trap:
    def __reduce__(self):
        return pytest.fail, ("a pickle was executed",)


def test_a_pickle_of_arrays_is_read_and_anything_else_is_an_error():
    found = unpickle_arrays(pickle.dumps({b"data": np.arange(6).reshape(2, 3), b"labels": [1, 2]}, protocol=4))
    assert_array_equal(found[b"data"], [[0, 1, 2], [3, 4, 5]])
    with pytest.raises(ValueError, match="must hold arrays only, got _pytest.outcomes"):
        unpickle_arrays(pickle.dumps({b"data": _Trap()}))
    with pytest.raises(ValueError, match="got one that cannot be read"):
        unpickle_arrays(b"nonsense")
    with pytest.raises(ValueError, match="must be a dictionary, got list"):
        unpickle_arrays(pickle.dumps([1]))


def official_cifar10(path, per_batch=4):
    """An archive with the layout of the official one: pixels by channel, row, column."""
    images = np.random.default_rng(0).integers(0, 256, size=(5 * per_batch, 32, 32, 3), dtype=np.uint8)
    labels = np.arange(5 * per_batch) % 10
    files = {"cifar-10-batches-py/batches.meta": b"not read"}
    for batch in range(5):
        rows = slice(batch * per_batch, (batch + 1) * per_batch)
        flat = images[rows].transpose(0, 3, 1, 2).reshape(per_batch, -1)
        contents = pickle.dumps({b"data": flat, b"labels": labels[rows].tolist()}, protocol=4)
        files[f"cifar-10-batches-py/data_batch_{batch + 1}"] = contents
    tar_of(path, files)
    return images, labels


def test_cifar10_is_read_from_its_official_layout(tmp_path):
    images, labels = official_cifar10(tmp_path / "a.tar.gz")
    found = read_cifar10(tmp_path / "a.tar.gz")
    assert_array_equal(found[0], images)
    assert_array_equal(found[1], labels)
    tar_of(tmp_path / "b.tar.gz", {"cifar-10-batches-py/nothing": b""})
    with pytest.raises(ValueError, match="b.tar.gz must hold 5 training batches, got 0"):
        read_cifar10(tmp_path / "b.tar.gz")


def test_svhn_is_read_from_its_official_layout(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, size=(6, 32, 32, 3), dtype=np.uint8)
    written = {"X": images.transpose(1, 2, 3, 0), "y": np.array([[10], [1], [2], [9], [10], [5]], dtype=np.uint8)}
    scipy.io.savemat(tmp_path / "train_32x32.mat", written)
    found = read_svhn(tmp_path / "train_32x32.mat")
    assert_array_equal(found[0], images)
    assert_array_equal(found[1], [0, 1, 2, 9, 0, 5])


@pytest.mark.parametrize(("dataset", "load"), [(CIFAR10, load_cifar10), (SVHN, load_svhn)], ids=["cifar10", "svhn"])
def test_a_set_is_computed_from_the_official_file_once(tmp_path, monkeypatch, dataset, load):
    """Pixels and descriptors are stored, so that the second call downloads nothing."""
    rows = np.array([3, 1, 2, 9, 8, 7, 6, 5, 4, 10])
    pixels = np.random.default_rng(0).integers(0, 256, size=(11, 32, 32, 3), dtype=np.uint8)
    labels = np.arange(11) % 10
    stub = dataset._replace(read=lambda path: (pixels, labels), describe=lambda images, _: images[:, 0, :4, 0] / 2)
    monkeypatch.setattr(f"angpn.datasets.image_datasets.{dataset.name.upper()}", stub)
    monkeypatch.setattr("angpn.datasets.image_datasets.selection", lambda name: rows)
    monkeypatch.setattr(
        "angpn.datasets.image_datasets.download", lambda source, folder, progress: tmp_path / source.filename
    )
    first = load(data_home=tmp_path, progress=False)
    assert_array_equal(first.data, pixels[rows, 0, :4, 0] / 2)
    assert_array_equal(first.target, labels[rows])
    monkeypatch.setattr("angpn.datasets.image_datasets.download", None)
    assert_array_equal(load(data_home=tmp_path, images=True).data, pixels[rows])
    assert_array_equal(load(data_home=tmp_path).data, first.data)


def test_the_selections_are_5000_distinct_images():
    for name in ("cifar10", "svhn"):
        assert len(np.unique(selection(name))) == 5000
