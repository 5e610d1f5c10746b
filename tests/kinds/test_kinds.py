"""Kinds of robots are found by name, and their parts are loaded one by one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rlstack.errors import UserError
from rlstack.kinds import PARTS, find_kind, kind_names


def test_the_kinds_are_there() -> None:
    assert {"quadrotor", "wheeled_base", "manipulator", "quadruped"} <= set(kind_names())


@pytest.mark.parametrize("name", ["quadrotor", "wheeled_base", "manipulator", "quadruped"])
@pytest.mark.parametrize("part", ["spec", "signals", "simulation", "guard", "topics", "deployment"])
def test_a_kind_has_its_parts(name: str, part: str) -> None:
    assert part in PARTS and find_kind(name).has(part) and find_kind(name).load(part) is not None


def test_an_unknown_kind_and_a_missing_part_are_refused() -> None:
    with pytest.raises(UserError, match="quadrotor"):
        find_kind("quadroter")
    with pytest.raises(KeyError):
        find_kind("quadrotor").load("wings")


def test_finding_a_kind_imports_none_of_its_parts() -> None:
    code = "import sys; from rlstack.kinds import find_kind; find_kind('manipulator').has('guard');"
    code += " print([m for m in sys.modules if m.startswith('rlstack.kinds.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("[]", "['rlstack.kinds.manipulator']")
