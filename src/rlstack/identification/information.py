"""What a motion would tell of a robot's parameters, before anybody flies it: the information in a rehearsal of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError, unknown_name
from rlstack.identification.fit import covariance
from rlstack.identification.identify import half_widths, starting_point
from rlstack.identification.motion_model import KindIdentification, Parameter
from rlstack.identification.recorded import Recorded
from rlstack.identification.shooting import Shooting, kept_windows, windows_of
from rlstack.kinds import find_kind
from rlstack.robots import RobotSpec


@dataclass(frozen=True)
class Information:
    """What a motion tells.

    Args:
        parameters: Those that were asked for.
        half_widths: (P,) expected half widths of their 90% intervals, of the logarithm or in the unit.
        score: The larger, the more they are told together: minus the logarithm of the determinant of their covariance,
            each in units of what is needed (D-optimality, Fedorov, "Theory of Optimal Experiments", 1972).
    """

    parameters: tuple[Parameter, ...]
    half_widths: Array
    score: float

    @property
    def untold(self) -> list[str]:
        """Names of the parameters that it would not tell."""
        return [one.name for one, half in zip(self.parameters, self.half_widths) if half > one.needed]


def information(
    robot: RobotSpec, rehearsal: Recorded, known: Mapping[str, float], wanted: Sequence[str] = ()
) -> Information:
    """Return what a recording like ``rehearsal`` would tell.

    Args:
        robot: The robot file, whose model made the rehearsal, with the noise of its sensors.
        rehearsal: The motion.
        known: What is measured otherwise, by name.
        wanted: Parameters that count; empty: all that a recording can tell.

    Raises:
        UserError: A parameter does not exist or no recording tells it, or the motion is too short.
    """
    kind: KindIdentification = find_kind(robot.kind).load("identification")
    model = kind.model(robot, [rehearsal])
    values, _, _ = starting_point(model, {})  # of the robot that was rehearsed
    _, _, free = starting_point(model, known)
    names = [model.parameters[k].name for k in free]
    for name in wanted:
        if name not in names:
            other = next((one for one in model.parameters if one.name == name), None)
            if other is not None:
                why = other.given if other.observed is None else "it is read off the commands"
                raise UserError(f"--tell {name} is not allowed, no motion tells it: {why or '--known gives it'}.")
            raise unknown_name("parameter for --tell", name, names)
    windows = windows_of([rehearsal], model.topic, kind.segments_s[-1], held_out=False)
    pieces = kept_windows(model, windows)
    if not len(pieces):
        raise UserError("The motion has no segment in which the robot moves freely under commands: make it longer.")
    problem = Shooting(model, pieces, values, free)
    at = problem.linearise(problem.start, model.states(pieces))
    at = replace(at, residual=0.0 * at.residual)  # as after the fit: what is left is the sensors' noise alone
    spread = covariance(problem, at, problem.noise, np.ones(len(pieces), dtype=bool))
    spread = spread * len(pieces) / max(len(pieces) - len(free), 1)  # the scatter of few segments is known roughly
    chosen = [names.index(name) for name in wanted] or list(range(len(free)))
    needed = np.array([model.parameters[free[k]].needed for k in chosen])
    block = spread[np.ix_(chosen, chosen)] / np.outer(needed, needed)
    halves = half_widths(model, free, np.sqrt(np.diag(spread)))
    told = tuple(model.parameters[free[k]] for k in chosen)
    return Information(told, halves[chosen], -float(np.linalg.slogdet(block)[1]))
