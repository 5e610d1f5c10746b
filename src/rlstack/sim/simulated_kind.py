"""What each kind of robot senses and takes in a simulation: one module each, found by the robot's kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rlstack.arrays import Array
from rlstack.interfaces.backend import Signals
from rlstack.robots import frames

if TYPE_CHECKING:
    from rlstack.sim.simulation import Simulation


class Kind(Protocol):
    """One robot of a simulation, as its kind is sensed and commanded; made with simulation and index."""

    sensed: tuple[str, ...]
    commanded: tuple[str, ...]

    def __init__(self, simulation: Simulation, index: int) -> None: ...

    def read(self) -> dict[str, Array]:
        """Return the true value of each of ``sensed``."""

    def write(self, command: Signals) -> Signals:
        """Command the robot; return what was really sent.

        Raises:
            ValueError: The command is not exactly one finite array of its shape; nothing was sent.
        """

    def stop(self) -> None:
        """Stop all actuators now."""

    def restart(self) -> None:
        """Begin anew: the robot was put elsewhere."""


MOVING = (
    "position",
    "orientation",
    "linear_velocity",
    "angular_velocity",
    "linear_acceleration",
    "imu_angular_velocity",
)
"""What every robot that moves about senses, by odometry and IMU."""


def moving(simulation: Simulation, index: int) -> dict[str, Array]:
    """Return the true value of each of :data:`MOVING`; the accelerometer is at the centre of mass."""
    motion = simulation.motion(index)
    return {
        "position": motion["position"],
        "orientation": motion["orientation"],
        "linear_velocity": frames.rotate_inverse(motion["orientation"], motion["linear_velocity"]),
        "angular_velocity": motion["angular_velocity"],
        "linear_acceleration": simulation.felt(index),
        "imu_angular_velocity": motion["angular_velocity"].copy(),
    }
