"""Fly a scenario in a simulator over real topics, in lock step, through the nodes that are deployed."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.bringup.goal_publisher import GoalPublisher
from rlstack.bringup.lock_step import START_S, conduct
from rlstack.bringup.system import Parameter, System, deploy_system
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.backend import BACKENDS, Reading, Signals
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots import frames
from rlstack.sim.noise import SensorNoise
from rlstack.sim.perturbation import Perturbation
from rlstack.tasks.quadrotor.scenario import Scenario
from rlstack.verification.records import FlightRecord

OnProgress = Callable[[int, int], None]

FAR_M = 1e3
"""The guard's geofence and speed limits during verification, m and m/s: nothing within them is the guard's business."""

WARM_UP_STEPS = 20
"""Control periods under the policy's command before the first episode, in which discovery settles."""

_TAKEN_OVER = ("hover", "land")


def fly_over_topics(
    policy: str | Path,
    scenario: Scenario,
    robot: Quadrotor,
    backend_name: str = "mujoco",
    duration_s: float = 8.0,
    *,
    robot_name: str = "",
    seed: int | None = 0,
    first: int = 0,
    on_progress: OnProgress | None = None,
) -> FlightRecord:
    """Fly every episode of ``scenario``, one after the other, and record it.

    The robot node runs in this process; policy and guard are the separate processes of a deployment, with the guard's
    limits opened because the start states are beyond them. Between episodes time jumps, and policy and guard
    start afresh as they do after any reset. Time waits for every command, so the speed of this machine does not matter.

    Args:
        policy: The policy file.
        scenario: N episodes; with the floor well below them.
        robot: What flies.
        backend_name: A simulator that can be perturbed.
        duration_s: Length of every episode; the record has ``round(duration_s * rate) + 1`` samples.
        robot_name: The name or file that the nodes load; empty takes the robot's name.
        seed: Of the sensor noise, with the episode's number; None: no noise.
        first: The number of the first episode.
        on_progress: Called after every episode with the episodes done and their total.

    Returns:
        The flights without the sensors' noise. The command of the last sample is NaN: nothing was flown after it.

    Raises:
        UserError: The backend cannot do this, a node ended, or a command did not come.
    """
    from rlstack.nodes.runtime import prepare_environment, require_ros

    require_ros()
    prepare_environment()
    backend = _make_backend(backend_name, robot)
    namespace = f"/verify_{os.getpid()}"  # beside whatever else flies in this domain
    system = _system(policy, robot_name or robot.name, backend_name, namespace)
    sensed = _Sensed(backend, seed, first)
    recorder = _Recorder(scenario, sensed, duration_s, on_progress)
    wall_s = conduct(system, sensed, recorder, namespace)
    return recorder.episodes(f"{backend_name} (topics)", wall_s)


