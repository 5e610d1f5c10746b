"""Random start states and perturbations, in numpy, shared by training and all simulators."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.schema import in_order, value
from rlstack.sim.perturbation import Perturbation

Range = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Starts:
    """Distribution of start states, relative to the goal.

    The defaults are those of Learning to Fly in Seconds (arXiv 2311.13081, published source).
    """

    position_m: float = value(0.2, unit="m", at_least=0.0)
    """Uniform within plus and minus this on each axis."""
    tilt_rad: float = value(float(np.pi / 2), unit="rad", at_least=0.0, at_most=float(np.pi))
    """Rotation from the upright attitude at the goal's heading: angle uniform below this, about any axis."""
    linear_velocity_m_s: float = value(1.0, unit="m/s", at_least=0.0)
    angular_velocity_rad_s: float = value(1.0, unit="rad/s", at_least=0.0)
    rotor_speed_fraction: float = value(0.5, at_least=0.0, at_most=1.0)
    """All rotors start at this fraction of their top speed."""
    settled_share: float = value(0.1, at_least=0.0, at_most=1.0)
    """Share of episodes that start at the goal, upright and at rest."""
    settled_hovering: bool = False
    """Whether rotors of these turn at hover speed, as when a policy takes over from another in flight."""
    goal_step_share: float = value(0.0, at_least=0.0, at_most=1.0)
    """Share of episodes that start far from the goal, as after a step of the goal in flight."""
    goal_step_m: float = value(4.0, unit="m", above=0.0)
    """Their greatest distance on each axis; it is uniform in a random direction."""

    def sample(self, rng: np.random.Generator, count: int, robot: Quadrotor, scale: float = 1.0) -> dict[str, Array]:
        """Draw ``count`` states around the origin; a ``scale`` below 1 makes them easier.

        Returns:
            Arrays by name as in :class:`rlstack.tasks.quadrotor.scenario.Scenario`.
        """
        settled = rng.random(count) < self.settled_share
        axis = rng.normal(size=(count, 3))
        axis /= np.linalg.norm(axis, axis=1, keepdims=True)
        angle = rng.uniform(0.0, self.tilt_rad * scale, count) * ~settled
        state = {
            "position": rng.uniform(-1.0, 1.0, (count, 3)) * self.position_m * scale,
            "orientation": np.concatenate([axis * np.sin(angle / 2)[:, None], np.cos(angle / 2)[:, None]], axis=1),
            "linear_velocity": rng.uniform(-1.0, 1.0, (count, 3)) * self.linear_velocity_m_s * scale,
            "angular_velocity": rng.uniform(-1.0, 1.0, (count, 3)) * self.angular_velocity_rad_s * scale,
            "rotor_speed": np.full(
                (count, len(robot.rotors)), self.rotor_speed_fraction * robot.rotor_model.speed_max_rad_s
            ),
        }
        for name in ("position", "linear_velocity", "angular_velocity"):
            state[name][settled] = 0.0
        if self.settled_hovering:
            state["rotor_speed"][settled] = robot.hover_speed_rad_s
        if self.goal_step_share:
            self._step_goals(rng, state, ~settled & (rng.random(count) < self.goal_step_share), robot)
        return state

    def _step_goals(
        self, rng: np.random.Generator, state: dict[str, Array], stepped: NDArray[np.bool_], robot: Quadrotor
    ) -> None:
        """Change the states where ``stepped`` to flight far from the goal: twice the velocity, half tilt and rates."""
        count = int(stepped.sum())
        axis = rng.normal(size=(count, 3))
        axis /= np.abs(axis).max(axis=1, keepdims=True)
        state["position"][stepped] = axis * rng.uniform(0.0, self.goal_step_m, (count, 1))
        turned = state["orientation"][stepped]
        turned[:, 3] += 1.0  # half of the rotation
        state["orientation"][stepped] = turned / np.linalg.norm(turned, axis=1, keepdims=True)
        state["linear_velocity"][stepped] *= 2.0
        state["angular_velocity"][stepped] *= 0.5
        state["rotor_speed"][stepped] = robot.hover_speed_rad_s

    def envelope(self) -> dict[str, float]:
        """Return the bounds of starts for a policy file, with SI units in the keys."""
        names = ("tilt_rad", "linear_velocity_m_s", "angular_velocity_rad_s")
        return {"position_error_m": self.position_m, **{name: getattr(self, name) for name in names}}


