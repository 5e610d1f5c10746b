from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rlstack.errors import UserError
from rlstack.policies import Envelope, contract_for, describe, envelope_for, load_policy, write_policy
from rlstack.policies.envelope import QUANTITIES, unit_of
from rlstack.policies.robot_envelope import changed_numbers
from rlstack.robots import load_robot
from tests.policies.graphs import crazyflie, mlp_contract, mlp_model


def test_every_quantity_has_a_unit() -> None:
    units = {name: unit_of(name) for name in QUANTITIES}
    assert units["observation_delay_s"] == "s" and units["control_rate_hz"] == "Hz"
    assert units["speed_m_s"] == "m/s" and units["mass_scale"] == "1" and units["payload_kg"] == "kg"
    with pytest.raises(ValueError, match="does not end with a unit"):
        unit_of("mass")


def test_an_envelope_survives_the_file(tmp_path: Path) -> None:
    contract = mlp_contract()
    envelope = envelope_for(
        crazyflie(),
        contract.inputs,
        100.0,
        trained={"observation_delay_s": (0.0, 0.03), "mass_scale": (0.7, 1.3)},
        noise={"position": 0.001, "orientation": 0.002, "scan": 1.0},
        conditions={"tilt_rad": 1.5},
    )
    write_policy(mlp_model(), replace(contract, envelope=envelope), tmp_path / "policy.onnx")
    found = load_policy(tmp_path / "policy.onnx", robot=crazyflie()).contract
    assert found.envelope == envelope and found.envelope
    assert envelope.noise == {"position": 0.001, "orientation": 0.002}  # only of inputs that it has
    # two periods, and as late as training was
    assert set(envelope.max_age_s.values()) == {0.05} and set(envelope.max_age_s) == {p.name for p in contract.inputs}
    assert envelope.robot["mass_kg"] == 0.027 and envelope.robot_sha256 == crazyflie().sha256
    text = describe(found)
    for shown in ("observation_delay_s", "0.03", "mass_scale", "0.05 s", "0.002 rad", "tilt_rad", "mass_kg"):
        assert shown in text


def test_a_file_without_one_says_so() -> None:
    assert "not proven for delay, rate, noise" in describe(mlp_contract())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"max_age_s": {"position": 0.02}}, "greatest age of orientation, linear_velocity, angular_velocity"),
        ({"noise": {"scan": 0.01}}, "envelope.noise: 'scan' is no input of this policy"),
    ],
)
def test_an_envelope_that_does_not_fit_is_refused(tmp_path: Path, changes: dict, said: str) -> None:
    contract = mlp_contract()
    envelope = replace(envelope_for(crazyflie(), contract.inputs, 100.0), **changes)
    with pytest.raises(UserError, match=said):
        write_policy(mlp_model(), replace(contract, envelope=envelope), tmp_path / "policy.onnx")


def test_a_range_that_begins_at_its_end_is_refused() -> None:
    with pytest.raises(ValueError, match="the lower end must come first"):
        Envelope(trained={"mass_scale": (1.3, 0.7)})
    with pytest.raises(ValueError, match="must be at least 0"):
        Envelope(max_age_s={"position": -1.0})


def test_a_base_s_ages_come_from_its_lidar() -> None:
    robot = load_robot("turtlebot3_burger")
    names = ["position", "orientation", "scan", "people_position", "people_velocity", "goal_position"]
    contract = contract_for(robot, names, ["twist"], name="b", task="base_navigation", rate_hz=10.0)
    late = {"scan_delay_s": (0.0, 0.2), "people_delay_s": (0.0, 0.5)}
    envelope = envelope_for(robot, contract.inputs, 10.0, trained=late, rays_used=range(0, 360, 5))
    lidar = robot.lidars["scan"]
    periods_s = 2.0 * max(1.0 / lidar.rate_hz + lidar.latency_s, 0.1)
    ages = envelope.max_age_s
    assert ages["position"] == pytest.approx(0.2) and ages["scan"] == pytest.approx(periods_s + 0.2)
    assert ages["people_position"] == pytest.approx(periods_s + 0.5) and "goal_position" not in ages
    assert envelope.extrapolated == ("people_position",)
    use = envelope.scans["scan"]
    assert use.rays_used == tuple(range(0, 360, 5))
    assert (use.no_return_m, use.missing_m) == (lidar.range_max_m, lidar.range_min_m)
    assert envelope.robot["radius_m"] == robot.radius_m
    text = describe(replace(contract, envelope=envelope))
    assert "72 rays, 0 to 355, every 5th" in text and "moved on by velocity times age" in text


def test_an_arm_s_numbers_tell_its_tool_and_gains() -> None:
    robot = load_robot("so100")
    contract = contract_for(robot, ["joint_position", "goal_position"], ["joint_target"], name="a", task="arm_reach")
    numbers = envelope_for(robot, contract.inputs, 20.0).robot
    assert len(numbers["tool_at_rest_m"]) == 3 and numbers["gravity_compensation"] == robot.gravity_compensation
    assert [joint["stiffness"] for joint in numbers["joints"]] == [drive.stiffness for drive in robot.drives]


def test_numbers_of_the_robot_that_changed_since_training_are_named() -> None:
    robot = crazyflie()
    contract = mlp_contract()
    envelope = envelope_for(robot, contract.inputs, 100.0)
    assert changed_numbers(envelope, robot) == [] and changed_numbers(Envelope(), robot) == []
    heavier = replace(robot, body=replace(robot.body, mass_kg=0.033))
    assert changed_numbers(envelope, heavier) == ["mass_kg is 0.033 here and 0.027 in training"]
    arm = load_robot("so100")
    reach = contract_for(arm, ["joint_position"], ["joint_target"], name="a", task="arm_reach")
    stiffer = replace(arm, joints=(replace(arm.joints[0], stiffness_n_m_per_rad=99.0), *arm.joints[1:]))
    (found,) = changed_numbers(envelope_for(arm, reach.inputs, 20.0), stiffer)
    assert found.startswith(f"joints[{arm.joints[0].name}].stiffness is 99.0 here and ")
