"""One recorded flight or drive of a proven policy: goals that step, and the distance from those that are held."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.bringup.deploy import FIRST_ODOMETRY_S, checked_deployment
from rlstack.bringup.goal_steps import GoalStep, judged_windows
from rlstack.bringup.kind_deployment import deployment_of
from rlstack.bringup.node_process import System
from rlstack.bringup.robot_group import absolute_file, is_simulator
from rlstack.bringup.status_monitor import Liveness, Monitor
from rlstack.bringup.supervisor import Supervisor
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.nodes.goal_watch import OFF
from rlstack.nodes.kind_topics import kind_topics
from rlstack.robots import load_robot

POLICY_MODE = "policy"
"""The guard's mode in which the policy commands."""

_LINE_S = 5.0


@dataclass(frozen=True)
class Flown:
    """What a flight was.

    Args:
        seconds: How long the policy commanded, s of the robot's time.
        accuracy_m: Mean distance from the goals that count, each once it should be reached, m; None: there was none.
        took_over_s: How long the guard commanded instead, s.
    """

    seconds: float
    accuracy_m: float | None
    took_over_s: float


def fly(
    policy: Path | str,
    robot: str,
    bag: Path,
    *,
    backend: str = "mujoco",
    flown: str = "",
    namespace: str = "",
    seconds: float = 60.0,
    seed: int = 0,
    steps: Sequence[GoalStep] | None = None,
    **options: Any,
) -> Flown:
    """Fly a policy that is proven, or drive it, to goals that step, and record it.

    The recording appears complete or not at all.

    Args:
        policy: The policy file, with its verification record beside it.
        robot: The robot file that it is proven for, a name or path.
        bag: The recording's folder, which must not exist yet.
        backend: What is flown: a simulator, or the driver of a real robot, or ``topics``.
        flown: Another robot file, which the simulator flies; empty: ``robot``.
        namespace: Of the robot's topics; empty: its name.
        seconds: How long the policy commands, s.
        seed: Of the goals and of the simulated sensors' noise.
        steps: The goals; None: those of the robot's kind.
        options: More arguments of :func:`rlstack.bringup.deploy.checked_deployment`.

    Raises:
        UserError: The policy is not proven, the robot does not come up, or it ended before the time was over.
        KeyboardInterrupt: Ctrl-C, after the robot is at rest.
    """
    partial = bag.with_name(f"{bag.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    simulated = is_simulator(backend)
    if simulated:
        options["noise_seed"] = seed
    system = checked_deployment(policy, robot, backend, namespace=namespace, record=partial, **options)
    if flown:
        system = with_other_robot(system, flown)
    from rlstack.nodes.runtime import prepare_environment

    prepare_environment()
    space = next(one.namespace for one in system.processes if one.node_name == "guard")
    deployment = deployment_of(load_robot(robot))
    steps = deployment.goal_steps(seconds, seed) if steps is None else steps
    monitor = Monitor([space], kind_topics(deployment.robot).observed)
    goals, watch = _Goals(space), _Watch(steps, seconds)
    supervisor, alive, told = Supervisor(system), Liveness(monitor, FIRST_ODOMETRY_S), -math.inf

    def tick() -> bool:
        nonlocal told
        monitor.spin(0.02)
        now = time.monotonic()
        alive.check(needs_time=monitor.armed)
        if not monitor.seen:
            return True
        if (step := watch.update(monitor.seconds, monitor.mode, monitor.distance_m)) is not None:
            goals.send(step)
        if now - told >= _LINE_S:
            told = now
            print(watch.line(monitor.mode, monitor.armed, simulated), flush=True)
        return not watch.over

    try:
        outcome = supervisor.run(tick, done_at_once=simulated)
    finally:
        monitor.close()
        goals.close()
    if outcome.status in (130, 143):
        shutil.rmtree(partial, ignore_errors=True)
        raise KeyboardInterrupt
    outcome.report()
    if outcome.status or not watch.complete:
        why = watch.why or outcome.sentence
        raise UserError(
            f"The run ended {watch.flown_s:.0f} s after the policy took over, and {seconds:g} s are needed ({why})."
            f" `rlstack explain {partial}` says more."
        )
    partial.rename(bag)
    return watch.result()


def with_other_robot(system: System, flown: str) -> System:
    """Return a system whose simulator has another robot file than the nodes that command it, as a real robot does.

    Raises:
        UserError: There is no simulator, or the robots have other commands or sensors.
    """
    node = next((one for one in system.processes if one.node_name == "robot"), None)
    if node is None or not is_simulator(str(node.parameters.get("backend", ""))):
        raise UserError("--flown is for simulators, and there is none: a real robot is what it is.")
    real, model = load_robot(flown), load_robot(str(node.parameters["robot"]))
    if real.kind != model.kind:
        raise UserError(f"--flown: {real.name} is a {real.kind}, and {model.name} a {model.kind}.")
    mine: dict[str, Any] = {"robot": absolute_file(flown), "robot_sha256": real.sha256}
    other = replace(node, parameters={**node.parameters, **mine})
    return replace(system, processes=tuple(other if one is node else one for one in system.processes))


class _Watch:
    """Follows a run by the robot's time: which goal is due, and how far the judged ones are."""

    def __init__(self, steps: Sequence[GoalStep], seconds: float) -> None:
        self._steps, self._seconds = list(steps), seconds
        self._windows = judged_windows(steps, seconds)
        self._begun_s: float | None = None
        self._sent = 0
        self._last_s, self._others_s = 0.0, 0.0
        self._distances: list[list[float]] = [[] for _ in self._windows]
        self.why = ""
        self.over = False

    @property
    def flown_s(self) -> float:
        """Time since the policy took over, s."""
        return 0.0 if self._begun_s is None else self._last_s - self._begun_s

    @property
    def complete(self) -> bool:
        """Whether the time is over."""
        return self.flown_s >= self._seconds

    def update(self, now_s: float, mode: str, distance_m: float) -> GoalStep | None:
        """Take what was seen last; return the goal that is due, if any."""
        if self._begun_s is None:
            if mode != POLICY_MODE:
                return None
            self._begun_s = self._last_s = now_s
        passed, self._last_s = now_s - self._last_s, now_s
        if mode != POLICY_MODE:
            self._others_s += passed
        at_s = self.flown_s
        for window, found in zip(self._windows, self._distances):
            if window[0] <= at_s < window[1] and math.isfinite(distance_m):
                found.append(distance_m)
        if mode in OFF:
            self.over, self.why = True, f"the guard is in the mode {mode}"
        self.over = self.over or self.complete
        due = [step for step in self._steps[self._sent :] if step.at_s <= at_s]
        self._sent += len(due)
        return due[-1] if due else None

    def line(self, mode: str, armed: bool, simulated: bool) -> str:
        """Return a line of status."""
        if self._begun_s is None:
            wait = "" if simulated or armed else ": arm the robot with `rlstack arm` when it may move"
            return f"  waiting for the policy to command ({mode or 'no guard yet'}){wait}"
        return f"  {self.flown_s:.0f} of {self._seconds:.0f} s  {mode}"

    def result(self) -> Flown:
        """Return what the run was."""
        seen = [float(np.mean(found)) for found in self._distances if found]
        return Flown(self.flown_s - self._others_s, float(np.mean(seen)) if seen else None, self._others_s)


class _Goals:
    """Publishes goals, in a ROS context of its own, whose signals the supervisor handles."""

    def __init__(self, space: str) -> None:
        import rclpy
        from rclpy.context import Context
        from rclpy.signals import SignalHandlerOptions

        self._context: Any = Context()
        rclpy.init(context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        self._node = rclpy.create_node("loop_goals", namespace=space, context=self._context)
        self._goal = self._node.create_publisher(topics.type_of(topics.GOAL), topics.GOAL, topics.quality("latched"))

    def send(self, step: GoalStep) -> None:
        message = topics.type_of(topics.GOAL)()
        message.header.frame_id = topics.WORLD_FRAME
        p, q = message.pose.position, message.pose.orientation
        p.x, p.y, p.z = step.position
        q.z, q.w = math.sin(0.5 * step.yaw), math.cos(0.5 * step.yaw)
        self._goal.publish(message)

    def close(self) -> None:
        from rlstack.nodes.shutdown import shut_down

        shut_down(self._node)