@dataclass(frozen=True, kw_only=True)
class Randomisation:
    """Parameter randomisation and disturbances; ranges are uniform, sigmas are normal.

    The defaults have the disturbances of Learning to Fly in Seconds and change no parameter.
    """

    force_sigma: float = value(1 / 20, at_least=0.0)
    """Constant force per axis, in weights."""
    torque_sigma_m: float = value(1 / 10_000, unit="m", at_least=0.0)
    """Constant torque per axis, in weights times metres."""
    mass: Range = value((1.0, 1.0), above=0.0)
    inertia: Range = value((1.0, 1.0), above=0.0)
    arm: Range = value((1.0, 1.0), above=0.0)
    """One number for x and y."""
    thrust: Range = value((1.0, 1.0), above=0.0)
    """Each rotor's thrust on its own."""
    torque: Range = value((1.0, 1.0), above=0.0)
    time_constant: Range = value((1.0, 1.0), above=0.0)
    """One number for rise and fall."""
    drag: Range = value((1.0, 1.0), at_least=0.0)
    thrust_gain: Range = value((1.0, 1.0), above=0.0)
    """All rotors' thrust together: a battery that sags, an autopilot's thrust curve."""
    rate_lag: Range = value((1.0, 1.0), above=0.0)
    """Lag of a rate loop."""
    rate_rejection: Range = value((1.0, 1.0), at_least=0.0, at_most=1.0)
    """Share of disturbing torques that a rate loop cancels."""
    delay_s: Range = value((0.0, 0.0), unit="s", at_least=0.0, at_most=0.05)
    departing_share: float = value(1.0, at_least=0.0, at_most=1.0)
    """Share of the episodes in which each quantity departs from its nominal value, drawn for each on its own: with
    less than 1, few robots depart in everything at once."""
    half_rate_share: float = value(0.0, at_least=0.0, at_most=1.0)
    """Share of the episodes in which the policy is called in every second control period and its command holds."""
    gust_sigma: float = value(0.0, at_least=0.0)
    """Gust force per axis, in weights, while a gust blows."""
    gust_start_s: Range = value((0.0, 4.0), unit="s", at_least=0.0)
    gust_duration_s: Range = value((0.2, 1.0), unit="s", at_least=0.0)

    def __post_init__(self) -> None:
        in_order(self)

    def ranges(self) -> dict[str, Range]:
        """Return the ranges that differ from the nominal value, for a policy file's envelope."""
        named = {
            "mass_scale": self.mass,
            "inertia_scale": self.inertia,
            "arm_scale": self.arm,
            "thrust_scale": self.thrust,
            "torque_scale": self.torque,
            "motor_lag_scale": self.time_constant,
            "drag_scale": self.drag,
            "thrust_gain_scale": self.thrust_gain,
            "rate_lag_scale": self.rate_lag,
            "rate_rejection_scale": self.rate_rejection,
        }
        varied = {name: ends for name, ends in named.items() if ends != (1.0, 1.0)}
        late = {} if self.delay_s == (0.0, 0.0) else {"command_delay_s": self.delay_s}
        return {**varied, **late, "force_scale": (0.0, self.force_sigma)}

    def sample(self, rng: np.random.Generator, count: int, robot: Quadrotor) -> Perturbation:
        """Draw ``count`` perturbations of ``robot``."""
        weight, rotors = robot.weight_n, len(robot.rotors)

        def uniform(limits: Range, *shape: int, nominal: float | None = 1.0) -> Array:
            drawn = rng.uniform(limits[0], limits[1], (count, *shape))
            if self.departing_share == 1.0 or nominal is None or limits == (nominal, nominal):
                return drawn
            departs = rng.random((count, *[1] * len(shape))) < self.departing_share
            return np.where(departs, drawn, nominal)

        def drawn_if_varied(limits: Range) -> Array:
            """Draw nothing where nothing varies, so that other draws stay the same."""
            return np.ones(count) if limits == (1.0, 1.0) else uniform(limits)

        made = Perturbation(
            mass_scale=uniform(self.mass),
            inertia_scale=uniform(self.inertia, 3),
            arm_scale=np.repeat(uniform(self.arm, 1), 2, axis=1),
            thrust_scale=uniform(self.thrust, rotors),
            torque_scale=uniform(self.torque),
            time_constant_scale=np.repeat(uniform(self.time_constant, 1), 2, axis=1),
            drag_scale=uniform(self.drag),
            force_n=rng.normal(0.0, self.force_sigma * weight, (count, 3)),
            torque_n_m=rng.normal(0.0, self.torque_sigma_m * weight, (count, 3)),
            gust_force_n=rng.normal(0.0, self.gust_sigma * weight, (count, 3)),
            gust_start_s=uniform(self.gust_start_s, nominal=None),
            gust_duration_s=uniform(self.gust_duration_s, nominal=None),
            rate_lag_scale=np.ones(count),
            rate_rejection_scale=np.ones(count),
            delay_s=uniform(self.delay_s, nominal=None),
        )
        return replace(
            made,
            thrust_scale=made.thrust_scale * drawn_if_varied(self.thrust_gain)[:, None],
            rate_lag_scale=drawn_if_varied(self.rate_lag),
            rate_rejection_scale=drawn_if_varied(self.rate_rejection),
        )
