"""Deployments without a policy file: another program commands, or a policy server."""

from __future__ import annotations

import pytest

from rlstack.bringup.deploy import checked_deployment
from rlstack.bringup.system import deploy_system
from rlstack.errors import UserError

SERVER = "lerobot://127.0.0.1:8080?pretrained=/p&type=act&rate=10"
SERIAL = "serial:///dev/ttyACM0?calibration=follower.json"


def test_another_program_s_commands_go_to_the_guard_and_no_node_of_ours_sends_any() -> None:
    processes = {p.name: p for p in deploy_system(robot="so100", commander="external").processes}
    assert list(processes) == ["robot", "guard"]
    assert processes["robot"].parameters["command_source"] == "guard"
    assert processes["guard"].parameters["auto_arm"] is True


def test_a_server_s_policy_takes_the_policy_node_s_place_and_the_guard_knows_its_rate() -> None:
    processes = {p.name: p for p in deploy_system(robot="so100", commander=SERVER).processes}
    assert list(processes) == ["robot", "guard", "remote_policy"]
    node = processes["remote_policy"]
    assert node.module == "rlstack.nodes.remote_policy" and node.parameters["server"] == SERVER
    assert node.when_it_ends == "let the rest go on" and "holds the arm" in node.why
    assert processes["guard"].parameters["staleness_s"] == pytest.approx(0.25), "2.5 periods at 10 Hz"


def test_a_real_robot_needs_force_for_a_policy_that_cannot_be_verified() -> None:
    with pytest.raises(UserError, match=r"cannot be verified: try it in a simulator first.*--force.*--tether 0\.3"):
        checked_deployment(robot="so100", backend="feetech", uri=SERIAL, commander=SERVER)
    forced = checked_deployment(robot="so100", backend="feetech", uri=SERIAL, commander=SERVER, force=True)
    assert [p.node_name for p in forced.processes] == ["robot", "guard", "remote_policy"]
    assert checked_deployment(robot="so100", backend="feetech", uri=SERIAL, commander="external").processes


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"commander": SERVER, "policy": "p.onnx"}, "takes the place of 'p.onnx': leave one of the two out"),
        ({"commander": "external", "robot": "turtlebot3_burger", "driver": "dwa"}, "takes the place of 'dwa'"),
        ({"commander": "someone"}, "The URI 'someone' is not allowed: the driver 'lerobot' takes lerobot://"),
        ({"commander": SERVER, "instruction": "push"}, "hears no instruction: leave it out.*option task"),
        ({"commander": "external", "teleop": True}, "teleop corrects a policy node"),
    ],
)
def test_what_contradicts_itself_is_refused(options: dict[str, object], says: str) -> None:
    with pytest.raises(UserError, match=says):
        checked_deployment(**{"robot": "so100", **options})  # type: ignore[arg-type]
