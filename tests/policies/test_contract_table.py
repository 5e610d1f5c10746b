from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rlstack.interfaces.instruction import TextInput
from rlstack.policies import contract_for, describe, load_policy, write_policy
from rlstack.policies.contract_table import WIDTH
from rlstack.robots import load_robot
from tests.policies.graphs import crazyflie, gru_contract, gru_model, mlp_contract


def test_everything_in_the_contract_is_shown(tmp_path: Path) -> None:
    contract = gru_contract(
        envelope={"tilt_rad": 1.5, "position_m": 0.6},
        training={"recipe": {"algorithm": "ppo", "layers": [64, 64]}, "seed": 3, "device": None},
        evaluation={"success": 0.9612, "by_disturbance": [{"name": "gust", "success": 0.91}]},
    )
    write_policy(gru_model(), contract, tmp_path / "policy.onnx")
    contract = load_policy(tmp_path / "policy.onnx").contract
    text = describe(contract)
    for port in (*contract.inputs, *contract.outputs):
        (row,) = [line for line in text.splitlines() if line.startswith(f"  {port.name} ") and f" {port.field}" in line]
        for shown in (str(list(port.shape)), port.unit, port.frame, port.topic):
            assert shown in row
        assert port.type in text
    for shown in (
        contract.sha256,
        "100 Hz (10 ms)",
        "crazyflie",
        "quadrotor_hover",
        contract.code_version,
        "2272.6",
        "m1, m2, m3, m4",
        "hidden",
        "tilt_rad",
        "recipe.algorithm",
        "[64, 64]",
        "by_disturbance[0].success",
        "0.9612",
    ):
        assert shown in text


def test_a_scan_is_described() -> None:
    text = describe(contract_for(load_robot("turtlebot3_burger"), ["position", "scan"], ["twist"], name="b", task="t"))
    for shown in (
        "rays of scan",
        "360, from 0 to 359 degrees, 1 apart",
        "0.16 to 8 m",
        "scan_link, also called base_scan",
        "[-0.032, 0.0, 0.172] m",
        "twist.linear.x, twist.angular.z",
    ):
        assert shown in text
    (limits,) = [line for line in text.splitlines() if line.split()[:2] == ["twist", "0"]]
    assert limits.split()[2:4] == ["-0.22", "0.22"]
    assert max(map(len, text.splitlines())) <= WIDTH


def test_lines_fit(tmp_path: Path) -> None:
    contract = contract_for(
        crazyflie(),
        ["position", "orientation", "linear_velocity", "angular_velocity", "measured_rotor_speed", "goal_orientation"],
        ["rotor_speed"],
        name="a policy with many words in its name " * 5,
        task="quadrotor_hover",
        training={"command": "rlstack train quadrotor_hover " + " ".join(f"--field{i} {i}" for i in range(40))},
    )
    text = describe(contract)
    assert max(map(len, text.splitlines())) <= WIDTH <= 120
    assert "--field39 39" in " ".join(text.split())


def test_sentences_in_a_list_have_a_line_each() -> None:
    text = describe(replace(mlp_contract(), training={"observation": ["up: columns 0 to 2", "heading: 3, 4"]}))
    lines = [line.split(maxsplit=1) for line in text.splitlines() if "observation[" in line]
    assert lines == [["observation[0]", "up: columns 0 to 2"], ["observation[1]", "heading: 3, 4"]]


def test_limits_that_differ_are_shown_by_element() -> None:
    contract = mlp_contract()
    output = replace(contract.outputs[0], maximum=(2000.0, 2000.0, 2000.0, 1999.5))
    text = describe(replace(contract, outputs=(output,)))
    assert "  rotor_speed  m4       0        1999.5   rad/s" in text.splitlines()


def test_what_is_not_recorded_is_said() -> None:
    text = describe(mlp_contract())
    assert text.count("nothing recorded") == 2 and "has no envelope" in text
    assert "none: not written to a file yet" in text
    assert "recurrent state\n  none" in text


def test_a_file_cannot_steer_the_terminal() -> None:
    text = describe(mlp_contract(name="\x1b[2Jgone", training={"\x1b]0;title\x07": "\r\nfaked"}))
    assert all(c.isprintable() or c == "\n" for c in text)


def test_the_words_and_examples_of_a_policy_that_follows_instructions_are_shown() -> None:
    text = TextInput(words=("push", "red"), examples=("push red", "red push"))
    robot = load_robot("panda")
    shown = describe(contract_for(robot, ["instruction"], ["joint_target"], text=text, name="p", task="t")).splitlines()
    rows = [line.split(maxsplit=2) for line in shown[shown.index("text of instruction") + 1 :][:3]]
    assert rows == [["knows", "2", "words: push, red"], ["example", "'push", "red'"], ["example", "2", "'red push'"]]


def test_a_policy_that_plans_chunks_says_how_long() -> None:
    assert "\nplans    4 steps at once\n" in describe(replace(mlp_contract(), chunk=(4, 3)))
    assert "plans" not in describe(mlp_contract())
