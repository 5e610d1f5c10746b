"""The cache of machine code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlstack.fused import Kernel, zeros
from rlstack.fused import llvm as backend


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "rlstack" / "kernels"


def make(factor: float = 2.0) -> Kernel:
    return Kernel(lambda x: {"y": factor * x}, {"x": 1})


def works(kernel: Kernel, factor: float = 2.0) -> bool:
    x, y = zeros(1, 20), zeros(1, 20)
    x[:] = np.arange(20)
    kernel({"x": x, "y": y})
    return bool((y == factor * x).all())


def was_cached(kernel: Kernel) -> bool:
    compiled: Any = kernel._compiled
    return bool(compiled.was_cached)


def test_the_second_time_it_comes_from_the_disk(folder: Path) -> None:
    assert backend.cache_folder() == folder
    assert not was_cached(make()) and len(list(folder.iterdir())) == 1
    again = make()
    assert was_cached(again) and works(again)
    other = make(3.0)
    assert not was_cached(other) and works(other, 3.0)


def test_code_for_another_processor_is_another_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make()
    here = backend.host()
    monkeypatch.setattr(backend, "host", lambda: backend.Processor(here.name, here.features, 4))
    other = make()
    assert not was_cached(other) or here.lanes == 4
    assert works(other)


@pytest.mark.parametrize("damage", ["empty", "cut", "changed", "foreign"])
def test_a_damaged_file_is_not_run(folder: Path, damage: str) -> None:
    make()
    (file,) = folder.iterdir()
    data = file.read_bytes()
    middle = len(data) // 2
    file.write_bytes(
        {
            "empty": b"",
            "cut": data[:middle],
            "changed": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
            "foreign": b"x" * 1000,
        }[damage]
    )
    kernel = make()
    assert not was_cached(kernel) and works(kernel)
    assert file.read_bytes() == data, "and is replaced"


def test_a_folder_that_cannot_be_made_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    kernel = make()
    assert not was_cached(kernel) and works(kernel)


def test_a_user_without_a_home_has_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # what it does where nobody knows the user
    assert backend.cache_folder() is None
    assert works(make())
    assert not list(tmp_path.iterdir())


CODE = """
import numpy as np
from rlstack.fused import Kernel, zeros
for k in range(30):
    kernel = Kernel(lambda x: {"y": x * float(k + 2)}, {"x": 1})
    x, y = zeros(1, 20), zeros(1, 20)
    x[:] = 1.0
    kernel({"x": x, "y": y})
    assert (y == k + 2).all(), k
"""


def test_two_processes_at_once(folder: Path) -> None:
    environment: dict[str, Any] = {**os.environ, "XDG_CACHE_HOME": str(folder.parents[1]), "OMP_NUM_THREADS": "1"}
    both = [subprocess.Popen([sys.executable, "-c", CODE], env=environment) for _ in range(2)]
    assert [process.wait(timeout=60) for process in both] == [0, 0]
    names = {file.name for file in folder.iterdir()}
    assert len(names) == 30 and not any(name.startswith(".") for name in names), "no temporary file is left"
