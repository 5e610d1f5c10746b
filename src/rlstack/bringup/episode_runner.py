"""The episode runner over ROS: runs any robot's trials through the nodes of its deployment."""

from __future__ import annotations

import os
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.bringup.goal_publisher import GoalPublisher, Goals
from rlstack.bringup.kind_deployment import deployment_of
from rlstack.bringup.node_process import Parameter, System
from rlstack.bringup.supervisor import Supervisor
from rlstack.bringup.system import deploy_system
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.backend import Reading, Signals
from rlstack.nodes.shutdown import shut_down
from rlstack.verification.jointed_trials import JointedLog, JointedSimulator
from rlstack.verification.parallel import OnProgress
from rlstack.verification.report import OVER_TOPICS
from rlstack.verification.trial_records import TrialRecord

START_S = 60.0
"""Time limit from the nodes' start to the first command that passes the guard: a node needs 2 s of CPU time to start,
which takes long on a busy machine. A node that ends is noticed at once."""

STUCK_S = 20.0
"""Time limit for a command during a trial."""

_LOOK_S = 0.05


FAR = 1e3
"""m, m/s or rad/s: guard limits for trials that exceed those of the robot file."""


@dataclass(frozen=True)
class StillGoals:
    """One goal for each trial; see :class:`rlstack.bringup.goal_publisher.Goals`."""

    goal_position: Array
    goal_yaw: Array
    path: None = None
    instruction: NDArray[np.uint8] | tuple[()] = ()
    """(N, 128) sentences that the policy gets instead of the goals; empty: it gets the goals."""


class EpisodeRecorder(ABC):
    """Records each control period and starts one episode after the other.

    Args:
        simulator: The simulator of the episodes.
    """

    warm_up_steps = 5
    """Control periods under command before the first episode, for discovery to settle."""
    guard_parameters: ClassVar[Mapping[str, Parameter]] = {}
    """Guard parameters that differ from the deployment's."""
    goals: Goals | None = None
    """Goals published to the nodes; None: the task has no goal."""
    on_progress: OnProgress | None = None
    """Called after every episode with the number done and the total."""

    def __init__(self, simulator: Any) -> None:
        self.simulator, self._count = simulator, len(simulator)
        self.rate_hz = float(simulator.robot.control_rate_hz)
        self.interventions = np.zeros(self._count, dtype=np.int64)
        """(N,) number of guard interventions."""
        self._latency: list[float] = []
        self.steps = 0
        """Total number of commands so far, as a sign of progress."""
        self.episode, self.period, self._warm, self._intervened = -1, 0, 0, 0
        self._node: Any = None
        self._sender: GoalPublisher | None = None

    @abstractmethod
    def record(self) -> bool:
        """Record the state after :attr:`period` periods of the :attr:`episode`; return whether the episode is over."""

    @abstractmethod
    def result(self) -> TrialRecord:
        """Return the record of all episodes; the fields that every record has are filled in later."""

    def commanded(self, sent: Signals) -> None:  # noqa: B027
        """Record the command since the last :meth:`record`; :attr:`period` still has its number."""

    def warm_up(self) -> None:  # noqa: B027
        """Move the robot to where it waits for the first episode."""

    @property
    def latency_s(self) -> Array:
        """(K,) latency of commands, from sending an observation to its command's arrival."""
        latency = np.array(self._latency)
        return latency[np.isfinite(latency)]

    @property
    def done(self) -> bool:
        """Whether every episode is over."""
        return self.episode >= self._count

    @property
    def running(self) -> bool:
        """Whether the first episode has begun."""
        return self.episode >= 0

    def begin(self, node: Any) -> None:
        """Run the robot for the warm-up periods before the first episode."""
        self._node = node
        self.warm_up()
        kind = topics.type_of(topics.GUARD_INTERVENTIONS)
        node.create_subscription(kind, topics.GUARD_INTERVENTIONS, self._on_interventions, topics.quality("latched"))
        if self.goals is not None:
            self._sender = GoalPublisher(node, self.goals)

    def on_step(self, reading: Reading, sent: Signals) -> None:
        """Process one control period."""
        self.steps += 1
        if self.done:
            return
        if not self.running:
            self._warm = self._warm + 1 if sent else 0
            if self._warm >= self.warm_up_steps:
                self._next()
            return
        self.commanded(sent)
        self._latency.append(self._node.last_latency_s)
        self.period += 1
        if self.record():
            self._next()

    def _next(self) -> None:
        self.episode, self.period = self.episode + 1, 0
        if self.on_progress is not None and self.episode > 0:
            self.on_progress(self.episode, self._count)
        if self.done:
            return
        number, sender = self.episode, self._sender
        if sender is not None:
            sender.send_goal(number)
        self.simulator.enter(number)
        self._node.publish_now(None if sender is None else lambda stamp_ns: sender.send_path(number, stamp_ns))
        self.record()

    def _on_interventions(self, message: Any) -> None:
        more, self._intervened = message.data - self._intervened, message.data
        if self.running and not self.done:
            self.interventions[self.episode] += max(more, 0)


