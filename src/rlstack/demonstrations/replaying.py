"""Replay a demonstration's commands from its start, and measure the deviation from the recording."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rlstack.arrays import Array
from rlstack.data.lerobot import Dataset
from rlstack.demonstrations import metadata
from rlstack.errors import UserError
from rlstack.tasks.manipulator.demonstration import DemonstrationEnvironment


@dataclass(frozen=True)
class ReplayResult:
    """The result of a replay.

    Attributes:
        episode: Its number in the dataset.
        time_s: (frames,) s after the start, of each comparison.
        joint: (frames,) largest deviation of any joint, rad or m.
        tool_m: (frames,) deviation of the tool.
        object_m: (frames,) deviation of the object; empty without one.
        recorded: Whether the recording succeeded.
        success: Whether the replay succeeded.
    """

    episode: int
    time_s: Array
    joint: Array
    tool_m: Array
    object_m: Array
    recorded: bool
    success: bool

    def describe(self) -> str:
        """Format the result."""
        # the first frame is the start, and each lasts a period
        seconds = self.time_s[-1] + self.time_s[0]
        lines = [f"episode {self.episode}: {len(self.time_s) + 1} frames, {seconds:.2f} s"]
        said = [("joints", self.joint, 1.0, "rad"), ("tool", self.tool_m, 1000.0, "mm")]
        if len(self.object_m):
            said.append(("object", self.object_m, 1000.0, "mm"))
        for what, departure, scale, unit in said:
            worst = int(departure.argmax())
            at = f" at {self.time_s[worst]:.2f} s" if departure[worst] > 0 else ""
            end = scale * departure[-1]
            lines.append(f"  {what} depart by at most {scale * departure[worst]:.3g} {unit}{at}, {end:.3g} at the end")
        verdict = {True: "succeeded", False: "did not succeed"}
        lines.append(f"  the recording {verdict[self.recorded]}, the replay {verdict[self.success]}")
        return "\n".join(lines)


def replay(path: str | Path, episode: int, robot: str = "") -> ReplayResult:
    """Replay the recorded joint commands from the recorded state, and compare each frame.

    Args:
        path: The dataset's folder.
        episode: Its number.
        robot: Name or file of the arm; empty: the robot named in the dataset.

    Raises:
        UserError: It is not a dataset of demonstrations, has no such episode, is for another robot, or its task or
            simulator has changed since.
    """
    dataset = Dataset(path)
    of = metadata.read_metadata(dataset, robot)
    if metadata.SIMULATOR not in dataset.features:
        raise UserError(f"{path} has no simulator states, since it came from bags: it cannot be replayed.")
    frames = dataset.read(episode, [metadata.COMMAND, metadata.SIMULATOR, metadata.TRIAL_OF, metadata.SUCCESS])
    states, commands = frames[metadata.SIMULATOR], frames[metadata.COMMAND].astype(float)
    station: DemonstrationEnvironment = of.task.demonstration(of.robot)
    try:
        station.restore(states[0], frames[metadata.TRIAL_OF][0])
        departures: list[tuple[float, ...]] = []
        held, success = 0, False
        for k, command in enumerate(commands):
            station.drive(command)
            held = held + 1 if station.is_done() else 0
            success = held >= of.task.hold_steps or (success and of.task.ends)
            if k + 1 < len(states):
                departures.append(_departure(station, states[k + 1]))
    finally:
        station.close()
    # a demonstration of one frame has nothing to compare
    table = np.array(departures or [(0.0, 0.0) + (0.0,) * (of.task.objects is not None)])
    return ReplayResult(
        episode=episode,
        time_s=np.arange(1, len(table) + 1) / of.task.rate_hz,
        joint=table[:, 0],
        tool_m=table[:, 1],
        object_m=table[:, 2] if table.shape[1] > 2 else np.empty(0),
        recorded=bool(frames[metadata.SUCCESS][-1, 0]),
        success=success,
    )


def _departure(station: DemonstrationEnvironment, recorded: Array) -> tuple[float, ...]:
    now, then = station.positions(), station.positions(recorded)
    off = {name: now[name] - then[name] for name in now}
    joint = float(np.abs(off.pop("joints")).max())
    return joint, *(float(np.linalg.norm(each)) for each in off.values())
