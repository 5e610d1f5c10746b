"""Checkpoints: everything a run needs to go on, in one file that is written whole or not at all."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import torch

from rlstack.errors import UserError
from rlstack.files import write_atomically

CHECKPOINT = "checkpoint.pt"
"""Its name in a run's folder."""


def save_checkpoint(folder: Path, state: dict[str, Any]) -> None:
    """Write the newest state of a run, replacing the one before."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    write_atomically(folder / CHECKPOINT, buffer.getvalue())


def load_checkpoint(folder: Path) -> dict[str, Any]:
    """Read a run's checkpoint; only tensors and plain data are read, never code.

    Raises:
        UserError: There is none, or it cannot be read.
    """
    path = folder / CHECKPOINT
    if not path.is_file():
        raise UserError(f"{folder} is not a run that can go on: it has no {CHECKPOINT}. Name a folder under runs/.")
    try:
        with zipfile.ZipFile(path) as archive:  # torch reads flipped bits without a word
            if (broken := archive.testzip()) is not None:
                raise zipfile.BadZipFile(broken)
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise UserError(f"{path} cannot be read ({type(error).__name__}): the file is damaged. Train again.") from error
    return state
