"""Policies for a family of robots, bound to one of it when they are loaded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack import schema
from rlstack.errors import UserError
from rlstack.interfaces.signals import ROBOT_FILE, SENSED
from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.kinds.quadrotor.spec_family import PARAMETERS, family_parameters
from rlstack.policies import (
    Contract,
    Policy,
    contract_for,
    contract_for_family,
    describe,
    family_departures,
    load_policy,
    robot_inputs,
    robot_name,
    write_policy,
)
from rlstack.policies.contract_table import WIDTH
from rlstack.policies.robot_contract import check_robot
from tests.policies.graphs import (
    FAMILY,
    FAMILY_INPUTS,
    crazyflie,
    family_contract,
    family_model,
    family_reference,
    mlp_contract,
    mlp_model,
    put,
    sealed,
)

ROBOTS = ("crazyflie", "x500", "racer", "flightmare", "mrs_f330")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("family") / "policy.onnx"
    write_policy(family_model(), family_contract(), path)
    return path


@pytest.mark.parametrize("name", ROBOTS)
def test_one_file_flies_many_robots(file: Path, name: str) -> None:
    """Rotors in whatever order, other limits, other layouts: the robot file's numbers reach the graph at every step."""
    robot = load_quadrotor(name)
    policy = load_policy(file, robot=robot)
    rng = np.random.default_rng(0)
    for calls in range(5):
        position, yaw_rate = rng.normal(size=3), float(rng.normal())
        found = policy.step({"position": position, "angular_velocity": [0.0, 0.0, yaw_rate]})["rotor_speed"]
        np.testing.assert_allclose(found, family_reference(robot, position, yaw_rate, calls), rtol=1e-5, atol=1e-2)


def test_a_bound_contract_is_like_one_for_that_robot_alone(file: Path) -> None:
    robot = load_quadrotor("x500")
    contract = load_policy(file, robot=robot).contract
    alone = contract_for(robot, FAMILY_INPUTS[:2], ["rotor_speed"], name="any", task="quadrotor_foundation")
    assert (contract.inputs, contract.outputs, contract.robot) == (alone.inputs, alone.outputs, "x500")
    assert not contract.needs_robot and contract.family == FAMILY
    assert contract.sha256 == load_policy(file).contract.sha256
    check_robot(contract, robot, "policy.onnx")
    with pytest.raises(UserError, match="is a policy for the robot 'x500', not for 'crazyflie'"):
        check_robot(contract, crazyflie(), "policy.onnx")
    assert robot_name(contract, "policy.onnx") == "x500"


def test_a_batch_is_fed_the_robots_numbers_too(file: Path) -> None:
    robot = load_quadrotor("racer")
    policy = load_policy(file, robot=robot)
    position = np.random.default_rng(1).normal(size=(6, 3))
    for batch in (6, 2):
        policy.reset(batch)
        for calls in range(2):
            inputs = {"position": position[:batch], "angular_velocity": np.zeros((batch, 3))}
            found = policy.step(inputs)["rotor_speed"]
            expected = [family_reference(robot, p, 0.0, calls) for p in position[:batch]]
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-2)


def test_nobody_else_gives_the_robots_numbers(file: Path) -> None:
    robot = crazyflie()
    here = {"position": np.zeros(3), "angular_velocity": np.zeros(3)}
    with pytest.raises(ValueError, match="takes position, angular_velocity; unknown: rotor_position"):
        load_policy(file, robot=robot).step({**here, "rotor_position": robot.rotor_positions})


def test_without_a_robot_it_can_be_shown_and_not_stepped(file: Path) -> None:
    policy = load_policy(file)
    assert policy.contract.needs_robot and policy.contract.robot == "quadrotor"
    policy.reset(3)
    with pytest.raises(UserError, match=r"family 'quadrotor' .*load_quadrotor\(NAME\).*crazyflie.*x500"):
        policy.step({"position": np.zeros(3), "angular_velocity": np.zeros(3), **robot_inputs(crazyflie())})
    with pytest.raises(UserError, match=r"policy.onnx .*say which one flies with --robot \(known: crazyflie"):
        robot_name(policy.contract, "policy.onnx")


def test_the_family_is_shown(file: Path) -> None:
    text = describe(load_policy(file).contract)
    assert "robot    any quadrotor of the family below" in text
    for key, (low, high) in FAMILY.items():
        (row,) = [line for line in text.splitlines() if line.startswith(f"  {key} ")]
        assert row.split()[1:3] == [f"{low:g}", f"{high:g}"] and row.endswith(PARAMETERS[key])
    (row,) = [line for line in text.splitlines() if line.startswith("  rotor_position ")]
    assert "[4, 3]" in row and "robot file" in row and "rotors[].position_m" in row
    assert "robot's" in text and max(map(len, text.splitlines())) <= WIDTH
    bound = describe(load_policy(file, robot=load_quadrotor("x500")).contract)
    assert "x500, of the family below" in bound and "mass_kg" in bound and "rotor_position" not in bound
    assert "family" not in describe(mlp_contract())


