"""`rlstack goto`: send a goal, and follow it."""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass
from typing import Annotated, Any

import tyro

from rlstack.bringup.robot_commands.robot_client import FOUND_WITHIN_S, RobotClient, shown, within
from rlstack.bringup.robot_commands.robot_state import REMEDIES, TAKEN_OVER
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.nodes.goal_watch import GoalWatch, Outcome

_LINE_S = 1.0
_MOVED_M = 0.01
"""A pursued goal further than this from the one that was sent has been moved."""


@dataclass(frozen=True)
class Goto:
    """Send a robot to a goal: its policy or planner goes there, behind its guard.

    Exit status: 0 sent, or there with --wait; 1 not taken or not reached, or the guard took over; 2 no such robot.
    """

    position: Annotated[tyro.conf.Positional[tuple[float, ...]], tyro.conf.arg(metavar="X Y [Z]")]
    """Where to, m; without Z, at the height of the present goal."""
    yaw: float = 0.0
    """Heading there, rad."""
    frame: str = topics.WORLD_FRAME
    """Frame of the goal."""
    robot: Annotated[str, tyro.conf.arg(aliases=["--namespace"], metavar="NAME")] = ""
    """The robot's namespace, or its last part; not needed if only one robot is there."""
    wait: bool = False
    """Print the distance once a second until the robot is there."""
    timeout: Annotated[float, tyro.conf.arg(metavar="SECONDS")] = 120.0
    """How long to wait for that, s."""

    def run(self) -> int:
        """Send, wait and print."""
        self.check()
        with RobotClient() as client:
            (robot,) = client.choose((self.robot,) if self.robot else ())
            name, watch = shown(robot), GoalWatch(client.node, within(robot, ""))
            client.until(lambda: watch.heard or watch.only_instructed, FOUND_WITHIN_S)
            if not watch.heard:
                return _complain(name, _unheard(watch))
            if watch.is_off:
                return _complain(name, f"nothing was sent: {watch.taken_over}; {REMEDIES[watch.mode]}")
            x, y, z = (*self.position, watch.active.pose.position.z)[:3]
            watch.send(_pose((x, y, z), self.yaw, self.frame))
            client.until(lambda: watch.outcome().state != "sent", math.inf)
            outcome = watch.outcome()
            if outcome.state == "failed":
                return _complain(name, _advice(watch, outcome))
            print(f"{name}: {self.pursued(watch)}", flush=True)
            return self.follow(client, name, watch) if self.wait else 0

    def check(self) -> None:
        """Raise ``UserError`` for a position, a yaw or a time limit that is not allowed."""
        if len(self.position) not in (2, 3) or not all(map(math.isfinite, self.position)):
            raise UserError(f"The goal {list(self.position)} is not allowed: give finite numbers X Y or X Y Z, m.")
        if not math.isfinite(self.yaw):
            raise UserError(f"--yaw {self.yaw} is not allowed: give a finite number, rad.")
        if not self.timeout > 0.0:
            raise UserError(f"--timeout {self.timeout} is not allowed: give a number above 0, s.")

    def pursued(self, watch: GoalWatch) -> str:
        """Return a sentence on the goal that the robot pursues."""
        p = watch.active.pose.position
        place = f"goes to {p.x:.2f} {p.y:.2f} {p.z:.2f} m in {watch.active.header.frame_id}"
        near = zip((p.x, p.y, p.z), self.position)
        if self.frame == watch.active.header.frame_id and any(abs(a - b) > _MOVED_M for a, b in near):
            place += f", not to {' '.join(f'{x:g}' for x in self.position)}, which it was moved from"
        return place

    def follow(self, client: RobotClient, name: str, watch: GoalWatch) -> int:
        """Print the distance until the goal is reached or lost; return the exit status."""
        begun = shown_at = time.monotonic()
        while (outcome := watch.outcome()).state == "pursued":
            now = time.monotonic()
            if now - begun > self.timeout:
                return _complain(name, f"not there after {self.timeout:g} s: {watch.distance_m:.3f} m away")
            if now - shown_at >= _LINE_S:
                shown_at = now
                print(f"{now - begun:6.1f} s  {watch.mode}  {watch.distance_m:.3f} m from the goal", flush=True)
            client.spin(0.02)
        if outcome.state == "failed":
            return _complain(name, _advice(watch, outcome))
        print(f"{name}: there after {time.monotonic() - begun:.1f} s, {watch.distance_m:.3f} m from the goal")
        return 0


def _unheard(watch: GoalWatch) -> str:
    if not watch.mode:
        return f"its guard does not say its mode ({topics.GUARD_MODE})"
    if watch.only_instructed:
        return 'nothing was sent: its policy takes no goals, but instructions: rlstack agent "..."'
    return (
        f"nothing was sent: nothing says which goal it pursues ({topics.GOAL_ACTIVE}): see whether its policy node runs"
    )


def _advice(watch: GoalWatch, outcome: Outcome) -> str:
    if outcome.why != watch.taken_over:
        return outcome.why
    return f"{outcome.why}; {REMEDIES.get(watch.mode, TAKEN_OVER)}"


def _complain(name: str, why: str) -> int:
    print(f"{name}: {why}.", file=sys.stderr)
    return 1


def _pose(position: tuple[float, float, float], yaw: float, frame: str) -> Any:
    pose = topics.type_of(topics.GOAL)()
    pose.header.frame_id = frame
    p, q = pose.pose.position, pose.pose.orientation
    p.x, p.y, p.z = position
    q.z, q.w = math.sin(0.5 * yaw), math.cos(0.5 * yaw)
    return pose
