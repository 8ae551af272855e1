"""The folder of the data sets, and downloads that are verified before they are stored."""

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pooch
import requests

from angpn.utils.array_files import ArrayArchive

FOLDER_VARIABLE = "ANGPN_DATA"
ATTEMPTS = 3
SECONDS_BETWEEN_ATTEMPTS = 1.0
TIMEOUT = 30.0


class Source(NamedTuple):
    """A published file."""

    url: str
    digest: str  # "sha256:..." or "md5:...", as published
    filename: str
    published_by: str  # where the digest is published


def data_folder(data_home: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of the data sets: ``data_home``, else that of ``ANGPN_DATA``, else the user's cache folder.

    Args:
        data_home: The folder, or None.

    Returns:
        The folder, which need not exist.
    """
    return Path(data_home or os.environ.get(FOLDER_VARIABLE) or pooch.os_cache("angpn")).expanduser()


def download(source: Source, folder: Path, *, progress: bool = True) -> Path:
    """Return the path of the file in ``folder``; download it where it is missing or has another digest.

    A failed connection is retried. A download is stored under its name only if it has the published digest.
    """
    path = folder / source.filename
    if path.exists() and pooch.file_hash(str(path), source.digest.split(":")[0]) == source.digest.split(":")[1]:
        return path
    for attempt in range(1, ATTEMPTS + 1):
        with _quiet_pooch(), _Bar(source.filename, enabled=progress) as bar:
            try:
                pooch.retrieve(
                    source.url,
                    source.digest,
                    fname=source.filename,
                    path=folder,
                    downloader=pooch.HTTPDownloader(progressbar=bar, timeout=TIMEOUT),
                )
                return path
            except ValueError as error:  # the digest
                raise ValueError(
                    f"{source.url} must have the digest {source.digest} ({source.published_by}), got another: the file "
                    "was truncated or is not the published one, and nothing was stored; try again later"
                ) from error
            except (requests.RequestException, ConnectionError, TimeoutError) as error:
                if attempt == ATTEMPTS:
                    raise ConnectionError(
                        f"{source.url} must be reachable, got {type(error).__name__} in {ATTEMPTS} attempts ({error}); "
                        f"check the connection, or put the file at {path} yourself"
                    ) from error
            except OSError as error:
                raise OSError(
                    f"{path} must be writable, got {error}; free some space, or name another folder by data_home or "
                    f"{FOLDER_VARIABLE}"
                ) from error
        time.sleep(SECONDS_BETWEEN_ATTEMPTS)
    raise AssertionError("unreachable")


@contextmanager
def _quiet_pooch() -> Iterator[None]:
    """Suppress the log messages of pooch, which the progress bar replaces."""
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def read_arrays(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Read the arrays of an .npz file, without pickle."""
    try:
        with path.open("rb") as file:
            archive = ArrayArchive(file, path)
            return dict(zip(archive.headers, archive.read(list(archive.headers)), strict=True))
    except (FileNotFoundError, MemoryError):
        raise
    except Exception as error:
        raise ValueError(
            f"{path} must be a whole .npz file, got one that cannot be read ({error}); replace it"
        ) from error


class _Bar:
    """Progress bar of rich on standard error, with the interface that pooch expects."""

    def __init__(self, name: str, *, enabled: bool) -> None:
        self._progress: Any = None
        self.total = 0
        if enabled:
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

            columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
            self._progress = Progress(*columns, console=Console(stderr=True))
            self._task = self._progress.add_task(name, total=None)

    def __enter__(self) -> Any:
        if self._progress is not None:
            self._progress.start()
            return self
        return False  # pooch's value for no progress bar

    def __exit__(self, *exception: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def update(self, count: int) -> None:
        """Advance by a number of bytes."""
        self._progress.update(self._task, advance=count, total=self.total or None)

    def reset(self) -> None:
        """Return to zero; pooch then advances by the total once more."""
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        """Do nothing; required by pooch."""
