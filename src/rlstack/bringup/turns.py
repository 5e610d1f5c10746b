"""One world after the other over real topics, in lock step: what courses, races and expeditions have in common."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.bringup.lock_step import START_S, conduct
from rlstack.bringup.parallel import OnProgress
from rlstack.bringup.system import Parameter, System, deploy_system
from rlstack.errors import UserError
from rlstack.guard import CommonMode
from rlstack.interfaces import topics
from rlstack.interfaces.backend import BACKENDS, Capture, Reading, Signals
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import frames, load_robot
from rlstack.sim.world import World
from rlstack.verification.flock import engine_of, whole_steps

WARM_UP_STEPS = 5
"""Control periods under a command before the first turn, in which discovery settles."""

FAR_M = 1e3
"""The guard's geofence: maps are made for any robot, whatever hall its file says it is in."""

LEAST_TURNS = 5
"""Per process; starting three nodes takes about as long as driving a few ways."""

_TAKEN_OVER = ("stop", "fallback", "hold")


class Worlds(ABC):
    """A simulator whose world is another one for each turn; its time goes on.

    Args:
        name: Of the backend.
        robot: What drives.
        seed: Of the sensors' noise, with the turn's number.
        physics_hz: Physics steps a second, at least.

    Raises:
        UserError: The backend is no simulator with worlds.
    """

    owns_time = True

    def __init__(self, name: str, robot: WheeledBase, seed: int, physics_hz: float) -> None:
        if engine_of(name) is None:
            raise UserError(f"The backend '{name}' is not a simulator with worlds: verify in another, such as mujoco.")
        self._factory, self.robot, self._seed = BACKENDS.load(name), robot, seed
        self._rate_hz = whole_steps(physics_hz, robot.control_rate_hz) * robot.control_rate_hz
        self._inner = self._made(0)
        self.sensed, self.commanded, self.captured = self._inner.sensed, self._inner.commanded, self._inner.captured
        self._before_s = 0.0
        self.last: Signals = {}
        """The newest reading."""

    @abstractmethod
    def world(self, number: int) -> World | str:
        """Return the world of a turn, or its name; called once a turn, before it."""

    @abstractmethod
    def start(self, number: int) -> Array:
        """Return where the robot starts: x and y in m, yaw in rad."""

    @property
    def pose(self) -> Array:
        """(3,) by the newest reading: x and y in m, yaw in rad."""
        return np.array([*self.last["position"][:2], float(frames.yaw(self.last["orientation"]))])

    @property
    def twist(self) -> Array:
        """(3,) by the newest reading: m/s, m/s, rad/s in base_link."""
        return np.array([*self.last["linear_velocity"][:2], self.last["angular_velocity"][2]])

    def connect(self) -> None:
        """Put the robot at the start of the first turn."""
        self._inner.connect()
        self._place(0)

    def enter(self, number: int) -> None:
        """Go on in the world of a turn, at its start."""
        self._before_s += float(self._inner.read().time_s)
        self._inner.close()
        self._inner = self._made(number)
        self._inner.connect()
        self._place(number)

    def read(self) -> Reading:
        """Return the newest reading, on a time that goes on from turn to turn."""
        reading: Reading = self._inner.read()
        self.last = reading.signals
        return replace(reading, time_s=reading.time_s + self._before_s)

    def capture(self, name: str) -> Capture:
        """Return what a camera or lidar sees."""
        capture: Capture = self._inner.capture(name)
        return replace(capture, time_s=capture.time_s + self._before_s)

    def write(self, command: Signals) -> Signals:
        """Command the robot; return what its limits leave of it."""
        sent: Signals = self._inner.write(command)
        return sent

    def step(self, duration_s: float) -> None:
        """Let time pass."""
        self._inner.step(duration_s)

    def reset(self, state: Any = None) -> None:
        """Put the robot at rest, or into a state."""
        self._inner.reset(state)

    def disarm(self) -> None:
        """Stop the actuators."""
        self._inner.disarm()

    def close(self) -> None:
        """Release the simulator."""
        self._inner.close()

    def _made(self, number: int) -> Any:
        world, seed = self.world(number), self._seed + number
        return self._factory(self.robot, world=world, physics_rate_hz=self._rate_hz, noise_seed=seed)

    def _place(self, number: int) -> None:
        x, y, yaw = self.start(number)
        place = np.array([x, y, self.robot.rest_height_m])
        self._inner.reset({"position": place, "orientation": frames.from_yaw(yaw)})


