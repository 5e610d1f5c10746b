"""A run's folder: who may write to it, and what is in one that holds nothing yet."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rlstack.errors import UserError
from rlstack.training.run_folder import RECIPE, RUN_LOCK, create_folder, is_unused, lock_folder

HOLD = """
import sys
from pathlib import Path
from rlstack.training.run_folder import lock_folder
with lock_folder(Path(sys.argv[1])):
    print(flush=True)
    input()
"""


def test_it_is_one_processs_until_that_is_killed(tmp_path: Path) -> None:
    words = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == b"\n"
        with pytest.raises(UserError, match=rf"^Another process trains in {tmp_path}: "), lock_folder(tmp_path):
            pass
        os.kill(other.pid, signal.SIGKILL)
    with lock_folder(tmp_path):
        pass


def test_it_is_let_go_of_however_training_ends(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), lock_folder(tmp_path):
        raise KeyboardInterrupt
    with lock_folder(tmp_path):
        pass


def test_a_new_one_is_held_and_holds_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "run"
    with create_folder(folder):
        assert [path.name for path in folder.iterdir()] == [RUN_LOCK]
        with pytest.raises(UserError, match="Another process trains in"), lock_folder(folder):
            pass
        assert is_unused(folder)
        (folder / RECIPE).write_text("envs: 1")
        assert is_unused(folder)
        (folder / "notes.txt").write_text("Mine.")
        assert not is_unused(folder)
    with pytest.raises(UserError, match="exists already and is never overwritten"), create_folder(folder):
        pass
