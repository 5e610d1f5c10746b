"""A run's folder: its files, checkpoint and lock."""

from __future__ import annotations

import errno
import io
import os
import re
import shutil
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from rlstack.data.replay import ReplayReader
from rlstack.data.replay.storage import LOCK_FILE, SPEC_FILE
from rlstack.errors import UserError
from rlstack.files import check_folder, lock, write_atomically
from rlstack.training.recipe import Recipe, read_recipe, recipe_to_yaml
from rlstack.training.run_files import CHECKPOINT, FIGURES, POLICY, RECIPE, RUN_LOCK, TRACKED

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
"""What a disk answers that is full, over its quota, gone read-only or broken."""


@contextmanager
def room_needed(folder: Path) -> Iterator[None]:
    """Refuse a full or failing disk in a sentence, whoever writes to the run's folder, such as TensorBoard.

    Raises:
        UserError: The disk took no more.
    """
    before = threading.excepthook

    def quiet(what: threading.ExceptHookArgs) -> None:
        # TensorBoard's thread raises it again in ours, at the next scalar
        if not (isinstance(what.exc_value, OSError) and what.exc_value.errno in _NO_ROOM):
            before(what)

    threading.excepthook = quiet
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        raise UserError(
            f"Training stopped: cannot write to {folder}: {error.strerror}. Make room there, and go on from the last"
            f" checkpoint with `rlstack train --resume {folder}`."
        ) from error
    finally:
        threading.excepthook = before


def new_folder(name: str, root: Path = Path("runs")) -> Path:
    """Return the first free ``root/name-NNN``."""
    pattern = re.compile(re.escape(name) + r"-(\d+)")
    taken = [int(m.group(1)) for p in root.glob(f"{name}-*") if (m := pattern.fullmatch(p.name))]
    return root / f"{name}-{max(taken, default=0) + 1:03d}"


def recipe_of(folder: Path) -> Recipe[Any, Any]:
    """Return the recipe of the run in ``folder``."""
    path = folder / RECIPE
    if not path.is_file():
        raise UserError(f"{folder} is not a run: it has no {RECIPE}. Name a folder under runs/.")
    return read_recipe(path)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a run's folder against other training processes; a killed process releases its lock.

    Raises:
        UserError: Another process trains there, or it cannot be written to.
    """
    descriptor = lock(
        folder,
        RUN_LOCK,
        f"Another process trains in {folder}: wait until it ends or stop it, or choose another --out.",
    )
    try:
        yield
    finally:
        os.close(descriptor)


@contextmanager
def create_folder(folder: Path) -> Iterator[None]:
    """Create a new run's folder and lock it.

    Raises:
        UserError: It exists already, or cannot be created.
    """
    check_folder(folder.parent, "--out")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir()  # another run may have created it meanwhile
    except FileExistsError:
        raise exists_already(folder) from None
    except OSError as error:
        raise UserError(f"Cannot create the run's folder {folder}: {error.strerror}. Choose another --out.") from error
    with lock_folder(folder):
        yield


def exists_already(folder: Path) -> UserError:
    """Return the error for a folder that exists already."""
    return UserError(
        f"{folder} exists already and is never overwritten: choose another --out, or resume with"
        f" `rlstack train --resume {folder}`."
    )


def is_unused(folder: Path) -> bool:
    """Return whether a run's folder holds only its recipe, its lock and empty replay buffers."""
    buffers = {file.parent for file in folder.glob(f"*/{LOCK_FILE}")}
    own = {folder / RECIPE, folder / RUN_LOCK}
    others = [path for path in folder.rglob("*") if path.is_file() and path.parent not in buffers and path not in own]
    whole = [buffer for buffer in buffers if (buffer / SPEC_FILE).is_file()]
    return not others and not any(len(ReplayReader(buffer)) for buffer in whole)


def never_learned(folder: Path) -> bool:
    """Return whether the run in ``folder`` ended before its first checkpoint, which precedes the file of scalars."""
    begun = (CHECKPOINT, POLICY, FIGURES, "events.out.tfevents*")
    return (folder / RECIPE).is_file() and not any(any(folder.glob(name)) for name in begun)


def copy_run(source: Path, target: Path, recipe: Recipe[Any, Any]) -> None:
    """Copy a run that nobody trains, to go on from its checkpoint with another recipe; it is there whole or not at all.

    Args:
        source: Its folder.
        target: The copy's folder, which is not there.
        recipe: The copy's recipe, which differs in changes that come later.
    """
    part = target.with_name(f".{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    with room_needed(target):
        shutil.copytree(source, part, ignore=shutil.ignore_patterns(RUN_LOCK, LOCK_FILE, TRACKED))
    write_atomically(part / RECIPE, recipe_to_yaml(recipe))
    os.sync()  # the copy, before its name
    part.rename(target)


def drop_state(folder: Path) -> None:
    """Delete what a run would go on from, which takes the most room: its checkpoint and its replay buffers."""
    (folder / CHECKPOINT).unlink(missing_ok=True)
    for buffer in [path for path in folder.iterdir() if path.is_dir()]:
        shutil.rmtree(buffer, ignore_errors=True)


def save_checkpoint(folder: Path, state: dict[str, Any]) -> None:
    """Write the latest state of a run, replacing the previous one."""
    save_state(folder / CHECKPOINT, state)


def save_state(path: Path, state: dict[str, Any]) -> None:
    """Write tensors and plain data to a file that torch loads, atomically."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    write_atomically(path, buffer.getvalue())


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
