"""Modes: the same for all guards, and each kind's own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rlstack.guard import CommonMode, Mode
from rlstack.kinds.manipulator.guard import ManipulatorMode
from rlstack.kinds.quadrotor.guard import QuadrotorMode
from rlstack.kinds.wheeled_base.guard import WheeledBaseMode

ROOT = Path(__file__).parents[2]

ROLES = {
    CommonMode: {"disarmed": "off", "policy": "normal", "estop": "off"},
    QuadrotorMode: {"takeoff": "normal", "return": "intervention", "hover": "intervention", "land": "intervention"},
    WheeledBaseMode: {"stop": "intervention", "fallback": "intervention"},
    ManipulatorMode: {"hold": "intervention", "park": "intervention"},
}


@pytest.mark.parametrize("modes", ROLES, ids=lambda modes: modes.__name__)
def test_modes_have_a_text_and_say_what_they_mean(modes: type[Mode]) -> None:
    assert {str(mode): mode.role for mode in modes} == ROLES[modes]
    assert all(mode == str(mode) == mode.value for mode in modes)


def test_the_diagrams_of_the_page_are_those_of_the_guards(tmp_path: Path) -> None:
    """Where this fails: python tools/draw_guards."""
    drawn = tmp_path / "guard.md"
    subprocess.run([sys.executable, str(ROOT / "tools" / "draw_guards"), "--out", str(drawn)], check=True)
    text = drawn.read_text(encoding="utf-8")
    assert text == (ROOT / "docs" / "guard.md").read_text(encoding="utf-8")
    assert text.count("```mermaid") == 3 and "policy --> return: near a limit" in text
