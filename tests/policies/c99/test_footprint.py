"""Code size of a written policy by the compilers that are there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from rlstack.policies.c99.footprint import code_bytes

needs_gcc = pytest.mark.skipif(not (shutil.which("gcc") and shutil.which("size")), reason="needs gcc and size")


@needs_gcc
def test_a_cross_compiler_without_its_c_library_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cross = tmp_path / "arm-none-eabi-gcc"
    cross.write_text(f'#!/bin/sh\nexec {shutil.which("gcc")} -nostdinc "$@"\n')
    cross.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    source = tmp_path / "policy.c"
    source.write_text("#include <math.h>\nfloat half(float x);\nfloat half(float x) { return 0.5f * fabsf(x); }\n")
    found = code_bytes(source)
    assert found is not None
    size, command = found
    assert command == "gcc -Os"
    assert 0 < size < 500
