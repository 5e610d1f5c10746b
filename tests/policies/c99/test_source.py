"""The text of the header and the source: what compilers and readers get."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from rlstack.policies.c99 import C99, write_c99
from rlstack.policies.c99.compilers import STRICT
from rlstack.policies.c99.names import identifier, identifiers

from ...support.compiled_policy import COMPILERS, needs_compiler

NAME = "quadrotor_rates"
FIRMWARE = f"""
static void sensors_read({NAME}_inputs *inputs) {{ inputs->position[0] = 0.0f; }}
static void actuators_set(const {NAME}_command *command) {{ (void)command; }}
static void actuators_stop(void) {{ }}
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> C99:
    return write_c99(NAME, tmp_path_factory.mktemp("written"))


def test_a_policy_is_written_the_same_way_each_time(written: C99, tmp_path: Path) -> None:
    again = write_c99(NAME, tmp_path)
    assert again.source.read_bytes() == written.source.read_bytes()
    assert again.header.read_bytes() == written.header.read_bytes()


@needs_compiler
@pytest.mark.skipif(shutil.which("size") is None, reason="there is no size: apt install binutils")
def test_nothing_is_kept_but_the_state_and_all_weights_are_constant(written: C99, tmp_path: Path) -> None:
    made = tmp_path / "policy.o"
    subprocess.run([*COMPILERS[0].command, "-Os", "-c", str(written.source), "-o", str(made)], check=True)
    table = subprocess.run(["size", str(made)], capture_output=True, text=True, check=True).stdout
    text, data, zeros = (int(word) for word in table.splitlines()[1].split()[:3])
    assert text > written.constant_bytes
    assert (data, zeros) == (0, 0)


@needs_compiler
@pytest.mark.parametrize("language", ["c", "c++"])
def test_the_example_in_the_header_compiles(written: C99, language: str, tmp_path: Path) -> None:
    command = [*COMPILERS[0].command]
    if language == "c++":
        found = shutil.which("g++") or shutil.which("clang++")
        if found is None:
            pytest.skip("there is no C++ compiler: apt install g++")
        command = [found, "-std=c++11", *STRICT[1:]]
    lines = written.header.read_text().splitlines()
    example = [
        line.removeprefix(" *") for line in lines[: lines.index(" */")] if line.startswith(" *     ") or line == " *"
    ]
    file = tmp_path / ("firmware.c" if language == "c" else "firmware.cpp")
    declared = "void control_begin(void);\nvoid control_step(void);\n"
    file.write_text(f'#include "{written.header}"\n{declared}{FIRMWARE}' + "\n".join(example) + "\n")
    assert "control_step(void)" in file.read_text()
    done = subprocess.run(
        [*command, "-c", str(file), "-o", str(tmp_path / "firmware.o")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_names_are_those_of_c_and_differ() -> None:
    assert identifier("9 lives / größe") == "n9_lives_gr_e"
    assert [identifier(name) for name in ("float", "class", "math", "***")] == ["float_", "class_", "math_", "policy"]
    assert identifiers(["a.b", "a-b", "A b"]) == ["a_b", "a_b_", "a_b__"]
