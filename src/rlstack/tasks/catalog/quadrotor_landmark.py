"""quadrotor_landmark: fly to the door, pillar or box that a sentence names, and wait there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots import RobotSpec, frames
from rlstack.schema import value
from rlstack.tasks.core.phrases import Templates
from rlstack.tasks.landmarks.expert import approach
from rlstack.tasks.landmarks.sensing import CAMERA
from rlstack.tasks.landmarks.task import LandmarkTask
from rlstack.tasks.landmarks.trials import Room
from rlstack.tasks.quadrotor.sampling import Randomisation

if TYPE_CHECKING:
    from rlstack.tasks.core.pipeline import Pipeline, Term
    from rlstack.tasks.core.task_card import Row
    from rlstack.tasks.landmarks.scene import Vehicles


FLY = Templates(
    train=(
        "fly to {thing} and wait",
        "fly to {thing}",
        "go to {thing} and wait",
        "hover at {thing}",
        "{thing} is where you should wait",
    ),
    held_out=(
        "please fly to {thing} and wait there",
        "{thing} , fly there",
        "wait at {thing}",
        "i want you to hover at {thing}",
        "head over to {thing} and wait now",
    ),
    words={},
)


def hall() -> Room:
    """Return the room of a quadrotor of half a metre."""
    return Room(
        depth_m=7.0,
        behind_m=2.5,
        half_width_m=7.0,
        height_m=4.0,
        distance_m=(3.8, 5.5),
        apart_m=2.4,
        door_width_m=1.3,
        door_height_m=2.0,
        pillar_width_m=0.7,
        pillar_height_m=2.0,
        box_m=1.0,
    )


@dataclass(frozen=True, kw_only=True)
class QuadrotorLandmarkTask(LandmarkTask):
    """Fly to the named landmark and wait there."""

    rate_hz: float = value(20.0, unit="Hz", above=0.0)
    episode_s: float = value(11.0, unit="s", above=0.0)
    arrival_m: float = value(1.7, unit="m", above=0.0)
    still_m_s: float = value(0.25, unit="m/s", above=0.0)
    start_m: float = value(0.3, unit="m", at_least=0.0)
    room: Room = field(default_factory=hall)
    height_m: float = value(1.0, unit="m", above=0.0)
    """Height at which it flies."""
    speed_m_s: float = value(1.2, unit="m/s", above=0.0)
    """Largest speed ahead and to the sides."""
    turning_rad_s: float = value(1.0, unit="rad/s", above=0.0)
    """Largest turning rate."""
    tilt_rad: float = value(0.3, unit="rad", above=0.0, at_most=1.0)
    """Largest tilt."""
    randomisation: Randomisation = field(
        default_factory=lambda: Randomisation(
            force_sigma=0.02, mass=(0.95, 1.05), thrust_gain=(0.95, 1.05), delay_s=(0.0, 0.02)
        )
    )

    kind = "quadrotor"
    inputs = (
        "position",
        "orientation",
        "linear_velocity",
        "angular_velocity",
        "instruction",
        f"{CAMERA}_image",
        f"{CAMERA}_image_age",
    )
    outputs = ("rates_thrust",)
    templates = FLY

    @property
    def start_height_m(self) -> tuple[float, float]:
        """Heights at the start."""
        return self.height_m - 0.2, self.height_m + 0.2

    @property
    def flight_m(self) -> tuple[float, float]:
        """Lowest and highest position of the robot."""
        return 0.3, self.room.height_m - 0.3

    def reference(self, robot: RobotSpec) -> Quadrotor:
        """Return the robot to train on.

        Raises:
            UserError: It is no quadrotor, takes rotor speeds or lacks the camera, or its rate is no multiple of the
                task's.
        """
        reference: Quadrotor = super().reference(robot)
        if reference.rate_loop is None:
            raise UserError(
                f"The task commands body rates and thrust, and {reference.name} takes rotor speeds: choose a robot"
                " whose file has a rate_loop, such as x500_rates."
            )
        self.check_rate(f"{reference.name} is controlled", reference.control_rate_hz)
        return reference

    def vehicles(self, robot: Quadrotor, count: int) -> Vehicles:
        """Return N quadrotors."""
        from rlstack.tasks.quadrotor.landmarks import QuadrotorVehicles

        return QuadrotorVehicles(robot, count, self.rate_hz, self.randomisation)

    def of_mass(self, share: float) -> QuadrotorLandmarkTask:
        """Return the task with robots of this share of their file's mass."""
        return replace(self, randomisation=replace(self.randomisation, mass=(share, share)))

    def radius_m(self, robot: Quadrotor) -> float:
        """Return the radius of the robot seen from above."""
        return robot.body.collision_radius_m

    def start_state(self, robot: Quadrotor, start: Array) -> dict[str, Array]:
        """Return the state in which an engine's robot begins: in hover."""
        rotors = np.full(len(robot.rotors), robot.hover_speed_rad_s)
        return {"position": start[:3], "orientation": frames.from_yaw(start[3]), "rotor_speed": rotors}

    def state_terms(self) -> list[Term]:
        """Return the terms of the robot's own state."""
        from rlstack.tasks.core.observations import Signal, UpDirection
        from rlstack.tasks.quadrotor.landmarks import HeightError

        return [
            Signal("linear_velocity", 3, "m/s", "in base_link"),
            UpDirection(),
            Signal("angular_velocity", 3, "rad/s", "in base_link"),
            HeightError(self.height_m),
        ]

    def make_pipeline(self, robot: Quadrotor, terms: list[Term]) -> Pipeline:
        """Return the pipeline of these terms; actions are velocities."""
        from rlstack.tasks.quadrotor.landmarks import VelocityPipeline

        return VelocityPipeline(
            terms,
            robot,
            self.rate_hz,
            speed_m_s=self.speed_m_s,
            turning_rad_s=self.turning_rad_s,
            height_m=self.height_m,
            tilt_rad=self.tilt_rad,
        )

    def actions(self, robot: Quadrotor, pipeline: Pipeline) -> tuple[Row, ...]:
        """Return name, commands at -1 and +1, and unit of each action."""
        most = {"ahead": self.speed_m_s, "left": self.speed_m_s, "turning": self.turning_rad_s}
        return tuple((n, f"{-v:g}", f"{v:g}", "rad/s" if n == "turning" else "m/s") for n, v in most.items())

    def trained_ranges(self, robot: Quadrotor) -> dict[str, tuple[float, float]]:
        """Return lowest and highest value of each quantity that training varies."""
        return {**self.randomisation.ranges(), "speed_m_s": (0.0, self.speed_m_s)}

    def envelope(self) -> dict[str, float]:
        """Return the conditions that the policy was trained for, with SI units in the keys."""
        return {**super().envelope(), "height_m": self.height_m}

    def expert_action(self, offset: Array, gap: Array, signals: Mapping[str, Array]) -> Array:
        """Return the scripted expert's actions (N, 3): it flies straight to the landmark and turns to it."""
        ahead, bearing = approach(offset, gap, self.arrival_m)
        return np.stack([ahead * np.cos(bearing), ahead * np.sin(bearing), np.clip(1.3 * bearing, -1.0, 1.0)], axis=1)


TASK = QuadrotorLandmarkTask