class JointedRecorder(EpisodeRecorder):
    """Records episodes of a :class:`rlstack.verification.jointed_trials.JointedSimulator` in a log.

    Args:
        simulator: The simulator of the episodes.
        log: Their log.
        goals: One goal for each episode; None: the task has no goal.
    """

    def __init__(self, simulator: JointedSimulator, log: JointedLog, goals: Goals | None = None) -> None:
        super().__init__(simulator)
        self._log, self.goals = log, goals

    def record(self) -> bool:
        """Record the state at the end of each policy step; return whether the episode is over."""
        k, between = divmod(self.period, self.simulator.every)
        if between:
            return False
        return bool(self._log.observe([self.episode], k, np.array([self.simulator.lost]), *self.simulator.measured)[0])

    def result(self) -> TrialRecord:
        """Return the record of all episodes."""
        record: TrialRecord = self._log.record("")
        return record


def run_episodes(
    make_recorder: Callable[..., EpisodeRecorder],
    policy: str | Path,
    trials: Any,
    robot: Any,
    backend_name: str = "mujoco",
    *,
    robot_name: str = "",
    driver: str = "",
    name: str = "",
    seed: int | None = 0,
    first: int = 0,
    on_progress: OnProgress | None = None,
    **options: Any,
) -> Any:
    """Run trials one after the other through the nodes of the deployment, and return their record.

    The robot node runs in this process, the others in processes of their own, with the guard's rules except for the
    recorder's ``guard_parameters``. Time jumps between episodes, and the nodes reset as after any reset. In lock step,
    time waits for every command, so the speed of this machine does not matter.

    Args:
        make_recorder: Makes the recorder for ``backend_name``, ``robot``, ``trials``, ``seed``, ``first`` and the
            ``options``; its simulator is not yet connected.
        policy: The policy file; empty if a planner drives alone.
        trials: N trials.
        robot: The robot.
        backend_name: A simulator.
        robot_name: The name or file that the nodes load; empty for the robot's name.
        driver: The planner of the commanding node, such as ``dwa``, or ``astar_policy`` that leads the policy; empty:
            the policy node commands.
        name: Name of the policy or planner, for reports.
        seed: Seed of the sensors' noise, combined with the trial's number; None: no noise, where a task supports that.
        first: The number of the first trial.
        on_progress: Called after every trial with the number done and the total.
        options: Further arguments of ``make_recorder``.

    Raises:
        UserError: The backend does not support the trials, a node ended, or a command did not arrive.
    """
    from rlstack.nodes.runtime import prepare_environment, require_ros

    recorder = make_recorder(backend_name, robot, trials, seed=seed, first=first, **options)
    recorder.on_progress = on_progress
    require_ros()
    prepare_environment()
    namespace = f"/verify_{os.getpid()}"  # separate from other systems in this domain
    system = deploy_system(
        policy,
        robot_name or robot.name,
        backend_name,
        driver=driver,
        namespace=namespace,
        lock_step=True,
        auto_arm=True,
        own_simulator=True,
    )
    fence = deployment_of(robot).fence(((-FAR,) * 3, (FAR,) * 3))
    guard = {**fence, **recorder.guard_parameters}  # trials run outside the robot file's geofence
    wall_s = _conduct(_without_robot(system, guard), recorder.simulator, recorder, namespace)
    record = recorder.result()
    return replace(
        record,
        simulator=f"{backend_name} {OVER_TOPICS}",
        driver=name,
        wall_s=wall_s,
        interventions=recorder.interventions,
        latency_s=recorder.latency_s,
    )


