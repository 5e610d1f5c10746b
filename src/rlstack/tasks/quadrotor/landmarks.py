"""Quadrotors among landmarks: their motion in the batch simulator, and velocity commands through body rates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rlstack.arrays import Array, Index
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots import frames
from rlstack.robots.spec import STANDARD_GRAVITY
from rlstack.sim.batch_quadrotor.layout import pack_parameters, pack_state
from rlstack.sim.batch_quadrotor.simulator import QuadrotorSimulator
from rlstack.tasks.core.pipeline import Pipeline, Tensors, Term, to_body, to_world
from rlstack.tasks.quadrotor.sampling import Randomisation

_SUBSTEP_S = 0.01
"""RK4 step of the batch simulator."""
_VELOCITY_PER_S, _INTEGRAL_PER_S2, _ATTITUDE_PER_S, _HEIGHT_PER_S = 2.0, 0.6, 5.0, 1.0
"""Gains of the loops from velocity to acceleration, from its integral, from tilt to body rates, from height to climb:
each a third or less of the next one's bandwidth, and the last below that of a rate loop of 50 ms with 50 ms between
commands."""
_CLIMB_M_S = 0.5
"""Largest commanded speed up or down."""
_INTEGRAL_M_S2 = 1.5
"""Largest acceleration by the integral: a constant force of 15% of the weight."""


class QuadrotorVehicles:
    """N quadrotors that take rates and thrust; see :class:`rlstack.tasks.landmarks.scene.Vehicles`.

    Args:
        robot: The quadrotor.
        count: N.
        rate_hz: Control rate.
        randomisation: Departures from its file and disturbances, drawn for each episode.
    """

    def __init__(self, robot: Quadrotor, count: int, rate_hz: float, randomisation: Randomisation) -> None:
        self._robot, self._randomisation = robot, randomisation
        substeps = max(1, round(1.0 / (rate_hz * _SUBSTEP_S)))
        longest = randomisation.delay_s[1]
        self._simulator = QuadrotorSimulator(robot, count, rate_hz=rate_hz, substeps=substeps, max_delay_s=longest)
        self._waiting = np.tile(robot.hover_command, (count, 1))

    def place(self, index: Index, start: Array, rng: np.random.Generator) -> None:
        """Place some robots (n) in hover at (n, 4) x, y, z, m, and yaw, rad."""
        count, robot, simulator = len(index), self._robot, self._simulator
        none = np.zeros((count, 3))
        state = {
            "position": start[:, :3],
            "orientation": frames.from_yaw(start[:, 3]),
            "linear_velocity": none,
            "angular_velocity": none,
            "rotor_speed": np.full((count, len(robot.rotors)), robot.hover_speed_rad_s),
        }
        simulator.state_rows[:, index] = pack_state(state).T
        simulator.parameters[:, index] = pack_parameters(robot, self._randomisation.sample(rng, count, robot)).T
        for command in simulator.commands:
            command[:, index] = robot.hover_command[:, None]

    def step(self, command: Array) -> None:
        """Advance one control period under ``command`` (N, 4), rad/s and m/s^2."""
        self._simulator.step(command)

    def signals(self) -> dict[str, Array]:
        """Return the signals of odometry (N, ...)."""
        now = self._simulator.state()
        now["linear_velocity"] = frames.rotate_inverse(now["orientation"], now["linear_velocity"])
        del now["rotor_speed"]
        return now

    def waiting(self) -> Array:
        """Return a command (N, 4) to hover, without feedback."""
        return self._waiting

    def state_dict(self) -> dict[str, Array]:
        """Return the mutable arrays."""
        return {name: np.array(array, dtype=float) for name, array in self._arrays.items()}

    def load_state_dict(self, state: dict[str, Array]) -> None:
        """Restore what :meth:`state_dict` returned."""
        for name, array in self._arrays.items():
            array[:] = state[name]

    @property
    def _arrays(self) -> dict[str, Array]:
        simulator = self._simulator
        commands = {f"command_{k}": array for k, array in enumerate(simulator.commands)}
        return {"state": simulator.state_rows, "parameters": simulator.parameters, **commands}


class VelocityPipeline(Pipeline):
    """A pipeline whose actions are velocities ahead and to the left and a turning rate, at a held height.

    Cascaded loops turn them into body rates and collective thrust: velocity error with its integral to acceleration,
    acceleration to tilt and thrust, tilt to rates.

    Args:
        terms: The observation's terms.
        robot: The quadrotor, with a rate loop.
        rate_hz: Control rate.
        speed_m_s: Velocity at action 1.
        turning_rad_s: Turning rate at action 1.
        height_m: The held height in ``odom``.
        tilt_rad: Largest tilt.
    """

    def __init__(
        self,
        terms: Sequence[Term],
        robot: Quadrotor,
        rate_hz: float,
        *,
        speed_m_s: float,
        turning_rad_s: float,
        height_m: float,
        tilt_rad: float,
    ) -> None:
        assert robot.rate_loop is not None
        most = robot.rate_loop.rates_max_rad_s
        super().__init__(terms, "rates_thrust", [*(-rate for rate in most), 0.0], [*most, robot.thrust_max_m_s2])
        self.period_s, self.speed_m_s, self.turning_rad_s = 1.0 / rate_hz, speed_m_s, turning_rad_s
        self.height_m, self.sideways_m_s2 = height_m, STANDARD_GRAVITY * float(np.tan(tilt_rad))

    @property
    def action_size(self) -> int:
        """Number of actions."""
        return 3

    @property
    def memory(self) -> dict[str, tuple[int, ...]]:
        """Shapes of all recurrent state by name."""
        return {"velocity_integral": (3,), **super().memory}

    def command(self, action: Tensor, inputs: Tensors) -> Tensor:
        """Return (batch, 4): body rates, rad/s, and thrust per mass, m/s^2, for a clipped action."""
        rotation = inputs["rotation"]
        wanted = _VELOCITY_PER_S * self._error(action, inputs) + inputs["velocity_integral"]
        level = wanted[:, :2]
        length = torch.sqrt((level * level).sum(dim=-1, keepdim=True) + 1e-6)
        level = level * (self.sideways_m_s2 / length).clamp(max=1.0)
        force = torch.cat([level, (wanted[:, 2:] + STANDARD_GRAVITY).clamp(0.5 * STANDARD_GRAVITY)], dim=-1)
        up = to_body(rotation, force / torch.sqrt((force * force).sum(dim=-1, keepdim=True)))
        thrust = (force * rotation[:, :, 2]).sum(dim=-1)
        rates = [-_ATTITUDE_PER_S * up[:, 1], _ATTITUDE_PER_S * up[:, 0], self.turning_rad_s * action[:, 2]]
        return torch.maximum(torch.minimum(torch.stack([*rates, thrust], dim=-1), self.maximum), self.minimum)

    def prepare(self, inputs: Tensors, memory: Tensors) -> dict[str, Tensor]:
        """Return the inputs with the integral of the velocity error."""
        return {**super().prepare(inputs, memory), "velocity_integral": memory["velocity_integral"]}

    def remember(self, inputs: Tensors, memory: Tensors, action: Tensor) -> dict[str, Tensor]:
        """Return all memory after a clipped ``action``."""
        step = _INTEGRAL_PER_S2 * self.period_s * self._error(action, inputs)
        integral = (memory["velocity_integral"] + step).clamp(-_INTEGRAL_M_S2, _INTEGRAL_M_S2)
        return {"velocity_integral": integral, **super().remember(inputs, memory, action)}

    def _error(self, action: Tensor, inputs: Tensors) -> Tensor:
        """Return the velocity error (batch, 3) m/s, world."""
        rotation = inputs["rotation"]
        ahead = rotation[:, :2, 0]
        ahead = ahead / torch.sqrt((ahead * ahead).sum(dim=-1, keepdim=True) + 1e-6)
        left = torch.stack([-ahead[:, 1], ahead[:, 0]], dim=-1)
        level = self.speed_m_s * (action[:, :1] * ahead + action[:, 1:2] * left)
        climb = (_HEIGHT_PER_S * (self.height_m - inputs["position"][:, 2:])).clamp(-_CLIMB_M_S, _CLIMB_M_S)
        moving = to_world(rotation, inputs["linear_velocity"])
        return torch.cat([level, climb], dim=-1) - moving


class HeightError(Term):
    """Height above the one to hold, which an image's horizon does not show.

    Args:
        height_m: The height to hold.
    """

    name, size, unit, meaning = "height_error", 1, "m", "position's z minus the height that is held"

    def __init__(self, height_m: float) -> None:
        super().__init__()
        self.height_m = height_m

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 1)."""
        return inputs["position"][:, 2:] - self.height_m
