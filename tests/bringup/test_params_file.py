from __future__ import annotations

from pathlib import Path

import pytest

from rlstack.bringup.node_process import Process, System
from rlstack.bringup.params_file import with_params_file
from rlstack.errors import UserError

SYSTEM = System(
    name="s",
    processes=(
        Process(name="robot", module="m", namespace="/cf1", parameters={"robot": "crazyflie", "lock_step": True}),
        Process(name="cf1.guard", node="guard", module="m", namespace="/cf1", parameters={"robot": "crazyflie"}),
        Process(name="verify", module="m", arguments=("x",)),
    ),
)


@pytest.mark.parametrize(
    "text",
    [
        "/**: {ros__parameters: {use_sim_time: true}}",
        "/**/guard: {ros__parameters: {tilt_rad: 0.5}}",
        "/cf1/guard: {ros__parameters: {tilt_rad: 0.5, robot: crazyflie}}",
        "cf1: {guard: {ros__parameters: {tilt_rad: 0.5}}, other: {ros__parameters: {a: 1}}}",
    ],
)
def test_nodes_get_the_file_after_their_own_parameters(text: str, tmp_path: Path) -> None:
    file = tmp_path / "parameters.yaml"
    file.write_text(text)
    robot, guard, verify = with_params_file(SYSTEM, file).processes
    assert guard.command()[-2:] == ["--params-file", str(file)]
    assert robot.params_file == str(file)
    assert verify == SYSTEM.processes[2]
    assert with_params_file(SYSTEM, "") is SYSTEM


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "/**/gard: {ros__parameters: {tilt_rad: 0.5}}",
            r"nothing for any .* \(robot, guard, .*but gard: name",
        ),
        ("{}", "nothing for any of the nodes"),
        ("[1]", "is not one: 'the whole' has no ros__parameters"),
        ("guard: {tilt_rad: 0.5}", "'/guard/tilt_rad' has no ros__parameters"),
        ("ros__parameters: {tilt_rad: 0.5}", "and a node above"),
        (
            "guard: {ros__parameters: {robot: x500}}",
            "sets 'robot' of guard to 'x500', which is 'crazyflie'",
        ),
        ("/**: {ros__parameters: {lock_step: false}}", "sets 'lock_step' of robot to False, which is True here"),
        ("a: [", "cannot be read|is not valid"),
    ],
)
def test_what_would_have_no_effect_or_the_wrong_one_is_refused(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "parameters.yaml"
    file.write_text(text)
    with pytest.raises(UserError, match=said):
        with_params_file(SYSTEM, file)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.yaml"):
        with_params_file(SYSTEM, tmp_path / "none.yaml")
