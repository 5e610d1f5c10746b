"""The reference quadrotor under an autopilot of its own: a plain proportional rate loop and a plain mixer, in numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.kinds.quadrotor.spec_allocation import inverse_allocation
from tests.support.reference import Array, ReferenceQuadrotor


class RatesQuadrotor(ReferenceQuadrotor):
    """A quadrotor that takes rates and thrust; it shares no code with the simulators' rate loop.

    Its loop runs every 2 ms, adds the nominal torque of a rate error over the file's time constant to the lift, and
    sends the speeds of these thrusts to the motors, with a lead for their lag.

    Args:
        robot: What flies.
        believed: The robot, with a rate loop, that the loop is made for; None: the same.
        step_s: As for the reference quadrotor.
        floor_m: Likewise.
    """

    def __init__(
        self,
        robot: Quadrotor,
        step_s: float = 1e-3,
        floor_m: float | None = None,
        believed: Quadrotor | None = None,
    ) -> None:
        super().__init__(robot, step_s, floor_m=floor_m)
        self._believed = believed = believed or robot
        loop = believed.rate_loop
        assert loop is not None
        self._inverse = inverse_allocation(believed)
        self._lags = np.array([loop.time_constant_s, loop.time_constant_s, loop.yaw_time_constant_s])

    def step(
        self,
        rotor_speed_command: Sequence[float] | Array,
        duration_s: float,
        force: Sequence[float] = (0.0, 0.0, 0.0),
        torque: Sequence[float] = (0.0, 0.0, 0.0),
    ) -> dict[str, Array]:
        """Hold rates and thrust (4,) for ``duration_s`` and return the state; 0 thrust and rates idle."""
        wanted, model = np.asarray(rotor_speed_command, dtype=float), self._believed.rotor_model
        count = round(duration_s / 0.002)
        for _ in range(count):
            body, errors = self._believed.body, wanted[:3] - self.state["angular_velocity"]
            turn = np.array(body.inertia_kg_m2) * errors / self._lags
            thrusts = self._inverse @ np.array([body.mass_kg * wanted[3], *turn])
            speeds = model.speed_for_thrust(np.maximum(thrusts, 0.0))
            gap = speeds - self.state["rotor_speed"]
            horizon = self._lags[0] / 4.0
            reach = -np.expm1(-horizon / np.where(gap > 0.0, model.rise_time_constant_s, model.fall_time_constant_s))
            super().step(self.state["rotor_speed"] + gap / reach, duration_s / count, force, torque)
        return self.state
