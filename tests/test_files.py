from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlstack.errors import UserError
from rlstack.files import check_folder, lock, write_atomically


def test_writes_text_and_bytes_into_new_folders_and_replaces(tmp_path):
    path = tmp_path / "a" / "b" / "file"
    write_atomically(path, "µN")
    assert path.read_bytes() == "µN".encode()
    write_atomically(str(path), b"\x00\x01")
    assert path.read_bytes() == b"\x00\x01"
    assert [p.name for p in path.parent.iterdir()] == ["file"]


def test_a_failure_on_the_way_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, "old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"Cannot write .*file: No space left on device\."):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_what_is_in_the_way_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"Not a directory|File exists"):
        write_atomically(tmp_path / "file" / "inner", "x")
    with pytest.raises(UserError, match="Is a directory"):
        write_atomically(tmp_path, "x")


def test_a_lock_is_one_holders_and_no_program_that_it_starts_keeps_it(tmp_path):
    descriptor = lock(tmp_path, "the.lock", "Somebody writes here.")
    with pytest.raises(UserError, match=r"^Somebody writes here\.$"):
        lock(tmp_path, "the.lock", "Somebody writes here.")
    words = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=False) as child:
        assert child.stdout.readline() == b"\n"
        os.close(descriptor)
        os.close(lock(tmp_path, "the.lock", "The child has it."))
        child.communicate(b"\n")


def test_a_folder_that_cannot_be_made_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    check_folder(tmp_path / "new" / "one", "--out")
    assert not (tmp_path / "new").exists()
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UserError, match=r"--out: the folder .* cannot be made: .*file is a file"):
            check_folder(place, "--out")
    with pytest.raises(UserError, match=r"cannot be made|cannot be written"):
        check_folder("/proc/version/x", "--out")


def test_a_folder_in_one_that_may_not_be_entered_is_refused(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o000)
    root = os.geteuid() == 0
    try:
        if root:  # who may enter every folder
            os.setresuid(65534, 65534, 0)
        with pytest.raises(UserError, match="cannot be written"):
            check_folder(closed / "run", "--out")
    finally:
        if root:
            os.setresuid(0, 0, 0)
        closed.chmod(0o700)