class _Recorder:
    """Is asked after every period: keeps the record and moves on from episode to episode."""

    def __init__(self, scenario: Scenario, backend: _Sensed, duration_s: float, on_progress: OnProgress | None) -> None:
        robot = backend.robot
        self.scenario, self.backend, self.robot = scenario, backend, robot
        self._on_progress = on_progress
        self.rate_hz = robot.control_rate_hz
        self.periods = round(duration_s * self.rate_hz)
        count, rotors = len(scenario), len(robot.rotors)
        shape = (self.periods + 1, count)
        self._signals: dict[str, Any] = {
            "position": np.full((*shape, 3), np.nan),
            "orientation": np.full((*shape, 4), np.nan),
            "linear_velocity": np.full((*shape, 3), np.nan),
            "angular_velocity": np.full((*shape, 3), np.nan),
        }
        self._command = np.full((*shape, rotors), np.nan)
        self._latency = np.full((self.periods, count), np.nan)
        self._interventions = np.zeros(count, dtype=np.int64)
        self.steps = 0
        """Commands answered so far, in all: shows that time goes on."""
        self.episode, self._period, self._warm = -1, 0, 0
        self._mode = ""
        self._node: Any = None

    @property
    def done(self) -> bool:
        """Whether every episode has been flown."""
        return self.episode >= len(self.scenario)

    @property
    def flying(self) -> bool:
        """Whether the first episode has begun."""
        return self.episode >= 0

    def begin(self, node: Any) -> None:
        """Put the robot into the warm-up: at the first goal, level, at hover speed, to stay there.

        Goals and paths come by topic alone, so a policy that flies hears this process.
        """
        self._node = node
        hover = np.full(len(self.robot.rotors), self.robot.hover_speed_rad_s)
        self.backend.reset({"position": self.scenario.goal_position[0], "rotor_speed": hover})
        kind = topics.type_of(topics.GUARD_MODE)
        node.create_subscription(kind, topics.GUARD_MODE, self._on_mode, topics.quality("latched"))
        self._goals = GoalPublisher(node, self.scenario)

    def on_step(self, reading: Reading, sent: Signals) -> None:
        """Take in one control period."""
        self.steps += 1
        if self.done:
            return
        if not self.flying:
            self._warm = self._warm + 1 if "rotor_speed" in sent else 0
            if self._warm >= WARM_UP_STEPS:
                self._next()
            return
        i, k = self.episode, self._period
        self._command[k, i] = sent.get("rotor_speed", np.zeros(len(self.robot.rotors)))
        self._latency[k, i] = self._node.last_latency_s
        self._period = k + 1
        self._keep()
        if self._period == self.periods:
            self._next()

    def _next(self) -> None:
        self.episode += 1
        self._period = 0
        if self._on_progress is not None and self.episode > 0:
            self._on_progress(self.episode, len(self.scenario))
        if self.done:
            return
        i = self.episode
        self._goals.send_goal(i)
        self.backend.perturb(i, self.scenario.perturbation.take(np.array([i])))
        self.backend.reset({name: array[i] for name, array in self.scenario.state.items()})
        self._node.publish_now(lambda stamp_ns: self._goals.send_path(i, stamp_ns))
        self._keep()

    def _keep(self) -> None:
        s, i, k = self.backend.true, self.episode, self._period
        for name in ("position", "orientation", "angular_velocity"):
            self._signals[name][k, i] = s[name]
        self._signals["linear_velocity"][k, i] = frames.rotate(s["orientation"], s["linear_velocity"])

    def _on_mode(self, message: Any) -> None:
        before, self._mode = self._mode, message.data
        # "disarmed" is the end of the episode before: the guard takes over by hovering or landing
        if self.flying and not self.done and self._mode in _TAKEN_OVER and before not in _TAKEN_OVER:
            self._interventions[self.episode] += 1

    def episodes(self, name: str, wall_s: float) -> FlightRecord:
        """Return what was flown."""
        latency = self._latency[np.isfinite(self._latency)]
        return FlightRecord(
            simulator=name,
            rate_hz=self.rate_hz,
            **self._signals,
            command=self._command,
            goal_position=self.scenario.goal_over(np.arange(self.periods + 1) / self.rate_hz),
            labels=self.scenario.labels,
            interventions=self._interventions,
            latency_s=latency,
            wall_s=wall_s,
        )


class _Sensed:
    """A simulator behind sensors whose noise starts afresh in every episode, so that each can be flown on its own."""

    owns_time = True

    def __init__(self, backend: Any, seed: int | None, first: int) -> None:
        self._backend, self._seed, self._first = backend, seed, first
        self.robot: Quadrotor = backend.robot
        self.sensed, self.commanded = backend.sensed, backend.commanded
        self.captured, self.capture = backend.captured, backend.capture
        self.connect, self.write, self.step = backend.connect, backend.write, backend.step
        self.reset, self.disarm, self.close = backend.reset, backend.disarm, backend.close
        self._noise: SensorNoise | None = None
        self.true: Signals = {}
        """The newest reading without noise."""

    def perturb(self, episode: int, perturbation: Perturbation) -> None:
        """Begin an episode."""
        if self._seed is not None:
            mixed = np.random.SeedSequence([self._seed, self._first + episode]).generate_state(1)
            self._noise = SensorNoise(self.robot, int(mixed[0]))
        self._backend.perturb(perturbation)

    def read(self) -> Reading:
        reading: Reading = self._backend.read()
        self.true = reading.signals
        if self._noise is None:
            return reading
        return replace(reading, signals=self._noise.applied(dict(reading.signals), reading.time_s))


def _make_backend(name: str, robot: Quadrotor) -> Any:
    factory = BACKENDS.load(name)
    if not getattr(factory, "owns_time", False) or not hasattr(factory, "perturb"):
        raise UserError(f"The backend '{name}' is not a simulator that can be perturbed: verify in another, as mujoco.")
    return factory(robot)


def _system(policy: str | Path, robot: str, backend: str, namespace: str) -> System:
    """Return the deployment without its robot node and its goal, and with the guard's limits opened."""
    system = deploy_system(policy, robot, backend, namespace=namespace, lock_step=True, auto_arm=True)
    opened: dict[str, Parameter] = {
        "allow_wider": True,
        "policy_timeout_s": 60.0,  # of real time: a busy machine is no reason to take over
        "tilt_rad": math.pi,
        "linear_velocity_m_s": FAR_M,
        "angular_velocity_rad_s": FAR_M,
        "geofence_min_m": (-FAR_M,) * 3,
        "geofence_max_m": (FAR_M,) * 3,
    }
    changes: dict[str, dict[str, Parameter]] = {"guard": opened, "policy": {"topic_timeout_s": START_S}}
    by_topic = ("goal_position", "goal_yaw")
    processes = tuple(
        replace(
            p,
            parameters={**{n: v for n, v in p.parameters.items() if n not in by_topic}, **changes[p.name]},
            when_it_ends="stop the rest",
        )
        for p in system.processes
        if p.name in changes
    )
    return replace(system, name="verify", processes=processes)
