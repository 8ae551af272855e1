"""Safe reading of downloaded archives: in memory, within limits, executing nothing."""

import io
import pickle
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

MAX_FILE_BYTES = 200 * 2**20
MAX_TOTAL_BYTES = 2 * 2**30


def archive_files(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """Yield name and contents of the wanted files of a tar or zip archive.

    Nothing is unpacked to disk, so no name in the archive can point outside a folder, and links are not followed. An
    archive that would unpack to more than the limits raises ValueError.
    """
    total = 0
    for name, size, read in _members(path):
        if not wanted(name):
            continue
        total += size
        if size > MAX_FILE_BYTES or total > MAX_TOTAL_BYTES:
            raise ValueError(
                f"{path} must unpack to at most {MAX_FILE_BYTES} bytes a file and {MAX_TOTAL_BYTES} in all, got more "
                f"at {name!r}; it is not the published archive"
            )
        yield name, read()


def _members(path: Path) -> Iterator[tuple[str, int, Callable[[], bytes]]]:
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                for entry in archive.infolist():
                    if not entry.is_dir():
                        yield entry.filename, entry.file_size, lambda entry=entry: archive.read(entry)  # type: ignore[misc]
            return
        with tarfile.open(path) as tar:
            for member in tar:
                if member.isfile():
                    yield member.name, member.size, lambda member=member: _read(tar, member)  # type: ignore[misc]
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError) as error:
        raise ValueError(
            f"{path} must be a whole tar or zip archive, got one that cannot be read ({error}); fetch it again"
        ) from error


def _read(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    return b"" if file is None else file.read()


_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
}


class _ArraysOnly(pickle.Unpickler):
    """Unpickler of dictionaries, lists, strings and arrays; anything else raises ValueError."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise ValueError(
                f"a batch of images must hold arrays only, got {module}.{name}; it is not the official file"
            )
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def unpickle_arrays(contents: bytes) -> dict[bytes, Any]:
    """Read a pickled dictionary of arrays, the format of CIFAR's official batches."""
    try:
        unpickled = _ArraysOnly(io.BytesIO(contents), encoding="bytes").load()
    except (pickle.UnpicklingError, EOFError, AttributeError, IndexError, TypeError) as error:
        raise ValueError(
            f"a batch of images must be a pickled dictionary of arrays, got one that cannot be read ({error})"
        ) from error
    if not isinstance(unpickled, dict):
        raise ValueError(
            f"a batch of images must be a dictionary, got {type(unpickled).__name__}; it is not the official file"
        )
    return unpickled
