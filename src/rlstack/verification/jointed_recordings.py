"""Recordings of trials in an engine: they run again, one after the other, and are recorded in each control period."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rlstack.arrays import Array, Mask
from rlstack.robots import frames
from rlstack.robots.urdf import to_urdf
from rlstack.robots.visuals import Visual
from rlstack.sim.obstacle import Obstacle, parts_of, seen_from
from rlstack.verification.jointed_trials import JointedLog, JointedSimulator, run_in_engine
from rlstack.verification.runner import Driver, Rows
from rlstack.view.recording import Mover, Recording, ReplayedTrial

SIMULATOR = "mujoco"
"""The engine in which trials run again."""

_LEVEL = np.array([0.0, 0.0, 0.0, 1.0])


def record_in_engine(
    driver: Driver,
    simulator: JointedSimulator,
    log: JointedLog,
    name: str,
    *,
    goal: Array | None = None,
    instruction: str = "",
) -> Recording:
    """Run the one trial of a simulator and return its recording.

    Args:
        driver: The policy or baseline.
        simulator: The trial, not yet connected; it is closed afterwards.
        log: Its log, whose record has ``success`` and ``lost``.
        name: Name of the driver.
        goal: (3,) m; None: there is none.
        instruction: What the driver is told; empty: nothing.

    Raises:
        UserError: A command is not finite, or the engine does not support the scene.
    """
    seen = _Seen(simulator, log)
    record = run_in_engine(driver, simulator, seen, name)
    return seen.recording(name, bool(record.success[0]), bool(record.lost[0]), goal, instruction)


class _Seen:
    """A log that also keeps where everything is."""

    def __init__(self, simulator: JointedSimulator, log: JointedLog) -> None:
        self._simulator, self._log = simulator, log
        self._time_s: list[float] = []
        self._rows: dict[str, list[Array]] = {"position": [], "orientation": [], "joint_position": []}
        self._obstacles: tuple[Obstacle, ...] = ()
        self._moved: dict[str, list[tuple[Array, Array]]] = {}

    @property
    def observe(self) -> Callable[..., Mask]:
        return self._observe

    def record(self, simulator: str) -> Any:
        return self._log.record(simulator)

    def _observe(self, rows: Rows, k: int, lost: Mask, *measured: Array) -> Mask:
        over = self._log.observe(rows, k, lost, *measured)
        if lost.any():  # it has begun anew
            return over
        simulation, state = self._simulator.backend.simulation, self._simulator.state
        if not self._time_s:
            self._obstacles = () if simulation.world is None else simulation.world.obstacles
        self._time_s.append(k / self._simulator.task.rate_hz)
        self._rows["position"].append(np.array(state.get("position", np.zeros(3))))
        self._rows["orientation"].append(np.array(state.get("orientation", _LEVEL)))
        self._rows["joint_position"].append(np.array(state.get("joint_position", np.zeros(0))))
        for obstacle in self._obstacles:
            if obstacle.mass_kg > 0.0:
                self._moved.setdefault(obstacle.name, []).append(simulation.engine.obstacle_pose(obstacle.name))
        return over

    def recording(self, name: str, success: bool, lost: bool, goal: Array | None, instruction: str) -> Recording:
        """Return what was seen."""
        robot = self._simulator.robot
        joints = tuple(joint.name for joint in getattr(robot, "drives", ()))
        arrays = {key: np.array(rows) for key, rows in self._rows.items()}
        count = len(self._time_s)
        jointed = arrays["joint_position"].shape[1] == len(joints) > 0
        parts = parts_of(self._obstacles, "The world")
        movers = []
        for obstacle in self._obstacles:
            if obstacle.name not in self._moved:
                continue
            at, turned = (np.array(rows) for rows in zip(*self._moved[obstacle.name]))
            shapes = [_shape(obstacle, np.zeros(3), 0.0)]
            shapes += [_shape(part, *seen_from(obstacle, part)) for part in parts.get(obstacle.name, ())]
            movers.append(Mover(shapes=tuple(shapes), position=at, orientation=turned))
        still = (o for o in self._obstacles if not o.can_move and not o.kinematic)
        seconds = self._time_s[-1]
        ending = "succeeded" if success else f"lost after {seconds:.1f} s" if lost else "failed"
        return Recording(
            driver=name,
            urdf=to_urdf(robot),
            time_s=np.array(self._time_s),
            position=arrays["position"],
            orientation=arrays["orientation"],
            joints=joints if jointed else (),
            joint_position=arrays["joint_position"] if jointed else None,
            shapes=tuple(_shape(o, np.array(o.position_m), o.yaw_rad) for o in still),
            movers=tuple(movers),
            goal=None if goal is None else np.tile(goal, (count, 1)),
            instruction=instruction,
            ending=ending,
            success=success,
        ).thinned()


def _shape(obstacle: Obstacle, position: Array, yaw_rad: float) -> Visual:
    size, colour = obstacle.size_m, (*obstacle.colour, 1.0)
    return Visual(obstacle.name, obstacle.shape, size, position, frames.from_yaw(yaw_rad), colour)


def replay_jointed(
    record: Any, chosen: Mapping[str, int], run: Callable[[int], Sequence[Recording]], apart_m: float
) -> list[ReplayedTrial]:
    """Run chosen trials of a record again.

    Args:
        record: The trials.
        chosen: Numbers of trials by title.
        run: Returns the recordings of a trial, the policy's first.
        apart_m: Distance between drivers, m.
    """
    return [
        ReplayedTrial(f"{title} of {len(record):,}", tuple(run(number)), apart_m) for title, number in chosen.items()
    ]


def column_in_engine(records: Mapping[str, Any]) -> str:
    """Return the name of the column whose trials run again: that of the engine, or the first."""
    return SIMULATOR if SIMULATOR in records else next(iter(records))
