"""quadrotor_rates: reach a commanded pose and stay there, by body rates and collective thrust.

The task of quadrotor_hover for robots whose autopilot controls the rates: the same starts, episodes and criteria. What
such a robot departs in is not its rotors but the lag of its rate loop, what the loop makes of torques, and the thrust
that a command really gives.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots.spec import STANDARD_GRAVITY
from rlstack.schema import value
from rlstack.tasks.catalog.quadrotor_hover import HoverTask
from rlstack.tasks.quadrotor.sampling import Randomisation, Starts
from rlstack.tasks.quadrotor.scenario import Scenario
from rlstack.tasks.quadrotor.task import DISTURBANCES, draw_disturbances

if TYPE_CHECKING:
    from rlstack.tasks.core.pipeline import Pipeline, Term
    from rlstack.tasks.core.task_card import Row

ACTIONS = ("roll rate", "pitch rate", "yaw rate", "thrust")
UNITS = ("rad/s", "rad/s", "rad/s", "m/s^2")


@dataclass(frozen=True, kw_only=True)
class Observation:
    """Settings of the observation."""

    max_position_error_m: float = value(1.0, unit="m", above=0.0)
    """Bound on the observed distance to the goal; farther goals keep their direction."""
    action_history: int = value(6, at_least=1, at_most=64)
    """Number of observed past actions."""
    disturbance_bandwidth_hz: float = value(0.4, unit="Hz", above=0.0)
    """Bandwidth of the observer of the constant force, which thrust that is not as commanded belongs to."""
    integral_per_s: float = value(1.0, unit="1/s", at_least=0.0)
    """Share of the position error, near the goal, that is added to the observed one each second."""
    position_error_change_m_s: float = value(0.0, unit="m/s", at_least=0.0)
    """Greatest change of the bounded position error with its integral; 0 for no limit."""
    heading_integral_per_s: float = value(1.0, unit="1/s", at_least=0.0)
    """The same share of the heading error."""


@dataclass(frozen=True, kw_only=True)
class RatesTask(HoverTask):
    """Reach a commanded pose and stay there, commanding body rates and collective thrust."""

    observation: Observation = field(default_factory=Observation)  # type: ignore[assignment]

    outputs = ("rates_thrust",)

    def held_out(self, rng: np.random.Generator, count: int, robot: Quadrotor, disturbances: bool = True) -> Scenario:
        """Draw evaluation episodes of the published task, whatever the training settings."""
        state = Starts().sample(rng, count, robot)
        perturbation, labels = draw_disturbances(rng, count, robot, disturbances, HELD_OUT)
        return Scenario(state, np.zeros((count, 3)), np.zeros(count), perturbation, labels)

    def actions(self, robot: Quadrotor, pipeline: Pipeline) -> tuple[Row, ...]:
        """Return name, commands at -1 and +1, and unit of each action."""
        limits = zip(ACTIONS, pipeline.minimum.tolist(), pipeline.maximum.tolist(), UNITS)
        return tuple((name, f"{low:g}", f"{high:g}", unit) for name, low, high, unit in limits)

    def pipeline(self, robot: Quadrotor) -> Pipeline:
        """Return the observation pipeline for ``robot``.

        An action of 0 hovers: it commands no rates, and the weight as thrust.

        Raises:
            UserError: The robot takes rotor speeds.
        """
        from rlstack.tasks.core.observations import ActionHistory, UpDirection
        from rlstack.tasks.core.pipeline import Pipeline
        from rlstack.tasks.quadrotor import observations

        if (loop := robot.rate_loop) is None:
            raise UserError(
                f"The task quadrotor_rates commands rates and thrust, and {robot.name} takes rotor speeds: choose a"
                " robot whose file has a rate_loop, such as racer_rates, or the task quadrotor_hover."
            )
        settings, rate = self.observation, self.rate_hz
        most = min(2.0 * STANDARD_GRAVITY, robot.thrust_max_m_s2)
        terms: list[Term] = [
            observations.IntegratedPositionError(
                settings.max_position_error_m, settings.integral_per_s, rate, settings.position_error_change_m_s
            ),
            UpDirection(),
            observations.IntegratedHeading(settings.heading_integral_per_s, rate),
            *observations.velocities(),
            ActionHistory(len(ACTIONS), settings.action_history),
            observations.ThrustDisturbanceEstimate(robot, rate, settings.disturbance_bandwidth_hz, most),
        ]
        return Pipeline(
            terms, "rates_thrust", [*(-w for w in loop.rates_max_rad_s), 0.0], [*loop.rates_max_rad_s, most]
        )


HELD_OUT = {
    **{name: DISTURBANCES[name] for name in ("task", "wind gusts", "mass +-10%")},
    "thrust +-10%, rate lag x0.7 to 1.5": Randomisation(thrust_gain=(0.9, 1.1), rate_lag=(0.7, 1.5)),
    "torques cancelled by half": Randomisation(rate_rejection=(0.5, 0.5)),
}
"""Disturbances of held-out episodes, by their label in the report."""

TASK = RatesTask
