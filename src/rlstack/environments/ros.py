"""Gymnasium environment over ROS 2 topics, for a simulated or real robot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from rlstack.environments.core import GOAL
from rlstack.environments.quadrotors import QuadrotorCore
from rlstack.environments.settings import configured
from rlstack.environments.single import TaskEnvironment
from rlstack.environments.topic_vehicle import TopicVehicle
from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.tasks.quadrotor.task import QuadrotorTask

_NO_NOISE = {
    "position_m": 0.0,
    "orientation_rad": 0.0,
    "linear_velocity_m_s": 0.0,
    "angular_velocity_rad_s": 0.0,
}


class RosEnvironment(TaskEnvironment):
    """One robot over the common topics; spaces, rewards and endings are those of the task's other environments.

    Each step publishes a command with the stamp of the observation that it answers, and waits for the next one. With a
    robot node in lock step exactly one control period passes in between, so episodes are reproducible.
    An episode begins where the robot is after its ``reset`` service, with the path, if any, that the task draws; no
    noise is added to the topics' values.

    Args:
        task: The task's name.
        robot: A quadrotor's name or file.
        namespace: Namespace of the robot's topics.
        through: ``"robot"``: commands go to the robot itself; ``"guard"``: to the guard, as a policy's do, which
            first takes off.
        goal_m: Position of the task's origin, its goal or the start of its path, in ``odom``.
        lock_step: Whether the robot node waits for commands.
        timeout_s: Seconds to wait for an observation or a service.
        on_reset: Called for a robot without a reset service: returns when the robot is ready for the next episode.
            None: such a robot is an error.
        observation: ``"policy"`` or ``"signals"``; see :func:`rlstack.environments.settings.make_core`.
        settings: The task's settings; ``rate_hz`` defaults to the robot's control rate.

    Raises:
        UserError: Something is unknown or not allowed, ROS is not installed, or nothing arrives within ``timeout_s``.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

    def __init__(
        self,
        task: str,
        robot: str | Quadrotor = "crazyflie",
        namespace: str = "",
        *,
        through: Literal["robot", "guard"] = "robot",
        goal_m: Sequence[float] = (0.0, 0.0, 1.0),
        lock_step: bool = False,
        timeout_s: float = 10.0,
        on_reset: Callable[[], None] | None = None,
        observation: str | Mapping[str, Any] = "policy",
        **settings: Any,
    ) -> None:
        spec = load_quadrotor(robot) if isinstance(robot, str) else robot
        settings = {"rate_hz": spec.control_rate_hz, "noise": _NO_NOISE, **settings}
        made, spec, shown = configured(task, spec, observation, settings)
        if not isinstance(made, QuadrotorTask) or shown == GOAL:
            raise UserError(f"Only quadrotor tasks have environments over topics: {task}, '{shown}' does not.")
        if lock_step and made.rate_hz != spec.control_rate_hz:
            raise UserError(
                f"rate_hz: {made.rate_hz:g} is not allowed in lock step: must be the control rate of"
                f" {spec.name}, {spec.control_rate_hz:g} Hz."
            )
        self.render_mode = None
        vehicle = TopicVehicle(
            spec,
            namespace,
            rate_hz=made.rate_hz,
            through=through,
            origin=np.array(goal_m, dtype=float),
            lock_step=lock_step,
            timeout_s=timeout_s,
            on_reset=on_reset,
        )
        self._use(QuadrotorCore(made, spec, shown, vehicle, 1), [])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the robot and start the next episode; ``seed`` seeds the task's paths."""
        if (options or {}).get("state") is not None:
            raise UserError("options: state: not supported over topics, where the robot's reset decides the start.")
        return super().reset(seed=seed)
