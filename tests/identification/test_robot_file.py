"""A new robot file is the old one's text with new numbers, and nothing else is touched."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from rlstack.errors import UserError
from rlstack.identification.motion_model import Edit
from rlstack.identification.robot_file import checked_out, edited
from rlstack.robots.spec import robot_files

TEXT = """\
# About it.
name: one
body:
  mass_kg: 0.027  # [1] scales
  inertia_kg_m2: [1.0e-6, 2.0e-6, 3.0e-6]  # [2]
rotors:
  - {name: a, position_m: [1.0, 2.0, 3.0], sign: -1}  # front
  - {name: b, position_m: [4.0, 5.0, 6.0], sign: 1}
kept: 1  # [3]
"""


def test_numbers_and_their_comments_change_and_the_rest_stays() -> None:
    edits = [
        Edit(("body", "mass_kg"), 0.0321, "weighed"),
        Edit(("body", "inertia_kg_m2", 0), 1.23456789e-6, "x told"),
        Edit(("body", "inertia_kg_m2", 2), 4e-6, "z told"),
        Edit(("rotors", 1, "position_m"), [4.5, 5.0, 6.0], "shifted"),
        Edit(("name",), "two", ""),
    ]
    text = edited(TEXT, edits)
    data = yaml.safe_load(text)
    assert data["body"] == {"mass_kg": 0.0321, "inertia_kg_m2": [1.2346e-6, 2e-6, 4e-6]}
    assert data["rotors"][1]["position_m"] == [4.5, 5.0, 6.0] and data["name"] == "two"
    assert "mass_kg: 0.0321  # weighed\n" in text and "  # x told; z told\n" in text and "[1]" not in text
    assert "sign: -1}  # front\n" in text and "kept: 1  # [3]\n" in text and text.startswith("# About it.\n")
    with pytest.raises(UserError, match=r"has no value body\.drag"):
        edited(TEXT, [Edit(("body", "drag"), 1.0, "")])


def test_a_released_robots_file_and_one_that_exists_are_never_replaced(tmp_path: Path) -> None:
    for name in ("crazyflie", str(robot_files()["panda"]), "turtlebot3"):
        with pytest.raises(UserError, match="is the name of a robot that is there already"):
            checked_out(name)
    (tmp_path / "mine.yaml").touch()
    with pytest.raises(UserError, match="exists already"):
        checked_out(tmp_path / "mine")
    assert checked_out(tmp_path / "other") == tmp_path / "other.yaml"


BLOCK = """\
rotors:
  - name: a  # left
    position_m: [1.0, 2.0, 3.0]  # [1]
  - name: b
    position_m: [4.0, 5.0, 6.0]
"""


def test_an_optional_number_is_added_where_the_file_has_none_yet() -> None:
    added = [Edit(("rotors", 0, "thrust_factor"), 0.8, "told", adds=True)]
    moved = [Edit(("rotors", k, "position_m"), [0.5, 0.0, 0.0], "shifted") for k in (0, 1)]
    text = edited(TEXT, added + moved)
    assert "sign: -1, thrust_factor: 0.8}  # shifted; told\n" in text
    assert yaml.safe_load(text)["rotors"][0]["thrust_factor"] == 0.8
    text = edited(BLOCK, added + moved)
    assert text.startswith(
        "rotors:\n  - thrust_factor: 0.8  # told\n    name: a  # left\n    position_m: [0.5, 0.0, 0.0]  # sh"
    )
    assert text.count("# shifted") == 2 and yaml.safe_load(text)["rotors"][1]["position_m"] == [0.5, 0.0, 0.0]
    again = edited(text, [Edit(("rotors", 0, "thrust_factor"), 0.9, "", adds=True)])
    assert yaml.safe_load(again)["rotors"][0] == {"thrust_factor": 0.9, "name": "a", "position_m": [0.5, 0.0, 0.0]}
