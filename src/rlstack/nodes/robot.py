"""The robot node: publishes a simulated or real backend on the common topics; one robot, or several in one world."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.backend import Backend, Monitored, Reading, Signals
from rlstack.nodes import dry_run, robot_backends
from rlstack.nodes.command_messages import without_stamps
from rlstack.nodes.external_pose import ExternalPoses
from rlstack.nodes.frames import PREFIX
from rlstack.nodes.kind_topics import all_kind_topics, kind_topics
from rlstack.nodes.parameters import Parameter
from rlstack.nodes.real_time import REAL_TIME_PRIORITY
from rlstack.nodes.robot_backends import make_backends
from rlstack.nodes.robot_topics import RobotTopics
from rlstack.nodes.runtime import ManagedNode
from rlstack.nodes.sensor_sampling import SensorSampler
from rlstack.nodes.simulated_tracking import SIMULATED_TRACKING, SimulatedTracking
from rlstack.nodes.simulator_controls import SimulatorControls
from rlstack.nodes.timekeeping import RESET_JUMP_NS, LockStep, RealTime, Timekeeper
from rlstack.nodes.transforms import Visualization

__all__ = ["PARAMETERS", "RESET_JUMP_NS", "RobotNode", "main"]

_MOVED_S = 0.1
"""Period at which movable obstacles are published."""
_COMMANDED_S = 0.5
"""A guard that has sent nothing for this long no longer brings its robot to rest."""

PARAMETERS = (
    *robot_backends.PARAMETERS,
    PREFIX,
    Parameter(
        "map_to_odom",
        False,
        "Publish map to odom as the same, as where a simulator's odometry is exact and nothing localizes.",
    ),
    Parameter(
        "dry_run",
        False,
        "Do everything but move the actuators: commands are checked and shown on /diagnostics, and not sent.",
    ),
    Parameter("lock_step", False, "Simulated time waits for the commands that answer each observation."),
    Parameter("real_time_factor", 1.0, "Simulated seconds per second.", minimum=0.01, maximum=100.0, live=True),
    Parameter(
        "command_timeout_periods",
        5.0,
        "Control periods without a command after which a robot is disarmed.",
        minimum=1.0,
        maximum=100.0,
        live=True,
    ),
    Parameter(
        "lock_step_timeout_s",
        3.0,
        "In lock step, seconds of real time without a command after which a robot is disarmed.",
        minimum=0.1,
        maximum=600.0,
        live=True,
    ),
    Parameter(
        "rest_within_s",
        0.0,
        "How long after SIGINT or SIGTERM, in real time, a moving robot's commands are still obeyed, so that its guard"
        " can bring it to rest; 0: it is disarmed at once.",
        minimum=0.0,
        maximum=3600.0,
    ),
    Parameter(
        "command_source",
        "",
        "Node whose commands are obeyed, relative to the robot's namespace, such as guard; empty: any node's.",
    ),
    SIMULATED_TRACKING,
    REAL_TIME_PRIORITY,
    *dict.fromkeys(parameter for topics in all_kind_topics().values() for parameter in topics.PARAMETERS),
)

StepHook = Callable[[Reading, Signals], None]


class RobotNode(ManagedNode):
    """One robot on the common topics, or several of one simulation, each in its own namespace.

    In real time a timer advances the simulation and the newest command acts. In lock step exactly one control period
    passes for each command with the stamp of the last observation; every sensor is then sampled once per period.

    Args:
        backend: A constructed backend to host, connected or not; None: one from the parameters.
        on_step: For one robot, called in lock step after every period with the new reading and the command that was
            actually sent (empty if it was "off"). It may reset the backend and call :meth:`publish_now`.
        overrides: Parameter values.
        options: For ``rclpy.node.Node``.
    """

    NAME: ClassVar[str] = "robot"
    PARAMETERS: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    def __init__(
        self,
        backend: Backend | None = None,
        on_step: StepHook | None = None,
        overrides: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(overrides, **options)
        self._hosted = backend
        self.on_step = on_step
        self.robots: list[RobotTopics] = []

    @property
    def last_latency_s(self) -> float:
        """Latency from publishing the first robot's last answered observation to its command's arrival, s."""
        return self.robots[0].last_latency_s

    # Lifecycle -----------------------------------------------------------------------------------------------

    def configure(self) -> None:
        """Create the backends and the topics."""
        backends = {"": self._hosted} if self._hosted is not None else make_backends(self.parameters)
        first = next(iter(backends.values()))
        lock_step = self.parameters["lock_step"]
        if lock_step and not first.owns_time:
            raise UserError(f"lock_step: a {type(first).__name__} does not own time, so it cannot run in lock step.")
        without_stamps(kind_topics(first.robot).COMMAND_TYPE, self.parameters, lock_step=lock_step)
        self._time: Timekeeper = (
            LockStep(self, self._on_sent, self._on_period) if lock_step else RealTime(self, self._on_sent)
        )
        for name, backend in backends.items():
            self.robots.append(RobotTopics(self, backend, name, self._time.counts, self._time.on_command))
            self._serve_reset(self.robots[-1])
        self._visualization, self._sampler = Visualization(self, self.robots), SensorSampler(self, self.robots)
        self._poses, self._tracking = ExternalPoses(self, self.robots), SimulatedTracking(self, self.robots)
        self._time.begin(self.robots)
        self._controls = SimulatorControls(self, self._time, self.robots)

    def activate(self) -> None:
        """Connect, and start sensing and stepping."""
        for robot in self.robots:
            robot.backend.connect()
        if self._hosted is None and self.robots[0].backend.owns_time:
            for robot in self.robots:
                robot.backend.reset(self._start_state(robot))
        self._controls.start()
        self._time.start()
        self.every(_MOVED_S, self._visualization.publish_moved)

    def begin_end(self, signal_name: str) -> None:
        """Go on until the guard has brought the robots to rest."""
        self._end_by = time.monotonic() + self.parameters["rest_within_s"]
        if self._time.paused:
            self._time.pause(False)

    def may_end(self) -> bool:
        """Return whether no robot moves and nothing commands it any more, or the time is up."""
        now = time.monotonic()
        idle = not any(robot.flying or now - robot.fed_s < _COMMANDED_S for robot in self.robots)
        return idle or now > self._end_by or not self.active

    def deactivate(self) -> None:
        """Disarm, or leave a robot in the air to its own failsafe."""
        for robot in self.robots:
            robot.end()

    def cleanup(self) -> None:
        """Release the backends that the node created."""
        if self.robots:  # it may have been refused before it had any
            self._time.close()
        for robot in self.robots:
            if self._hosted is None:
                robot.backend.close()
        self.robots = []

    def status(self) -> tuple[str, dict[str, Any]]:
        """Report the state of commands."""
        silent = [
            f"{robot.let_go_of}: commands have ended{f' ({robot.name})' * bool(robot.name)}"
            for robot in self.robots
            if robot.let_go_of
        ]
        figures = {f"{r.prefix}{key}": value for r in self.robots for key, value in r.status().items()}
        warnings = [dry_run.WARNING] if self.parameters["dry_run"] else []
        warnings += silent
        warnings += [robot.backend.health()[0] for robot in self.robots if isinstance(robot.backend, Monitored)]
        others = [robot.source.warning for robot in self.robots]
        warnings += filter(None, [self._poses.missing, self._sampler.failures, *others])
        return " ".join(warnings), figures

    # For Python ----------------------------------------------------------------------------------------------

    def publish_now(self, announce: Callable[[int], None] | None = None) -> None:
        """Publish a single robot's state after a reset, with stamps that have jumped by :data:`RESET_JUMP_NS`.

        Commands that answer an earlier observation are ignored.

        Args:
            announce: Called first with the state's stamp, ns.
        """
        self._time.jump(announce)

    # -----------------------------------------------------------------------------------------------------------

    def _on_period(self, reading: Reading, sent: Signals) -> bool:
        if self.on_step is None:
            return True
        self.on_step(reading, sent)
        return self.active

    def _on_sent(self, robots: Sequence[RobotTopics]) -> None:
        """Publish messages that may follow odometry, which commands wait for."""
        self._visualization.sent(robots)
        self._sampler.sent(robots)
        self._tracking.sent(robots)

    def _serve_reset(self, robot: RobotTopics) -> None:
        from std_srvs.srv import Trigger

        def on_reset(request: Any, response: Any) -> Any:
            if not self.active:
                response.message = "The robot node is not active."
            elif not robot.backend.owns_time:
                response.message = "A real robot cannot be reset: carry it back."
            else:
                self._time.reset(robot, self._start_state(robot))
                response.success, response.message = True, "The robot is back at its start."
            return response

        self.server(Trigger, robot.prefix + topics.RESET, on_reset)

    def _start_state(self, robot: RobotTopics) -> Signals | None:
        return robot.kind.start_state(robot.backend, self.parameters["start_height_m"])


main = RobotNode.main

if __name__ == "__main__":
    raise SystemExit(main())
