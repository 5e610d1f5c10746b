"""Atomic file writes and lock files."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from pathlib import Path
from typing import Any

from rlstack.errors import UserError


def write_atomically(path: str | Path, data: bytes | str, *, what: str = "", make_folder: bool = True) -> None:
    """Write ``data`` atomically: a reader finds the old file or the complete new one, even after a power cut.

    Args:
        path: The file, replaced if it exists.
        data: Text is written as UTF-8.
        what: Its name in errors, such as ``the policy``.
        make_folder: Create its folder if that is missing.

    Raises:
        UserError: It cannot be written; an old file stays unchanged.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        if make_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("xb") as file:
                file.write(data.encode() if isinstance(data, str) else data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        folder = os.open(path.parent, os.O_RDONLY)
        try:  # make the rename itself durable
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise UserError(
            f"Cannot write {what + ' ' if what else ''}{path}: {error.strerror}. Check that its folder exists, can be"
            " written and has room."
        ) from error


def check_folder(folder: str | Path, option: str) -> None:
    """Refuse a folder that cannot be made or written to, before work whose result is to go there; it makes nothing.

    Args:
        folder: The folder, which need not exist.
        option: The option that names it, for errors.

    Raises:
        UserError: A file is in its place or above it, or it cannot be written to.
    """
    folder = Path(folder).expanduser().absolute()
    # os.path: a Path in a folder that one may not enter raises PermissionError
    there = next(path for path in (folder, *folder.parents) if os.path.exists(path))
    if not there.is_dir():
        raise UserError(f"{option}: the folder {folder} cannot be made: {there} is a file. Choose another.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UserError(f"{option}: the folder {folder} cannot be written: {there} is not yours. Choose another.")


def write_json(path: str | Path, data: Any) -> None:
    """Write JSON atomically."""
    write_atomically(Path(path).expanduser(), json.dumps(data, indent=2, allow_nan=False) + "\n")


def lock(folder: Path, name: str, taken: str) -> int:
    """Lock a file, created if missing; return the descriptor, whose closing (also by a kill) releases the lock.

    Args:
        folder: The folder to protect.
        name: Name of the lock file in ``folder``.
        taken: Error message if another process holds the lock.

    Raises:
        UserError: Another process holds the lock, or the file cannot be created.
    """
    try:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise UserError(f"Cannot write to {folder}: {error.strerror}. Check the path and its rights.") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise UserError(taken) from None
    return descriptor
