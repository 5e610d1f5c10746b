from __future__ import annotations

from typing import Any

import pytest

from rlstack.agent.skills import SKILLS, GoTo, Wait, loaded_steps
from rlstack.errors import UserError

ALL = tuple(SKILLS)


def test_steps_are_loaded_from_plain_data() -> None:
    data = [{"skill": "go_to", "position": [1, 2.5, 1]}, {"skill": "wait", "seconds": 3}]
    assert loaded_steps(data, ALL, "The plan") == (GoTo((1.0, 2.5, 1.0)), Wait(3.0))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], "at least one step"),
        ("land", "must be a list"),
        ([{"skill": "wait", "seconds": 1}] * 101, "at most 100"),
        (["land"], "step 1: must be a mapping with the key 'skill'"),
        ([{"skill": "fly_away"}], "Unknown skill 'fly_away'"),
        ([{"skill": "land", "now": True}], "step 1: Unknown key 'now'"),
        ([{"skill": "wait"}], "the key 'seconds' is missing"),
        ([{"skill": "wait", "seconds": 1e9}], "at most 600"),
        ([{"skill": "wait", "seconds": float("nan")}], "must be a finite number"),
        ([{"skill": "wait", "seconds": "rm -rf"}], "must be a number"),
        ([{"skill": "go_to"}], "give either a position or a place"),
        ([{"skill": "go_to", "position": [1, 2], "place": "a"}], "give either a position or a place"),
        ([{"skill": "go_to", "position": [1]}], "must be 2 or 3 numbers"),
        ([{"skill": "move"}], "a distance other than 0"),
    ],
)
def test_what_is_no_step_is_refused_by_its_number(data: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        loaded_steps(data, ALL, "The plan")


def test_only_allowed_skills_are_loaded() -> None:
    with pytest.raises(UserError, match="Unknown skill 'estop'"):
        loaded_steps([{"skill": "estop"}], ("land",), "The plan")
