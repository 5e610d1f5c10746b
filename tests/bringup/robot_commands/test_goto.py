from __future__ import annotations

import math

import pytest

from rlstack import cli
from rlstack.bringup.robot_commands.goto import Goto
from rlstack.errors import UserError


@pytest.mark.parametrize(
    ("goto", "why"),
    [
        (Goto((1.0,)), "give finite numbers X Y or X Y Z"),
        (Goto((1.0, 2.0, math.nan)), "give finite numbers X Y or X Y Z"),
        (Goto((1.0, 2.0), yaw=math.inf), "--yaw inf"),
        (Goto((1.0, 2.0), timeout=math.nan), "--timeout nan"),
    ],
)
def test_what_is_no_goal_is_refused_before_anything_is_sent(goto: Goto, why: str) -> None:
    with pytest.raises(UserError, match=why):
        goto.run()


def test_negative_coordinates_are_no_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["goto", "-0.5", "-1", "nan"]) == 2
    assert "The goal [-0.5, -1.0, nan] is not allowed" in capsys.readouterr().err
