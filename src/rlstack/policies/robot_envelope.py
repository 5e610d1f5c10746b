"""The envelope of a policy for a robot: ages from its sensors' rates, numbers from its file, the rest from the task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rlstack.interfaces.scan_messages import NEIGHBOUR_RAD
from rlstack.interfaces.topics import LATCHED, PEOPLE, SCAN
from rlstack.policies.contract import Port
from rlstack.policies.envelope import ENVELOPE_VERSION, Envelope, Range, ScanUse, finite_numbers
from rlstack.policies.proven import delay_names
from rlstack.robots import RobotSpec
from rlstack.robots.kinematics import chain_of, tool_motion

PERIODS = 2.0
"""Greatest age of an input in periods of its sensor, or of the policy if that is slower, besides the delays that
training drew: one message may be lost."""

EXTRAPOLATED = {"people_position": "people_velocity"}
"""Inputs that the policy node moves on by their age, and the velocities that it takes for that."""


def envelope_for(
    robot: RobotSpec,
    inputs: Sequence[Port],
    rate_hz: float,
    *,
    trained: Mapping[str, Range] | None = None,
    noise: Mapping[str, float] | None = None,
    conditions: Mapping[str, float] | None = None,
    rays_used: Sequence[int] = (),
    for_family: bool = False,
) -> Envelope:
    """Return the envelope of a policy that was trained on ``robot``.

    Args:
        robot: The robot.
        inputs: The policy's inputs.
        rate_hz: Its control rate.
        trained, noise, conditions: As in :class:`Envelope`.
        rays_used: Indices of the rays of its scan that the policy looks at; none: all.
        for_family: The policy is for a family of robots, so that its outputs mean no robot's own numbers.
    """
    trained = dict(trained or {})
    names = [port.name for port in inputs]
    known = {n: float(v) for n, v in (noise or {}).items() if n in names}
    return Envelope(
        version=ENVELOPE_VERSION,
        trained={name: (float(low), float(high)) for name, (low, high) in trained.items()},
        noise=known,
        max_age_s={
            port.name: _greatest_age_s(port, robot, rate_hz, trained)
            for port in inputs
            if port.topic and port.topic not in LATCHED
        },
        extrapolated=tuple(n for n, by in EXTRAPOLATED.items() if n in names and by in names),
        scans={port.name: _scan_use(port, rays_used) for port in inputs if port.scan is not None},
        conditions={name: float(number) for name, number in (conditions or {}).items()},
        robot={} if for_family else finite_numbers(_numbers(robot)),
        robot_sha256="" if for_family else robot.sha256,
    )


def _numbers(robot: RobotSpec) -> dict[str, Any]:
    numbers = robot.output_numbers()
    if not robot.end_effector:
        return numbers
    chain = chain_of(robot)
    rest = np.array([[robot.drives[index].rest for index in chain.index]])
    tool = tool_motion(chain.screws, rest).position[0]
    # where the tool is with its joints at rest tells two tool points apart, whatever their links are called
    return {**numbers, "tool_at_rest_m": [round(float(x), 6) for x in tool]}


def _greatest_age_s(port: Port, robot: RobotSpec, rate_hz: float, trained: Mapping[str, Range]) -> float:
    if port.picture is not None:
        return port.picture.max_age_s
    source = robot.lidars.get(SCAN if port.topic == PEOPLE else port.topic)
    every_s = 0.0 if source is None else 1.0 / source.rate_hz + source.latency_s
    # a late command is as a late observation to the loop
    late = [trained[name][1] for name in (*delay_names(port.topic), "command_delay_s") if name in trained]
    return round(PERIODS * max(every_s, 1.0 / rate_hz) + max(late, default=0.0), 6)


def _scan_use(port: Port, rays_used: Sequence[int]) -> ScanUse:
    scan = port.scan
    assert scan is not None
    return ScanUse(
        rays_used=tuple(map(int, rays_used)) or tuple(range(scan.rays)),
        no_return_m=scan.range_max_m,
        too_near_m=scan.range_min_m,
        missing_m=scan.range_min_m,
        neighbour_rad=NEIGHBOUR_RAD,
    )


def changed_numbers(envelope: Envelope, robot: RobotSpec) -> list[str]:
    """Return a sentence for each number of a robot that differs from those that a policy was trained with.

    Nothing differs for a policy without an envelope, or for a family.
    """
    if not envelope.robot or envelope.robot_sha256 == robot.sha256:
        return []
    trained, here = (dict(_flat(numbers)) for numbers in (envelope.robot, finite_numbers(_numbers(robot))))
    return [
        f"{name} is {here.get(name, 'missing')} here and {trained.get(name, 'missing')} in training"
        for name in dict.fromkeys((*trained, *here))
        if trained.get(name) != here.get(name)
    ]


def _flat(numbers: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(numbers, Mapping):
        for key, item in numbers.items():
            yield from _flat(item, f"{at}.{key}" if at else str(key))
    elif isinstance(numbers, (list, tuple)):
        for index, item in enumerate(numbers):
            name = item.get("name", index) if isinstance(item, Mapping) else index
            yield from _flat(item, f"{at}[{name}]")
    else:
        yield at, float(numbers) if isinstance(numbers, int) and not isinstance(numbers, bool) else numbers
