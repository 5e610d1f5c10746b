"""Policies for a family of robots: the contract without a robot, and what becomes of it for one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import rlstack
from rlstack.arrays import Array
from rlstack.errors import UserError, unknown_name
from rlstack.interfaces import signals
from rlstack.interfaces.robot_signals import command_range
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.kinds.quadrotor.spec_family import PARAMETERS, family_parameters
from rlstack.policies.catalogue import port_for, port_of
from rlstack.policies.contract import SCHEMA_VERSION, Contract, Port, StatePort
from rlstack.robots import RobotSpec, robot_names

ROTORS = {"quadrotor": 4}
"""The families that a policy may be for, which are kinds of robots, with their number of rotors."""

_SLACK, _LEAST_SLACK = 1e-6, 1e-9
"""Of a range's ends, as a share and in the parameter's unit: a robot file may round, and so does arithmetic."""

_RETRAIN = "Train and export the policy again with this rlstack."


def contract_for_family(
    family: Mapping[str, tuple[float, float]],
    inputs: Sequence[str],
    outputs: Sequence[str],
    *,
    name: str,
    task: str,
    rate_hz: float,
    robot: str = "quadrotor",
    state: Mapping[str, tuple[int, ...]] | None = None,
    envelope: Mapping[str, float] | None = None,
    training: Mapping[str, Any] | None = None,
    evaluation: Mapping[str, Any] | None = None,
) -> Contract:
    """Return the contract of a policy for many vehicles; names and limits of rotors are filled in for one when loaded.

    Args:
        family: Lowest and highest value of each parameter that it was trained over, by the names of
            :data:`rlstack.kinds.quadrotor.spec_family.PARAMETERS`.
        inputs: Names of sensed signals and of :data:`rlstack.interfaces.signals.ROBOT_FILE`, among these
            ``rotor_position``, which tells the rotors apart.
        outputs: Names of commanded signals.
        name: What the policy is called.
        task: The task it was trained for.
        rate_hz: Steps per second, Hz.
        robot: The family's name.
        state: Shape of each recurrent state of one robot, by name.
        envelope: Start states and limits of training, SI units in the keys.
        training: Provenance.
        evaluation: Figures on held-out vehicles.

    Raises:
        UserError: Something is unknown, or the contract would be refused; the message lists the nearest names.
    """
    sizes = {"rotors": ROTORS.get(robot, 0)}
    contract = Contract(
        schema_version=SCHEMA_VERSION,
        name=name,
        task=task,
        robot=robot,
        rate_hz=rate_hz,
        inputs=tuple(port_of(signals.fed(n), sizes) for n in inputs),
        outputs=tuple(port_of(signals.commanded(n), sizes) for n in outputs),
        state=tuple(StatePort(name=n, shape=tuple(shape)) for n, shape in (state or {}).items()),
        envelope=dict(envelope or {}),
        family={key: (float(low), float(high)) for key, (low, high) in family.items()},
        training=dict(training or {}),
        evaluation=dict(evaluation or {}),
        code_version=rlstack.__version__,
    )
    if not family:
        raise UserError("contract: the family has no parameters. Give the range of each that was varied in training.")
    check_family(contract, "contract")
    return contract


def check_family(contract: Contract, where: str) -> None:
    """Refuse a contract for a family that cannot be told what it flies, or does not say what it was trained over.

    A contract for one robot passes.

    Raises:
        UserError: Says what is wrong.
    """
    if not contract.family:
        return
    if contract.robot not in ROTORS:
        raise UserError(f"{where}: {unknown_name('family', contract.robot, ROTORS)} {_RETRAIN}")
    for key, (low, high) in contract.family.items():
        if key not in PARAMETERS:
            raise UserError(f"{where}: {unknown_name('parameter of the family', key, PARAMETERS)} {_RETRAIN}")
        if not low <= high:
            raise UserError(
                f"{where}: the family's {key} goes from {low:g} to {high:g}: give the lowest first. {_RETRAIN}"
            )
    if "rotor_position" not in {port.name for port in contract.inputs}:
        raise UserError(
            f"{where}: a policy for a family needs the input rotor_position: otherwise it does not know which rotor"
            " is where. Train it with this input."
        )
    for kind, port, shape in [
        *(("input", p, signals.fed(p.name).shape) for p in contract.inputs),
        *(("output", p, signals.commanded(p.name).shape) for p in contract.outputs),
    ]:
        count = ROTORS[contract.robot]
        if any(wanted == "rotors" and size != count for wanted, size in zip(shape, port.shape)):
            raise UserError(
                f"{where}: the {kind} '{port.name}' is not for the {count} rotors of a {contract.robot}. {_RETRAIN}"
            )
        if port.element_names or port.minimum or port.maximum:
            raise UserError(
                f"{where}: the {kind} '{port.name}' of a policy for a family has element names or limits, which are the"
                " robot's. Export it with the contract of contract_for_family."
            )


def robot_inputs(robot: Quadrotor) -> dict[str, Array]:
    """Return the value of every signal of :data:`rlstack.interfaces.signals.ROBOT_FILE` for one robot."""
    model = robot.rotor_model
    return {
        "rotor_position": robot.rotor_positions,
        "rotor_yaw_sign": robot.yaw_torque_signs,
        "rotor_speed_min": np.array([model.speed_min_rad_s]),
        "rotor_speed_max": np.array([model.speed_max_rad_s]),
    }


def bind(contract: Contract, robot: RobotSpec, where: str) -> tuple[Contract, dict[str, Array]]:
    """Return the contract of a family's policy for one robot of it, and what is fed to the graph at every step.

    The contract is then like one for that robot alone: its name, rotor names and limits, and no input that is not on
    a topic.

    Raises:
        UserError: The robot is of another kind, or its rotors are not one in each quadrant, neighbours turning
            opposite ways.
    """
    if robot.kind != contract.robot or not isinstance(robot, Quadrotor):
        raise UserError(
            f"{where} is a policy for the family '{contract.robot}', and {robot.name} is of the kind '{robot.kind}'."
            f" Choose a {contract.robot}."
        )
    _check_layout(robot, where)
    values = robot_inputs(robot)
    bound = replace(
        contract,
        robot=robot.name,
        inputs=tuple(_named(p, robot, signals.SENSED) for p in contract.inputs if p.name in signals.SENSED),
        outputs=tuple(_limited(_named(p, robot, signals.COMMANDED), robot) for p in contract.outputs),
    )
    return bound, {port.name: values[port.name] for port in contract.inputs if port.name in values}


def family_departures(contract: Contract, robot: RobotSpec) -> list[str]:
    """Return a sentence for each parameter in which ``robot`` is outside what the policy was trained over.

    Args:
        contract: Of any policy; one for a single robot has no family to be outside of.
        robot: The vehicle.
    """
    if not contract.family or not isinstance(robot, Quadrotor):
        return []
    found, sentences = family_parameters(robot), []
    for key, (low, high) in contract.family.items():
        value, slack = found[key], _SLACK * max(abs(low), abs(high)) + _LEAST_SLACK
        if not low - slack <= value <= high + slack:
            sentences.append(
                f"{robot.name} has a {key} of {value:.7g}, outside the range {low:g} to {high:g} that the policy was"
                " trained over."
            )
    return sentences


def robot_name(contract: Contract, where: str) -> str:
    """Return the name of the one robot that a contract is for.

    Raises:
        UserError: It is for a family; says to name a robot.
    """
    if contract.needs_robot:
        raise UserError(
            f"{where} is a policy for the family '{contract.robot}', not for one robot: say which one flies with"
            f" --robot (known: {', '.join(robot_names(contract.robot))}, or a robot file)."
        )
    return contract.robot


def _check_layout(robot: Quadrotor, where: str) -> None:
    quadrants = {}
    for rotor in robot.rotors:
        x, y, _ = rotor.position_m
        if x != 0.0 and y != 0.0:
            quadrants[x > 0.0, y > 0.0] = rotor.yaw_torque_sign
    if len(quadrants) != len(robot.rotors):
        raise UserError(
            f"{where} is a policy for quadrotors with one rotor in each quadrant (front right, back right, back left,"
            f" front left), which {robot.name} is not. Train a policy for {robot.name} alone."
        )
    if any(sign != quadrants[not front, not left] for (front, left), sign in quadrants.items()):
        raise UserError(
            f"{where} is a policy for quadrotors whose neighbouring rotors turn opposite ways, which {robot.name} is"
            f" not. Train a policy for {robot.name} alone."
        )


def _named(port: Port, robot: Quadrotor, catalogue: Mapping[str, signals.Signal]) -> Port:
    return port_for(catalogue[port.name], robot)


def _limited(port: Port, robot: Quadrotor) -> Port:
    minimum, maximum = command_range(robot, port.name)
    return replace(port, minimum=minimum, maximum=maximum)