class Recorder(ABC):
    """Is asked after every period: keeps the record and moves on from turn to turn.

    Args:
        worlds: Where.
        count: How many turns.
        on_progress: Called after every turn with those done and their total.
    """

    def __init__(self, worlds: Any, count: int, on_progress: OnProgress | None) -> None:
        self.worlds, self._count, self._on_progress = worlds, count, on_progress
        self.rate_hz = float(worlds.robot.control_rate_hz)
        self.interventions = np.zeros(count, dtype=np.int64)
        """(turns,) how often the guard took over."""
        self._latency: list[float] = []
        self.steps = 0
        """Commands answered so far, in all: shows that time goes on."""
        self.turn, self.period, self._warm = -1, 0, 0
        self._mode = ""
        self._node: Any = None

    @abstractmethod
    def keep(self) -> bool:
        """Record the present, after :attr:`period` periods of the :attr:`turn`; return whether the turn is over."""

    @abstractmethod
    def commanded(self, sent: Signals) -> None:
        """Record what has acted since the last :meth:`keep`; :attr:`period` is still that of the present then."""

    @abstractmethod
    def prepare(self, node: Any) -> None:
        """Make what is to be said to whoever drives, before the nodes start."""

    @abstractmethod
    def announce(self) -> None:
        """Say what the new turn is about."""

    @property
    def latency_s(self) -> Array:
        """(K,) of commands, from sending an observation to its command's arrival."""
        latency = np.array(self._latency)
        return latency[np.isfinite(latency)]

    @property
    def done(self) -> bool:
        """Whether every turn is over."""
        return self.turn >= self._count

    @property
    def flying(self) -> bool:
        """Whether the first turn has begun."""
        return self.turn >= 0

    def begin(self, node: Any) -> None:
        """Let the robot drive for a while before the first turn."""
        self._node = node
        kind = topics.type_of(topics.GUARD_MODE)
        node.create_subscription(kind, topics.GUARD_MODE, self._on_mode, topics.quality("latched"))
        self.prepare(node)

    def on_step(self, reading: Reading, sent: Signals) -> None:
        """Take in one control period."""
        self.steps += 1
        if self.done:
            return
        if not self.flying:
            self._warm = self._warm + 1 if sent else 0
            if self._warm >= WARM_UP_STEPS:
                self._next()
            return
        self.commanded(sent)
        self._latency.append(self._node.last_latency_s)
        self.period += 1
        if self.keep():
            self._next()

    def _next(self) -> None:
        self.turn, self.period = self.turn + 1, 0
        if self._on_progress is not None and self.turn > 0:
            self._on_progress(self.turn, self._count)
        if self.done:
            return
        self.announce()
        self.worlds.enter(self.turn)
        self._node.publish_now()
        self.keep()

    def _on_mode(self, message: Any) -> None:
        before, self._mode = self._mode, message.data
        if self.flying and not self.done and self._mode in _TAKEN_OVER and before == str(CommonMode.POLICY):
            self.interventions[self.turn] += 1


def take_turns(
    policy: str | Path,
    driver: str,
    robot: str,
    backend: str,
    worlds: Any,
    recorder: Recorder,
    settle: Callable[[System], System] | None = None,
) -> float:
    """Let a deployment's policy or planner and guard drive every turn; return the wall time that it took, s.

    The robot node runs in this process, the others in processes of their own, with all of the guard's rules but the
    geofence. Time waits for every command, so the speed of this machine does not matter.

    Args:
        policy: The policy file; empty if a planner drives by itself.
        driver: The planner whose node drives; empty: the policy's.
        robot: The name or file that the nodes load.
        backend: The simulator's name.
        worlds: Of it, not yet connected.
        recorder: Of what is driven.
        settle: What else is to be changed in the deployment.

    Raises:
        UserError: A node ended, or a command did not come.
    """
    from rlstack.nodes.runtime import prepare_environment, require_ros

    require_ros()
    prepare_environment()
    namespace = f"/verify_{os.getpid()}"  # beside whatever else drives in this domain
    system = _system(policy, driver, robot, backend, namespace)
    system = system if settle is None else settle(system)
    return conduct(system, worlds, recorder, namespace)


def _system(policy: str | Path, driver: str, robot: str, backend: str, namespace: str) -> System:
    """Return the deployment without its robot node and its goal, and with the guard's fence opened."""
    system = deploy_system(policy, robot, backend, driver=driver, namespace=namespace, lock_step=True, auto_arm=True)
    guard: dict[str, Parameter] = {
        "allow_wider": True,
        "policy_timeout_s": 60.0,  # of real time: a busy machine is no reason to take over
    }
    if isinstance(load_robot(robot), WheeledBase):
        guard |= {"geofence_min_m": (-FAR_M, -FAR_M, -FAR_M), "geofence_max_m": (FAR_M, FAR_M, FAR_M)}
    waits: dict[str, Parameter] = {"topic_timeout_s": START_S}
    changes: dict[str, dict[str, Parameter]] = {"guard": guard, "policy": waits, "planner": waits, "people": {}}
    by_topic = ("goal_position", "goal_yaw")
    processes = tuple(
        replace(
            process,
            parameters={
                **{name: given for name, given in process.parameters.items() if name not in by_topic},
                **changes[process.name],
            },
            when_it_ends="stop the rest",
        )
        for process in system.processes
        if process.name in changes
    )
    return replace(system, name="verify", processes=processes)
