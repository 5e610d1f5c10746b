"""A run's folder: who may write to it, and what is in one that holds nothing yet."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rlstack.errors import UserError
from rlstack.training.run_files import RECIPE, RUN_LOCK
from rlstack.training.run_folder import create_folder, is_unused, lock_folder, room_needed

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


FILL = """
import resource, signal, sys
from pathlib import Path
from torch.utils.tensorboard import SummaryWriter
from rlstack.errors import UserError
from rlstack.training.run_folder import room_needed
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
folder = Path(sys.argv[1])
try:
    with room_needed(folder), SummaryWriter(str(folder)) as writer:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))  # as a full disk: a write comes back with an error
        for step in range(100_000):
            writer.add_scalar("reward", 1.0, step)
            if step % 50 == 0:
                writer.flush()
except UserError as error:
    print(error)
"""


def test_a_disk_that_fills_while_tensorboard_writes_is_said_in_a_sentence(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FILL, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.stdout == (
        f"Training stopped: cannot write to {tmp_path}: File too large. Make room there, and go on from the last"
        f" checkpoint with `rlstack train --resume {tmp_path}`.\n"
    )
    assert "Traceback" not in done.stderr


def test_other_errors_of_files_are_not_those_of_the_folder(tmp_path: Path) -> None:
    with pytest.raises(BrokenPipeError), room_needed(tmp_path):
        raise BrokenPipeError(32, "the terminal was closed")
