"""Navigation trials of bases: in process, spread over worker processes, and over ROS topics in lock step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.bringup.episode_runner import EpisodeRecorder, StillGoals, run_episodes
from rlstack.bringup.parallel import OnProgress, run_trials
from rlstack.control.navigation import PLANNERS
from rlstack.interfaces.backend import Signals
from rlstack.kinds.wheeled_base.simulation_vector import PHYSICS_HZ, clearance_at
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.policies import load_policy
from rlstack.sim.bases.pedestrians import PedestrianCrowd, move_pedestrians, with_pedestrians
from rlstack.sim.maps.world import world_of
from rlstack.sim.vector import BATCH
from rlstack.sim.world import World
from rlstack.verification.episode_simulator import NewWorlds
from rlstack.verification.navigation import NavigationLog, drive
from rlstack.verification.navigation_episodes import Course
from rlstack.verification.records import NavigationRecord

TOGETHER, TOGETHER_PLANNED = 250, 25
"""Batch sizes in the batch simulator, of a policy and of a planner: a batch runs until its last robot has ended."""

LEAST, LEAST_IN_ENGINES = 50, 10
"""Episodes that justify another process, in the batch simulator and in an engine."""


def drive_in_parallel(
    driver: str | Path,
    trials: Course,
    robot: WheeledBase,
    simulator: str,
    *,
    policy: str | Path = "",
    options: Mapping[str, Any] | None = None,
    workers: int | None = None,
    on_progress: OnProgress | None = None,
    **more: Any,
) -> NavigationRecord:
    """Run :func:`rlstack.verification.navigation.drive` in as many processes as pay off.

    Args:
        driver: A policy file, or the name of a planner.
        trials: N episodes.
        robot: The base.
        simulator: ``batch`` or a backend with an engine.
        policy: The policy file that the planner leads; empty if it drives by itself.
        options: Further options of the planner.
        workers: Number of processes; None: as many as pay off on this machine.
        on_progress: Called with the number of episodes done and the total.
        more: Other arguments of that function.

    Raises:
        UserError: The driver or the simulator is unknown or does not fit.
    """
    batched = simulator == BATCH
    together = 1 if not batched else TOGETHER if isinstance(driver, Path) else TOGETHER_PLANNED
    return run_trials(
        _drive_share,
        trials,
        least=max(together, LEAST) if batched else LEAST_IN_ENGINES,
        multiple=together,
        workers=workers,
        on_progress=on_progress,
        driver=driver,
        planned={**({"policy": str(policy)} if policy else {}), **(options or {})},
        robot=robot,
        simulator=simulator,
        at_once=together,
        **more,
    )


def _drive_share(
    driver: str | Path,
    trials: Course,
    robot: WheeledBase,
    on_progress: OnProgress | None = None,
    planned: Mapping[str, Any] | None = None,
    **options: Any,
) -> NavigationRecord:
    """Drive episodes with a policy file, or a planner's name and its options ``planned``.

    The other options are of :func:`rlstack.verification.navigation.drive`.
    """
    if isinstance(driver, Path):
        made = load_policy(driver, robot=robot)
    else:
        made = PLANNERS.load(driver)(robot, **(planned or {}))
    return drive(made, trials, robot, on_progress=on_progress, **options)


def drive_over_topics(
    policy: str | Path,
    trials: Course,
    robot: WheeledBase,
    backend_name: str = "mujoco",
    *,
    name: str,
    arrival_m: float,
    driver: str = "",
    robot_name: str = "",
    seed: int = 0,
    first: int = 0,
    on_progress: OnProgress | None = None,
) -> NavigationRecord:
    """Drive every episode of a course in sequence, and record it as in process.

    Each episode has a new world, with the course's people, if any; a people node reports them to the driver.

    Args:
        policy: The policy file; empty if a planner drives by itself.
        trials: N episodes.
        robot: The base.
        backend_name: A simulator.
        name: Name of the driver, for reports.
        arrival_m: Distance from the goal that counts as arrival.
        driver: A planner whose node drives instead of the policy node, such as ``dwa``, or leads it: ``astar_policy``.
        robot_name: The name or file that the nodes load; empty for the robot's name.
        seed: Seed of the sensors' noise, combined with the episode's number.
        first: The number of the first episode.
        on_progress: Called after every episode with the number done and the total.

    Raises:
        UserError: The backend does not support this, a node exited, or a command did not arrive.
    """
    simulator = _Maps(backend_name, robot, trials, seed + first)
    recorder = _Recorder(simulator, trials, arrival_m, on_progress)
    found = run_episodes(policy, robot_name or robot.name, backend_name, recorder, driver=driver)
    return replace(recorder.log.record(), driver=name, **found)


class _Maps(NewWorlds):
    """The maps of a course, with the people in them."""

    def __init__(self, name: str, robot: WheeledBase, course: Course, seed: int) -> None:
        self._course = course
        self._walkers: PedestrianCrowd | None = None
        self._walked_s = 0.0  # of the present period
        super().__init__(name, robot, len(course), seed, PHYSICS_HZ)

    def world(self, number: int) -> World:
        world, way = world_of(self._course.pool.maps[number]), self._course.take(slice(number, number + 1))
        if way.movers is None:
            return world
        self._walkers = PedestrianCrowd(way.movers, way.pool, self.robot, 1.0 / self.robot.control_rate_hz)
        self._walked_s = 0.0
        return with_pedestrians(world, self._walkers.people[0])

    def start(self, number: int) -> Array:
        return self._course.pool.starts[number].astype(float)

    def step(self, duration_s: float) -> None:
        period_s = 1.0 / self.robot.control_rate_hz
        if self._walkers is not None and self._walked_s < 1e-9 and self.state:
            self._walkers.step(self.pose[None], self.twist[None])
            move_pedestrians(self.backend.simulation.engine, self._walkers.people[0])
        self._walked_s = 0.0 if self._walked_s + duration_s > period_s - 1e-9 else self._walked_s + duration_s
        super().step(duration_s)

    def people(self, pose: Array) -> tuple[Array, Array] | tuple[None, None]:
        """Return the people (1, P, 5), and their smallest distance (1,), m, to a robot at (3,) since the last call.

        None if the course has none. Call it once per period.
        """
        return (None, None) if self._walkers is None else (self._walkers.people, self._walkers.gap(pose[None]))


class _Recorder(EpisodeRecorder):
    """Records drives, one per episode."""

    def __init__(self, simulator: _Maps, course: Course, arrival_m: float, on_progress: OnProgress | None) -> None:
        super().__init__(simulator, on_progress)
        goals = course.pool.goals.astype(float)
        self.goals = StillGoals(np.column_stack([goals[:, :2], np.zeros(len(goals))]), goals[:, 2])
        self.log, self._maps = NavigationLog(course, arrival_m, self.rate_hz), course.pool.maps

    def commanded(self, sent: Signals) -> None:
        self.log.command([self.episode], self.period, sent.get("twist", np.zeros(2))[None])

    def record(self) -> bool:
        i, pose = self.episode, self.simulator.pose
        clearance = clearance_at(self.simulator.robot, self._maps[i], pose)
        people, gap_m = self.simulator.people(pose)
        arrays = pose[None], self.simulator.twist[None], np.array([clearance])
        return bool(self.log.observe([i], self.period, *arrays, people, gap_m)[0])
