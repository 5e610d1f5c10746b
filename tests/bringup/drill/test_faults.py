import math

import numpy as np
import pytest

pytest.importorskip("rclpy")

from rclpy.serialization import serialize_message

from rlstack.bringup.drill.drill import DrillOptions, drill, list_faults
from rlstack.bringup.drill.faults import FAULTS
from rlstack.bringup.drill.kind_drill import drill_of
from rlstack.bringup.drill.running import faults_for
from rlstack.errors import UserError
from rlstack.guard import CommonMode
from rlstack.interfaces import topics
from rlstack.kinds import find_kind
from rlstack.nodes.command_messages import command_message
from rlstack.robots import load_robot

ROBOTS = ("crazyflie", "turtlebot3_burger", "panda", "go1")


@pytest.fixture(params=ROBOTS)
def kind(request):
    return drill_of(load_robot(request.param))


def test_names_differ_and_every_fault_has_an_answer_for_the_quadrotor():
    names = [fault.name for fault in FAULTS]
    assert len(set(names)) == len(names) >= 35
    assert [fault.name for fault in faults_for(drill_of(load_robot("crazyflie")))] == names


def test_every_kind_answers_at_least_25_faults_with_modes_that_its_guard_has(kind):
    modes = {str(mode) for mode in CommonMode}
    guard = find_kind(kind.robot.kind).load("guard")
    modes |= {str(mode) for mode in type(guard.SAFE_MODE)}
    faults = faults_for(kind)
    assert len(faults) >= 25
    for answer in kind.ANSWERS.values():
        assert {*answer.modes, *answer.via} <= modes
        assert answer.robot_stops or answer.modes
    used = {fault.answer for fault in (*FAULTS, *kind.FAULTS)}
    assert set(kind.ANSWERS) <= used, "answers of no fault"


def test_commands_are_judged_by_the_robots_range(kind):
    signal = kind.command
    names = {"rotor_speed": "rotor_names"}.get(signal.name)
    listed = getattr(kind.robot, names) if names else [drive.name for drive in getattr(kind.robot, "drives", ())]
    message = command_message(signal.name, listed)
    middle = 0.5 * (kind._low + kind._high)
    data = lambda numbers: bytes(serialize_message(message.fill(0, numbers)))  # noqa: E731
    assert kind.command_problem(data(middle)) == ""
    assert "beyond its range" in kind.command_problem(data(kind._high * 1.01 + 0.01))
    assert "not finite" in kind.command_problem(data(np.full(len(middle), math.nan)))
    assert "could not be read" in kind.command_problem(data(middle)[:10])
    for name, edit in kind.command_edits.items():
        edited = message.fill(0, middle)
        edit(edited)
        assert kind.command_problem(bytes(serialize_message(edited))), name


def test_observations_are_edited_in_a_way_that_is_seen(kind):
    from rlstack.interfaces.signals import SENSED

    observed = SENSED[find_kind(kind.robot.kind).load("guard").OBSERVED[0]]
    for name, edit in kind.observation_edits.items():
        message = topics.message_type(observed.type)()
        if hasattr(message, "position"):
            message.position = [0.0, 0.0]
        before = bytes(serialize_message(message))
        edit(message)
        assert bytes(serialize_message(message)) != before, name


def test_the_list_has_each_fault_with_its_answer_and_limit():
    text = list_faults("crazyflie")
    assert "hover or land within 30 ms" in text
    assert "robot node stops the robot within 80 ms" in text
    assert all(fault.name in text for fault in FAULTS) and "launcher_killed" in text
    assert "policy_short" not in list_faults("turtlebot3_burger"), "a twist has no elements to leave out"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (DrillOptions(policy="p.onnx", robot="crazyflie", faults=("policy_nann",)), "Unknown fault 'policy_nann'"),
        (DrillOptions(policy="p.onnx", robot="crazyflie", backend="topics"), "simulators only"),
        (DrillOptions(policy="p.onnx", robot="racer_rates", backend="betaflight", uri="serial:///dev/ttyACM0"), "sitl"),
        (DrillOptions(policy="p.onnx", robot="crazyflie", repeats=0), "--repeats 0 is not allowed"),
    ],
)
def test_bad_input_is_refused_before_anything_starts(options, said):
    with pytest.raises(UserError, match=said):
        drill(options)