def test_the_contract_survives_the_file(file: Path) -> None:
    written = replace(family_contract(), sha256=load_policy(file).contract.sha256)
    assert load_policy(file).contract == written
    assert schema.to_data(written)["family"]["mass_kg"] == [0.02, 5.0]


# ---- what is outside the family


def test_departures_name_parameter_value_and_range() -> None:
    assert family_departures(family_contract(), crazyflie()) == []
    assert family_departures(family_contract(), load_quadrotor("x500")) == [
        "x500 has a torque_per_thrust_m of 0.10847, outside the range 0.005 to 0.05 that the policy was trained over."
    ]
    assert family_departures(mlp_contract(), load_quadrotor("x500")) == [], "it is not for a family"


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(sorted(PARAMETERS)), st.floats(0.2, 0.999), st.sampled_from(ROBOTS))
def test_every_parameter_is_flagged_on_both_sides_and_at_neither_end(key: str, share: float, name: str) -> None:
    robot = load_quadrotor(name)
    value = family_parameters(robot)[key]
    if key == "rotor_unevenness":  # of these robots, 0 but for rounding
        assert family_departures(family_contract({key: (0.0, 0.0)}), robot) == []
        assert len(family_departures(family_contract({key: (0.1, 0.2)}), robot)) == 1
        return
    for low, high, outside in (
        (value, value / share, False),
        (value * share, value, False),
        (value / share, 2.0 * value / share, True),
        (value * share / 2.0, value * share, True),
    ):
        found = family_departures(family_contract({key: (low, high)}), robot)
        assert len(found) == outside and all(f"{name} has a {key} of {value:.7g}" in s for s in found)


def test_loading_for_a_robot_outside_the_family_is_no_error(file: Path) -> None:
    heavy = replace(crazyflie(), body=replace(crazyflie().body, mass_kg=0.001))
    contract = load_policy(file, robot=heavy).contract
    assert [s.split()[3] for s in family_departures(contract, heavy)] == ["mass_kg", "thrust_to_weight"]


# ---- robots that do not fit


def with_rotors(places: list[tuple[float, float]], signs: tuple[int, ...] = (-1, 1, -1, 1)) -> Quadrotor:
    rotors = crazyflie().rotors
    changed = [
        replace(r, position_m=(x, y, 0.0), yaw_torque_sign=sign) for r, (x, y), sign in zip(rotors, places, signs)
    ]
    return replace(crazyflie(), rotors=tuple(changed))


CROSS = [(0.1, -0.1), (-0.1, -0.1), (-0.1, 0.1), (0.1, 0.1)]


@pytest.mark.parametrize(
    ("robot", "words"),
    [
        (with_rotors([(0.1, 0.0), (0.0, -0.1), (-0.1, 0.0), (0.0, 0.1)]), "one rotor in each quadrant"),
        (with_rotors([(0.1, -0.1), (-0.1, -0.1), (-0.1, 0.1), (0.2, -0.1)]), "one rotor in each quadrant"),
        (with_rotors(CROSS, (-1, -1, 1, 1)), "neighbouring rotors turn in opposite directions"),
        (with_rotors(CROSS, (-1, 1, 1, -1)), "neighbouring rotors turn in opposite directions"),
    ],
)
def test_another_layout_is_refused(file: Path, robot: Quadrotor, words: str) -> None:
    with pytest.raises(UserError, match=f"{words}.*, which crazyflie is not. Train a policy for crazyflie alone"):
        load_policy(file, robot=robot)
    assert load_policy(file, robot=with_rotors(CROSS, (1, -1, 1, -1))).contract.robot == "crazyflie"


# ---- contracts that are refused


def refused(folder: Path, contract: Contract | dict[str, Any]) -> str:
    """The hash is right: only the contract is wrong."""
    with pytest.raises(UserError) as caught:
        load_policy(put(folder, sealed(family_model(), contract)))
    return str(caught.value)


def with_port(index: int, **changes: Any) -> Contract:
    contract = family_contract()
    ports = list(contract.inputs)
    ports[index] = replace(ports[index], **changes)
    return replace(contract, inputs=tuple(ports))


