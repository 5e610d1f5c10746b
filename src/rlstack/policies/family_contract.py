"""Policies for a family of robots: the contract of the family, and its binding to one robot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rlstack.arrays import Array
from rlstack.errors import UserError, unknown_name
from rlstack.interfaces import signals
from rlstack.kinds import find_kind, kind_names
from rlstack.policies.contract import Contract
from rlstack.policies.robot_contract import new_contract, output_port, port_for, port_of
from rlstack.robots import RobotSpec, robot_names
from rlstack.robots.spec import RobotFamily

_SLACK, _LEAST_SLACK = 1e-6, 1e-9
"""Relative and absolute tolerance of a range's ends, for rounding in robot files and arithmetic."""

_RETRAIN = "Train and export the policy again with this rlstack."


def families() -> dict[str, RobotFamily]:
    """Return the families of robots by name, which is that of their kind."""
    found = {name: find_kind(name).load("spec").family for name in kind_names()}
    return {name: family for name, family in found.items() if family is not None}


def contract_for_family(
    family: Mapping[str, tuple[float, float]], inputs: Sequence[str], outputs: Sequence[str], **fields: Any
) -> Contract:
    """Return the contract of a family's policy; loading it for a robot fills in names and limits of rotors.

    Args:
        family: Lowest and highest trained value of each parameter, by the names of
            :attr:`rlstack.robots.spec.RobotFamily.parameters`.
        inputs: Names of sensed signals and of :data:`rlstack.interfaces.signals.ROBOT_FILE`, among these
            ``rotor_position``, which identifies the rotors.
        outputs: Names of commanded signals.
        fields: ``robot`` (the family's name, which is that of a kind of robot), ``rate_hz``, and the fields of
            :func:`rlstack.policies.contract_for`.

    Raises:
        UserError: Something is unknown, or the contract would be refused; the message lists the nearest names.
    """
    sizes = _family_of(fields["robot"], "contract").sizes
    contract = new_contract(
        [port_of(signals.fed(n), sizes) for n in inputs],
        [port_of(signals.commanded(n), sizes) for n in outputs],
        family={key: (float(low), float(high)) for key, (low, high) in family.items()},
        **fields,
    )
    if not family:
        raise UserError("contract: the family has no parameters. Give the range of each that was varied in training.")
    check_family(contract, "contract")
    return contract


def check_family(contract: Contract, where: str) -> None:
    """Raise ``UserError`` if a family's contract lacks the rotors' layout or the trained ranges.

    A contract for one robot passes.

    Raises:
        UserError: Names the problem.
    """
    if not contract.family:
        return
    known = _family_of(contract.robot, where)
    for key, (low, high) in contract.family.items():
        if key not in known.parameters:
            raise UserError(f"{where}: {unknown_name('parameter of the family', key, known.parameters)} {_RETRAIN}")
        if not low <= high:
            raise UserError(
                f"{where}: the family's {key} goes from {low:g} to {high:g}: give the lowest first. {_RETRAIN}"
            )
    if known.layout_input not in {port.name for port in contract.inputs}:
        raise UserError(
            f"{where}: a policy for a family needs the input {known.layout_input}: otherwise it does not know which"
            " rotor is where. Train it with this input."
        )
    for direction, port, shape in [
        *(("input", p, signals.fed(p.name).shape) for p in contract.inputs),
        *(("output", p, signals.commanded(p.name).shape) for p in contract.outputs),
    ]:
        for wanted, size in zip(shape, port.shape):
            if (count := known.sizes.get(str(wanted), size)) != size:
                raise UserError(
                    f"{where}: the {direction} '{port.name}' is not for the {count} {wanted} of a {contract.robot}."
                    f" {_RETRAIN}"
                )
        if port.element_names or port.minimum or port.maximum:
            raise UserError(
                f"{where}: the {direction} '{port.name}' of a policy for a family has element names or limits, which"
                " are the robot's. Export it with the contract of contract_for_family."
            )


def robot_inputs(robot: RobotSpec) -> dict[str, Array]:
    """Return the value of every signal of :data:`rlstack.interfaces.signals.ROBOT_FILE` for one robot.

    Raises:
        UserError: There are no policies for families of its kind.
    """
    return _family_of(robot.kind, robot.name).inputs(robot)


def bind(contract: Contract, robot: RobotSpec, where: str) -> tuple[Contract, dict[str, Array]]:
    """Bind a family's contract to one robot; return it and the graph's constant inputs.

    The contract is then like one for that robot alone: with its name, rotor names and limits, and only inputs from
    topics.

    Raises:
        UserError: The robot is of another kind, or its layout is not the family's.
    """
    if robot.kind != contract.robot or robot.family is None:
        raise UserError(
            f"{where} is a policy for the family '{contract.robot}', and {robot.name} is of the kind '{robot.kind}'."
            f" Choose a {contract.robot}."
        )
    robot.family.check_layout(robot, where)
    values = robot.family.inputs(robot)
    bound = replace(
        contract,
        robot=robot.name,
        inputs=tuple(port_for(signals.SENSED[p.name], robot) for p in contract.inputs if p.name in signals.SENSED),
        outputs=tuple(output_port(signals.COMMANDED[p.name], robot) for p in contract.outputs),
    )
    return bound, {port.name: values[port.name] for port in contract.inputs if port.name in values}


def family_departures(contract: Contract, robot: RobotSpec) -> list[str]:
    """Return a sentence for each parameter of ``robot`` that is outside the policy's trained range.

    Args:
        contract: Contract of any policy; without a family nothing is outside.
        robot: The vehicle.
    """
    if not contract.family or robot.family is None:
        return []
    found, sentences = robot.family.parameters_of(robot), []
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
        UserError: It is for a family, so a robot must be named.
    """
    if contract.needs_robot:
        raise UserError(
            f"{where} is a policy for the family '{contract.robot}', not for one robot: say which one flies with"
            f" --robot (known: {', '.join(robot_names(contract.robot))}, or a robot file)."
        )
    return contract.robot


def _family_of(kind: str, where: str) -> RobotFamily:
    """Return the family of a kind of robot.

    Raises:
        UserError: There is none.
    """
    known = families()
    if kind not in known:
        raise UserError(f"{where}: {unknown_name('family', kind, known)} {_RETRAIN}")
    return known[kind]
