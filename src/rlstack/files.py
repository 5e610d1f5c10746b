"""Writing files whole or not at all, and by one writer at a time."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from pathlib import Path
from typing import Any

from rlstack.errors import UserError


def write_atomically(path: str | Path, data: bytes | str, *, what: str = "", make_folder: bool = True) -> None:
    """Write ``data`` so that a reader finds the old file or the whole new one, never a part, even after a power cut.

    Args:
        path: Replaced if it exists.
        data: Text is written as UTF-8.
        what: What errors call it, such as ``the policy``.
        make_folder: Make its folder if that is missing.

    Raises:
        UserError: It cannot be written; the old file, if there was one, is as it was.
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
        try:  # the rename itself must outlast a power cut
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise UserError(
            f"Cannot write {what + ' ' if what else ''}{path}: {error.strerror}. Check that its folder exists, can be"
            " written and has room."
        ) from error


def write_json(path: str | Path, data: Any) -> None:
    """Write JSON so that the file is either the old one or the whole new one, never a part."""
    write_atomically(Path(path).expanduser(), json.dumps(data, indent=2, allow_nan=False) + "\n")


def lock(folder: Path, name: str, taken: str) -> int:
    """Hold a file, made if it is missing; return the descriptor to close for letting go (a kill closes it, too).

    Args:
        folder: That is written to.
        name: Of the file, in ``folder``.
        taken: What is said if another process holds it.

    Raises:
        UserError: Another process holds it, or it cannot be made.
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
