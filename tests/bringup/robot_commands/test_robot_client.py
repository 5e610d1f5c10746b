from __future__ import annotations

import pytest

from rlstack.bringup.robot_commands.robot_client import chosen, matching, shown, within
from rlstack.errors import UserError

THERE = ["/", "/cf1", "/fleet/cf2", "/other/cf2"]


def test_a_robot_is_named_by_its_namespace_or_the_last_part_of_it() -> None:
    assert chosen("cf1", THERE) == chosen("/cf1", THERE) == "/cf1"
    assert chosen("fleet/cf2", THERE) == "/fleet/cf2"
    assert chosen("/", THERE) == "/"
    assert matching("f1", THERE) == []  # part of a name is no name


def test_a_name_of_several_robots_or_of_none_lists_those_that_are_there() -> None:
    with pytest.raises(UserError, match=r"'cf2' may be /fleet/cf2 or /other/cf2\. Robots: /, /cf1"):
        chosen("cf2", THERE)
    with pytest.raises(UserError, match=r"No robot 'cf9' is there\. Robots: /, /cf1"):
        chosen("cf9", THERE)


def test_names_for_messages_and_for_ros() -> None:
    assert (shown("/fleet/cf2"), shown("/")) == ("fleet/cf2", "/")
    assert (within("/cf1", "estop"), within("/", "estop"), within("/cf1", "")) == ("/cf1/estop", "/estop", "/cf1/")
