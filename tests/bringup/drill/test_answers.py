import pytest

from rlstack.bringup.drill.answers import ROBOT_OFF, Answer, Repeat, judge, limit_s, worst
from rlstack.kinds.quadrotor.guard_config import QuadrotorGuardConfig
from rlstack.kinds.quadrotor.spec import load_quadrotor

HOVER = Answer(("hover", "land"), "command")


def judged(answer: Answer, limit: float | None, *modes: tuple[float, str], **more) -> Repeat:
    repeat = Repeat(modes=[(0.0, "policy"), *modes], **more)
    judge(repeat, answer, limit)
    return repeat


def test_limits_follow_from_the_guards_configuration():
    config = QuadrotorGuardConfig.from_robot(load_quadrotor("crazyflie"))
    assert limit_s("command", config, 0.05) == pytest.approx(0.03)  # two control periods and an observation
    assert limit_s("observation", config, 0.05) == pytest.approx(0.23)
    assert limit_s("robot", config, 0.05) == pytest.approx(0.08)
    assert limit_s("battery_confirm_s", config, 0.05) == pytest.approx(2.13)
    assert limit_s(0.1, config, 0.05) == 0.1
    assert limit_s(None, config, 0.05) is None


def test_the_first_safe_mode_is_the_answer():
    passed = judged(HOVER, 0.03, (0.02, "hover"), (5.0, "land"))
    assert (passed.answer, passed.answer_s, passed.why) == ("hover", 0.02, "")


@pytest.mark.parametrize(
    ("modes", "why"),
    [
        ([], "the guard stayed in policy"),
        ([(0.05, "hover")], "it took 50 ms, more than 30 ms"),
        ([(0.01, "disarmed"), (0.02, "hover")], "the guard went to disarmed"),
        ([(0.02, "hover"), (0.4, "policy")], "the guard went to policy"),
    ],
)
def test_other_answers_fail(modes, why):
    assert why in judged(HOVER, 0.03, *modes).why


def test_modes_on_the_way_are_allowed_but_not_at_the_end():
    blind = Answer(("disarmed",), "observation", via=("hover",))
    assert judged(blind, 0.22, (0.02, "hover"), (0.2, "disarmed")).why == ""
    assert "stayed in hover" in judged(blind, 0.22, (0.02, "hover")).why
    assert "ended in hover" in judged(blind, 0.22, (0.2, "disarmed"), (0.3, "hover")).why


def test_an_answer_without_a_limit_must_hold_throughout():
    unchanged = Answer(("policy",))
    assert judged(unchanged, None).why == ""
    assert judged(unchanged, None).answer_s is None
    assert "the guard went to hover" in judged(unchanged, None, (0.4, "hover"), (0.5, "policy")).why


def test_a_robot_node_may_have_to_stop_the_robot():
    answer = Answer((), "robot", robot_stops=True)
    assert judged(answer, 0.07, robot_off_s=0.05).answer == ROBOT_OFF
    assert judged(answer, 0.07, robot_off_s=0.05).why == ""
    assert "the robot stopped 90 ms" in judged(answer, 0.07, robot_off_s=0.09).why
    assert "did not stop" in judged(answer, 0.07).why


def test_processes_that_end_and_commands_beyond_a_limit_fail():
    repeat = judged(HOVER, 0.03, (0.02, "hover"), ended=["guard"], problem="a command to the robot is not finite")
    assert repeat.why == "a command to the robot is not finite; guard ended"


def test_the_worst_excursion_is_the_largest_or_the_nearest_obstacle():
    repeats = [
        Repeat([], excursion={"distance m": d, "least to an obstacle m": o}) for d, o in ((1.0, 0.5), (2.0, 0.7))
    ]
    assert worst(repeats) == {"distance m": 2.0, "least to an obstacle m": 0.5}
