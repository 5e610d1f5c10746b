"""Checkpoints: the state needed to resume a run, in one atomically written file."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import torch

from rlstack.errors import UserError
from rlstack.files import write_atomically

CHECKPOINT = "checkpoint.pt"
"""File name in a run's folder."""


def save_checkpoint(folder: Path, state: dict[str, Any]) -> None:
    """Write the latest state of a run, replacing the previous one."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    write_atomically(folder / CHECKPOINT, buffer.getvalue())


def load_checkpoint(folder: Path) -> dict[str, Any]:
    """Read a run's checkpoint; it loads only tensors and plain data, never code.

    Raises:
        UserError: There is none, or it cannot be read.
    """
    path = folder / CHECKPOINT
    if not path.is_file():
        raise UserError(f"{folder} cannot be resumed: it has no {CHECKPOINT}. Name a folder under runs/.")
    try:
        with zipfile.ZipFile(path) as archive:  # torch does not detect flipped bits
            if (broken := archive.testzip()) is not None:
                raise zipfile.BadZipFile(broken)
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise UserError(f"{path} cannot be read ({type(error).__name__}): the file is damaged. Train again.") from error
    return state
