from __future__ import annotations

import fcntl
import os
from pathlib import Path

from rlstack.nodes.shutdown import remove_left_behind

DEAD, ALIVE, YOUNG = (f"fastrtps_{digit * 16}" for digit in "abc")


def test_only_segments_of_dead_processes_are_removed(tmp_path: Path) -> None:
    for name in (DEAD, ALIVE, YOUNG):
        (tmp_path / name).write_bytes(b"x")
        (tmp_path / f"{name}_el").touch()
        if name is not YOUNG:
            os.utime(tmp_path / f"{name}_el", (0, 0))
    for name in ("fastrtps_port7000_el", "something_el", "sem.fastrtps_port7000_mutex"):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (0, 0))
    with open(tmp_path / f"{ALIVE}_el") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        assert remove_left_behind(tmp_path) == 1
    left = {path.name for path in tmp_path.iterdir()}
    assert not left & {DEAD, f"{DEAD}_el"}
    assert left >= {ALIVE, f"{ALIVE}_el", YOUNG, f"{YOUNG}_el", "fastrtps_port7000_el", "something_el"}


def test_a_machine_without_shared_memory_is_left_alone(tmp_path: Path) -> None:
    assert remove_left_behind(tmp_path / "none") == 0
