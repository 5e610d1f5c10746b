"""Adaptation of quadrotors in flight: a load or a weak motor, by what a hover tells of thrust and its balance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rlstack.errors import UserError
from rlstack.identification.kind_adaptation import KindAdaptation, Told
from rlstack.identification.motion_model import Edit, Estimate
from rlstack.kinds.quadrotor.identification import IDENTIFICATION
from rlstack.kinds.quadrotor.identification_balance import LEAST_BALANCE, odd_rotor, uneven
from rlstack.kinds.quadrotor.spec import Quadrotor

_LEAST = math.log(1.03)
"""Least change of the mass that is adapted to, as a logarithm: below it a hover is off by less than its usual noise."""

_LEAST_SHIFT = 0.05
"""The same for the centre of mass, as a share of the arm."""


class QuadrotorAdaptation(KindAdaptation):
    """See :class:`rlstack.identification.kind_adaptation.KindAdaptation`.

    A flight tells thrust over mass. Less of it is read as a load: mass that is added without inertia. A battery that
    sags looks the same while it hovers. One motor that is weaker than the others turns the body about all axes at once,
    which no load does.
    """

    free = ("thrust", "centre_x", "centre_y", "balance")

    def check(self, robot: Any) -> None:
        """Refuse a robot that takes rates and thrust: its autopilot hides the motors."""
        IDENTIFICATION.check(robot)

    def unchanged(self) -> Told:
        """Return no load, and equal motors."""
        return Told((0.0, 0.0, 0.0, 0.0), "it is as its file says")

    def told(self, robot: Quadrotor, estimates: Mapping[str, Estimate]) -> Told:
        """Return the load or the weak motor, and the robot file with it."""
        thrust = estimates["thrust"]
        if thrust.verdict != "told":
            raise UserError(f"Thrust over mass is not told: {thrust.why}.")
        arm = float(np.abs(robot.rotor_positions[:, :2]).max())
        shift = [estimates[name].value if estimates[name].verdict == "told" else 0.0 for name in self.free[1:3]]
        balance = estimates["balance"].value if uneven(estimates) else 0.0
        level = thrust.value / thrust.parameter.value
        steps = (-math.log(level) / _LEAST, *(one / (_LEAST_SHIFT * arm) for one in shift), balance / LEAST_BALANCE)
        if max(map(abs, steps)) < 1.0:
            return replace(self.unchanged(), steps=steps)
        if odd := odd_rotor(robot, estimates):
            says = f"motor {robot.rotor_names[odd.number]} gives {100.0 * odd.factor:.0f}% of the others' thrust"
            if abs(math.log(odd.others)) >= _LEAST:
                says += f", and {_mass(odd.others)}"
            return Told(steps, says, tuple(_edits(robot, estimates, odd.others, self.free[1:])))
        says = "the mass of its file" if abs(steps[0]) < 1.0 else _mass(level)
        shifted, moved = max(map(abs, steps[1:3])) >= 1.0, tuple[str, ...]()
        if shifted:
            moved = self.free[1:3]
            says += f", with the centre of mass {1e3 * math.hypot(*shift):.1f} mm off"
        if balance:
            moved = self.free[1:]
            side = "left" if balance > 0.0 else "right"
            says += f", and the motors that turn it to the {side} {200.0 * abs(balance):.0f}% stronger than the others"
        return Told(steps, says, tuple(_edits(robot, estimates, level, moved)))


def _mass(level: float) -> str:
    """Return what less or more thrust over mass is read as."""
    percent = 100.0 * (1.0 / level - 1.0)
    if percent < 0.0:
        return f"it is about {-percent:.0f}% lighter than its file says"
    return f"a payload of about {percent:.0f}% of the mass"


def _edits(robot: Quadrotor, estimates: Mapping[str, Estimate], level: float, told: tuple[str, ...]) -> list[Edit]:
    """Return the changes of the robot file: its mass for that thrust, and those that the estimates in ``told`` make."""
    kept = {name: replace(one, verdict="kept") for name, one in estimates.items() if name not in told}
    mass = robot.body.mass_kg / level
    loaded = {**estimates, **kept, "mass": replace(estimates["mass"], value=mass, verdict="told")}
    return IDENTIFICATION.edits(robot, loaded, lambda name: "as a few seconds of flight told it")


ADAPTATION = QuadrotorAdaptation()
