"""Runs in an object store, or wherever else fsspec reads: the few small files that tell what they are come here."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from rlstack.errors import UserError
from rlstack.libraries import import_library
from rlstack.training.run_files import FIGURES, RECIPE, SCALARS

_MOST = 64 * 2**20
"""Bytes of a file that is fetched; a training.json has kilobytes."""
_COPIES: list[tempfile.TemporaryDirectory[str]] = []
"""Copies, which live as long as this process."""


def is_remote(place: str) -> bool:
    """Return whether a place is an address of fsspec's, such as ``s3://bucket/runs``."""
    return "://" in place


def fetched_runs(address: str) -> list[tuple[str, Path]]:
    """Return the address of each run at or below ``address``, and a folder with copies of its small files.

    These are the recipe, the final figures and TensorBoard's scalars: no checkpoint, no replay buffer.

    Raises:
        UserError: fsspec or what it needs for the address is missing, nothing is there, or it cannot be read.
    """
    fsspec = import_library("fsspec", "train")
    with _said(address):
        store, root = fsspec.core.url_to_fs(address)
        found = sorted(store.find(root))
    here = Path(_kept().name)
    runs: list[tuple[str, Path]] = []
    for recipe in (path for path in found if path.rpartition("/")[2] == RECIPE):
        folder = recipe.rpartition("/")[0]
        copy = here / f"{len(runs):06d}"
        copy.mkdir()
        wanted = [path for path in found if path.rpartition("/")[0] == folder and _small(path.rpartition("/")[2])]
        with _said(address):
            for path in wanted:
                if (store.size(path) or 0) <= _MOST:
                    store.get_file(path, str(copy / path.rpartition("/")[2]))
        _keep_time(store, recipe, copy / RECIPE)
        runs.append((store.unstrip_protocol(folder), copy))
    return runs


def _small(name: str) -> bool:
    return name in (RECIPE, FIGURES) or name.startswith(SCALARS)


def _kept() -> tempfile.TemporaryDirectory[str]:
    _COPIES.append(tempfile.TemporaryDirectory(prefix="rlstack-runs-"))
    return _COPIES[-1]


def _keep_time(store: Any, path: str, copy: Path) -> None:
    """Give a copy the time of its original, if the store knows it."""
    try:
        when: datetime = store.modified(path)
    except (NotImplementedError, KeyError, OSError):
        return
    os.utime(copy, (when.timestamp(), when.timestamp()))


@contextmanager
def _said(address: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise UserError(f"There is nothing at {address}: name a run's folder, or one with runs in it.") from error
    except Exception as error:  # each store has errors of its own, such as of credentials
        raise UserError(f"{address} cannot be read: {error}") from error
