"""Checkpoints: whole or not at all, and never code."""

from __future__ import annotations

import os
import pickle
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from rlstack.errors import UserError
from rlstack.training.run_files import CHECKPOINT
from rlstack.training.run_folder import load_checkpoint, save_checkpoint


def state(number: int, size: int = 1000) -> dict:
    return {"first": torch.full((size,), float(number)), "number": number, "last": torch.full((size,), float(number))}


def test_what_is_saved_reads_back(tmp_path: Path) -> None:
    random = np.random.default_rng(0).bit_generator.state  # holds integers of 128 bits
    whole = {**state(3), "nested": {"random": random, "none": None, "pair": [1.0, torch.arange(3)]}}
    save_checkpoint(tmp_path, whole)
    found = load_checkpoint(tmp_path)
    assert torch.equal(found["first"], whole["first"])
    assert found["nested"]["random"] == random
    assert torch.equal(found["nested"]["pair"][1], torch.arange(3))


def test_a_killed_writer_leaves_the_one_before(tmp_path: Path) -> None:
    """A process that does nothing but save is killed at moments of its own; what lies there is always whole."""
    save_checkpoint(tmp_path, state(0, 100_000))
    for attempt in range(5):
        child = os.fork()
        if child == 0:
            try:
                for number in range(1, 10_000):
                    save_checkpoint(tmp_path, state(number, 100_000))
            finally:
                os._exit(1)
        time.sleep(0.02 + 0.03 * attempt)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        found = load_checkpoint(tmp_path)
        assert (found["first"] == found["number"]).all() and (found["last"] == found["number"]).all()


@pytest.mark.parametrize("damage", ["cut", "garbage", "empty", "flipped"])
def test_a_damaged_checkpoint_is_refused(tmp_path: Path, damage: str) -> None:
    save_checkpoint(tmp_path, state(1))
    path = tmp_path / CHECKPOINT
    data = path.read_bytes()
    start = len(data) // 2
    path.write_bytes(
        {
            "cut": data[:start],
            "garbage": b"not a checkpoint",
            "empty": b"",
            "flipped": data[:start] + bytes(b ^ 255 for b in data[start : start + 200]) + data[start + 200 :],
        }[damage]
    )
    with pytest.raises(UserError, match=r"checkpoint.pt cannot be read .*: the file is damaged"):
        load_checkpoint(tmp_path)


def test_code_in_a_checkpoint_is_not_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"

    class Trap:
        def __reduce__(self) -> tuple:
            return os.mkdir, (str(mark),)

    torch.save({"trap": Trap()}, tmp_path / CHECKPOINT, pickle_module=pickle)
    with pytest.raises(UserError, match="cannot be read"):
        load_checkpoint(tmp_path)
    assert not mark.exists()


def test_a_folder_without_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"it has no checkpoint\.pt"):
        load_checkpoint(tmp_path)