def test_robot_files_signals_are_no_inputs_of_a_policy_for_one_robot(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no topic gives it"):
        contract_for(crazyflie(), ["position", "rotor_position"], ["rotor_speed"], name="a", task="t")
    contract = replace(family_contract(), family={}, robot="crazyflie")
    assert "no topic gives the input 'rotor_position'" in refused(tmp_path, contract)


@pytest.mark.parametrize(
    ("contract", "words"),
    [
        (replace(family_contract(), robot="hexapod"), "Unknown family 'hexapod'"),
        (replace(family_contract(), family={"mass": (1.0, 2.0)}), "Unknown parameter of the family 'mass'. Nearest: m"),
        (replace(family_contract(), family={"mass_kg": (2.0, 1.0)}), "mass_kg goes from 2 to 1: give the lowest first"),
        (replace(family_contract(), inputs=family_contract().inputs[:2]), "needs the input rotor_position"),
        (with_port(2, shape=(6, 3)), "'rotor_position' is not for the 4 rotors of a quadrotor"),
        (with_port(2, shape=("rotors", 3)), "'rotor_position' has an axis 'rotors' of no fixed size"),
        (with_port(2, shape=(4, 2)), r"'rotor_position' has the shape \[4, 2\]"),
        (with_port(3, field="rotors[].sign"), "'rotor_yaw_sign' has the field 'rotors[].sign'"),
        (with_port(3, element_names=tuple("abcd")), "'rotor_yaw_sign' of a policy for a family has element names"),
        (
            replace(family_contract(), outputs=mlp_contract().outputs),
            "the output 'rotor_speed' of a policy for a family has element names or limits",
        ),
        ({**schema.to_data(family_contract()), "family": {"mass_kg": [1.0]}}, "family.mass_kg"),
        ({**schema.to_data(family_contract()), "family": {"mass_kg": [1.0, "many"]}}, "family.mass_kg"),
    ],
)  # fmt: skip
def test_contracts_that_are_refused(tmp_path: Path, contract: Contract | dict[str, Any], words: str) -> None:
    assert words.replace("\\", "") in refused(tmp_path, contract)


def test_making_a_contract_refuses_what_loading_refuses() -> None:
    facts: dict[str, Any] = {"name": "a", "task": "t", "rate_hz": 100.0, "robot": "quadrotor"}
    for family, inputs, words in (
        ({}, FAMILY_INPUTS, "the family has no parameters"),
        ({"mas_kg": (1.0, 2.0)}, FAMILY_INPUTS, "Nearest: mass_kg"),
        (FAMILY, ["position"], "needs the input rotor_position"),
        (FAMILY, ["position", "rotor_positions"], "Nearest: rotor_position"),
    ):
        with pytest.raises(UserError, match=words):
            contract_for_family(family, inputs, ["rotor_speed"], **facts)
    with pytest.raises(UserError, match="Unknown family 'octopus'"):
        contract_for_family(FAMILY, FAMILY_INPUTS, ["rotor_speed"], **{**facts, "robot": "octopus"})


def test_a_graph_that_leaves_the_robots_range_is_refused(tmp_path: Path) -> None:
    bare = family_model()
    for tensor in bare.graph.initializer:
        if tensor.name == "half":
            tensor.CopyFrom(_scalar("half", 1.5))
        if tensor.name == "most":
            tensor.CopyFrom(_scalar("most", 2.0))
    with pytest.raises(UserError, match=r"outside the range that its contract promises \(0 to 2272.6 rad/s\)"):
        write_policy(bare, family_contract(), tmp_path / "policy.onnx")
    # with the numbers of the robot that is to fly
    path = put(tmp_path, sealed(bare, family_contract()))
    with pytest.raises(UserError, match=r"\(167 to 2800 rad/s\)"):
        load_policy(path, robot=load_quadrotor("racer"))


def _scalar(name: str, number: float) -> Any:
    from onnx import numpy_helper

    return numpy_helper.from_array(np.float32(number), name)


def test_robot_inputs_are_those_of_the_catalogue() -> None:
    robot = load_quadrotor("mrs_f330")
    values = robot_inputs(robot)
    assert values.keys() == ROBOT_FILE.keys() and not ROBOT_FILE.keys() & SENSED.keys()
    for name, value in values.items():
        assert value.shape == tuple(4 if size == "rotors" else size for size in ROBOT_FILE[name].shape)
        assert np.isfinite(value).all() and not ROBOT_FILE[name].topic


def test_a_policy_for_one_robot_is_as_before(tmp_path: Path) -> None:
    write_policy(mlp_model(), mlp_contract(), tmp_path / "policy.onnx")
    policy: Policy = load_policy(tmp_path / "policy.onnx")
    assert policy.contract.family == {} and not policy.contract.needs_robot
    assert robot_name(policy.contract, "policy.onnx") == "crazyflie"