def _without_robot(system: System, guard: Mapping[str, Parameter]) -> System:
    """Return a deployment without its robot node and its goal, and with the guard's limits opened."""
    patient: dict[str, Parameter] = {
        "allow_wider": True,
        "arm_after_reset": True,
        "policy_timeout_s": 60.0,  # real time: a busy machine must not trigger the guard
    }
    by_topic = ("goal_position", "goal_yaw")
    processes = []
    for process in (process for process in system.processes if process.name != "robot"):
        parameters = {name: value for name, value in process.parameters.items() if name not in by_topic}
        if "topic_timeout_s" in parameters:
            parameters["topic_timeout_s"] = START_S
        if process.name == "guard":
            parameters |= {**patient, **guard}
        elif "goal_yaw" in process.parameters:
            box = {name: corner for name, corner in guard.items() if name.startswith("geofence_")}
            parameters |= {**box, "floor_m": -FAR}
        processes.append(replace(process, parameters=parameters, when_it_ends="stop the rest"))
    return replace(system, name="verify", processes=tuple(processes))


@dataclass
class _Watch:
    """The executor's continue condition; raises when a node ended or a command is overdue."""

    recorder: EpisodeRecorder
    supervisor: Supervisor
    lines: deque[str]
    interrupted: list[int]

    def __post_init__(self) -> None:
        self._looked = self._moved = time.monotonic()
        self._steps = 0

    def __call__(self) -> bool:
        """Return whether to continue."""
        if self.interrupted:
            raise KeyboardInterrupt
        if self.recorder.done:
            return False
        now = time.monotonic()
        if now - self._looked < _LOOK_S:
            return True
        self._looked = now
        self.supervisor.poll()
        alive = self.supervisor.alive()
        for process in self.supervisor.system.processes:
            if process.name not in alive:
                raise UserError(f"The {process.name} node ended during the trials{self._said()}")
        running, steps = self.recorder.running, self.recorder.steps
        if steps != self._steps and running:
            self._moved = now
        self._steps = steps
        allowed = STUCK_S if running else START_S
        if now - self._moved > allowed:
            what = "command arrived" if running else "command of the policy passed the guard"
            raise UserError(f"No {what} within {allowed:g} s over topics{self._said()}")
        return True

    def _said(self) -> str:
        last = " | ".join(line for line in self.lines if line.strip())
        return f"; its last log lines: {last}" if last else "."


@contextmanager
def _asked_to_end() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM in a list: an exception inside ROS's own code would leave it inconsistent.

    An event does not work: a signal handler that interrupts another one would deadlock on the event's lock.
    """
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = {n: signal.signal(n, lambda number, frame: asked.append(number)) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _host(
    on_step: Callable[[Reading, Signals], None], backend: Any, namespace: str, stack: ExitStack
) -> tuple[Any, Any]:
    """Make the robot node and its executor in a ROS context of their own."""
    import rclpy
    from rclpy.context import Context
    from rclpy.signals import SignalHandlerOptions

    from rlstack.nodes.executor import ControlExecutor
    from rlstack.nodes.robot import RobotNode

    context = Context()
    rclpy.init(context=context, signal_handler_options=SignalHandlerOptions.NO)
    stack.callback(context.try_shutdown)
    node = RobotNode(
        backend,
        on_step,
        overrides={"lock_step": True, "lock_step_timeout_s": 600.0},
        namespace=namespace,
        context=context,
        cli_args=["--ros-args", "-r", "/clock:=clock"],  # a private clock
    )
    stack.callback(shut_down, node)
    stack.callback(node.stop)
    executor = ControlExecutor(context=context)
    stack.callback(executor.shutdown)
    executor.add_node(node)
    return node, executor


def _conduct(system: System, backend: Any, recorder: EpisodeRecorder, namespace: str) -> float:
    """Run a system around a robot node in this process until all episodes are recorded; return the wall time, s.

    Args:
        system: The other nodes.
        backend: The robot's backend, not yet connected.
        recorder: Recorder of the episodes.
        namespace: Namespace of all nodes.

    Raises:
        UserError: A node ended, or a command did not arrive.
    """
    lines: deque[str] = deque(maxlen=5)
    started = time.monotonic()
    with ExitStack() as stack:
        interrupted = stack.enter_context(_asked_to_end())
        backend.connect()
        stack.callback(backend.close)
        node, executor = _host(recorder.on_step, backend, namespace, stack)
        supervisor = Supervisor(system, log=lines.append)
        stack.callback(supervisor.close)
        supervisor.start()
        watch = _Watch(recorder, supervisor, lines, interrupted)
        recorder.begin(node)
        node.start()
        executor.spin_while(watch)
    return time.monotonic() - started
