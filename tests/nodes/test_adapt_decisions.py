from __future__ import annotations

from rlstack.identification.kind_adaptation import Told
from rlstack.nodes.adapt_decisions import Decisions

SAME, HEAVY, HALF = Told((0.0, 0.0), "as its file says"), Told((9.0, 0.0), "a payload"), Told((4.5, 0.0), "a payload")


def test_a_robot_that_is_as_its_file_says_is_left_alone() -> None:
    made = Decisions(SAME)
    assert [made.seen(Told((0.9, -0.9), "")) for _ in range(3)] == ["nothing"] * 3


def test_a_payload_is_adapted_to_once_two_looks_agree() -> None:
    made = Decisions(SAME)
    assert [made.seen(one) for one in (SAME, HALF, HEAVY, HEAVY)] == ["nothing", "look again", "look again", "adapt"]
    made.flies(HEAVY)
    assert [made.seen(one) for one in (HEAVY, SAME, SAME)] == ["nothing", "look again", "return"]
    made.flies(None)
    assert made.seen(SAME) == "nothing"


def test_what_was_refused_is_not_tried_again_but_another_payload_is() -> None:
    made = Decisions(SAME)
    made.seen(HEAVY)
    assert made.seen(HEAVY) == "adapt"
    made.refused(HEAVY)
    assert [made.seen(one) for one in (HEAVY, HEAVY, HALF, HALF)] == ["nothing", "nothing", "look again", "adapt"]
