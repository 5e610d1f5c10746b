"""Adaptation of quadrotors in flight: a load, by what thrust over mass and the rotors' balance tell of it."""

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
from rlstack.kinds.quadrotor.spec import Quadrotor

_LEAST = math.log(1.03)
"""Least change of the mass that is adapted to, as a logarithm: below it a hover is off by less than its usual noise."""

_LEAST_SHIFT = 0.05
"""The same for the centre of mass, as a share of the arm."""


class QuadrotorAdaptation(KindAdaptation):
    """See :class:`rlstack.identification.kind_adaptation.KindAdaptation`.

    A flight tells thrust over mass. Less of it is read as a load: mass that is added without inertia. A battery that
    sags looks the same while it hovers.
    """

    free = ("thrust", "centre_x", "centre_y")

    def check(self, robot: Any) -> None:
        """Refuse a robot that takes rates and thrust."""
        IDENTIFICATION.check(robot)

    def unchanged(self) -> Told:
        """Return no load."""
        return Told((0.0, 0.0, 0.0), "it is as its file says")

    def told(self, robot: Quadrotor, estimates: Mapping[str, Estimate]) -> Told:
        """Return the load, and the robot file with it."""
        thrust = estimates["thrust"]
        if thrust.verdict != "told":
            raise UserError(f"Thrust over mass is not told: {thrust.why}.")
        factor = thrust.parameter.value / thrust.value
        arm = float(np.abs(robot.rotor_positions[:, :2]).max())
        shift = [estimates[name].value if estimates[name].verdict == "told" else 0.0 for name in self.free[1:]]
        steps = (math.log(factor) / _LEAST, *(one / (_LEAST_SHIFT * arm) for one in shift))
        if max(map(abs, steps)) < 1.0:
            return replace(self.unchanged(), steps=steps)
        percent, off_mm = 100.0 * (factor - 1.0), 1e3 * math.hypot(*shift)
        says = "the mass of its file" if abs(steps[0]) < 1.0 else f"a payload of about {percent:.0f}% of the mass"
        if steps[0] <= -1.0:
            says = f"it is about {-percent:.0f}% lighter than its file says"
        shifted = max(map(abs, steps[1:])) >= 1.0
        if shifted:
            says += f", with the centre of mass {off_mm:.1f} mm off"
        return Told(steps, says, tuple(_edits(robot, estimates, factor, self.free[1:] if shifted else ())))


def _edits(robot: Quadrotor, estimates: Mapping[str, Estimate], factor: float, told: tuple[str, ...]) -> list[Edit]:
    """Return the changes of the robot file: its mass, and those that the estimates in ``told`` make."""
    kept = {name: replace(one, verdict="kept") for name, one in estimates.items() if name not in told}
    mass = robot.body.mass_kg * factor
    loaded = {**estimates, **kept, "mass": replace(estimates["mass"], value=mass, verdict="told")}
    return IDENTIFICATION.edits(robot, loaded, lambda name: "as a few seconds of flight told it")


ADAPTATION = QuadrotorAdaptation()
