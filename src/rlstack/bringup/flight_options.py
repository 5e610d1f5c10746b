"""Options of commands that fly or drive a robot by themselves and record it: which robot, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import tyro

from rlstack.bringup.robot_group import TOPICS, absolute_file, is_simulator
from rlstack.errors import UserError
from rlstack.robots import RobotSpec, load_robot


@dataclass(frozen=True, kw_only=True)
class FlightOptions:
    """What is flown."""

    flown: Annotated[str, tyro.conf.arg(metavar="FILE")] = ""
    """The robot file that the simulator flies, which stands for the real robot; default: --robot."""
    backend: str = "mujoco"
    """What is flown: a simulator, the driver of a real robot, or topics, as for `rlstack up deploy`."""
    uri: str = ""
    """Where the driver of a real robot finds it."""
    remap: tuple[str, ...] = ()
    """Topic remappings, each ours:=theirs."""
    tether: float = 1.0
    """Limit the guard's speeds, accelerations and geofence to this share of the robot's."""
    lock_step: bool = False
    """Let the simulator's time wait for every command."""
    real_time_factor: float = 1.0
    """Simulated seconds per second (simulators only)."""

    def flight(self, robot: RobotSpec) -> dict[str, Any]:
        """Return these as arguments of :func:`rlstack.bringup.loop.flight.fly`.

        Raises:
            UserError: The robot file that is flown is refused, or there is no simulator to fly it.
        """
        if self.flown:
            load_robot(self.flown)
            if not is_simulator(self.backend):
                raise UserError("--flown is for simulators: a real robot is what it is.")
        return {
            "backend": self.backend,
            "flown": absolute_file(self.flown) if self.flown else "",
            "namespace": robot.name if self.backend != TOPICS else "",
            "uri": self.uri,
            "remap": self.remap,
            "tether": self.tether,
            "lock_step": self.lock_step,
            "real_time_factor": self.real_time_factor,
        }
