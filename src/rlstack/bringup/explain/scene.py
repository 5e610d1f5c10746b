"""A recorded run as a trial that the reports' replay shows in 3D."""

from __future__ import annotations

import numpy as np

from rlstack.arrays import Array
from rlstack.bringup.explain.recorded_run import RecordedRun
from rlstack.errors import UserError
from rlstack.interfaces.signals import SENSED
from rlstack.robots.urdf import to_urdf
from rlstack.robots.visuals import Visual
from rlstack.view.recording import Recording, ReplayedTrial
from rlstack.view.replay import replay_page

RATE_HZ = 20.0
"""Pictures per second."""
_MOST_PICTURES = 2400
"""Longer recordings have fewer pictures per second."""
_SHAPES = {1: "box", 2: "sphere", 3: "cylinder"}
"""Shapes by the types of ``visualization_msgs/Marker``."""
_BELOW_M = 0.02


def scene_page(run: RecordedRun, title: str, ending: str) -> tuple[str, str]:
    """Return the page of a run in 3D, and why there is none.

    Its time is that since the bag began, so that a timeline can follow it.
    """
    try:
        taken = recording(run, ending)
        if taken is None:
            return "", "The recording has neither odometry nor joint states to show."
        rate_hz = min(RATE_HZ, _MOST_PICTURES / max(taken.duration_s, 1.0))
        return replay_page([ReplayedTrial(title, (taken,))], rate_hz=rate_hz), ""
    except UserError as error:
        return "", str(error)


def recording(run: RecordedRun, ending: str) -> Recording | None:
    """Return the robot's motion; None: no topic tells of it."""
    end_s = run.seconds(run.last_ns)
    times = np.arange(0.0, end_s + 1.0 / RATE_HZ, 1.0 / RATE_HZ)
    position, orientation = _signal(run, "position", times), _signal(run, "orientation", times)
    joints = _signal(run, "joint_position", times)
    if position is None and joints is None:
        return None
    if position is None or orientation is None:
        position, orientation = np.zeros((len(times), 3)), np.tile([0.0, 0.0, 0.0, 1.0], (len(times), 1))
    names = next((p.element_names for p in run.policy.contract.inputs if p.name == "joint_position"), ())
    shapes = _shapes(run)
    return Recording(
        driver=run.policy.contract.name,
        urdf=run.description or to_urdf(run.robot),
        time_s=times,
        position=position,
        orientation=orientation,
        joints=tuple(names) if joints is not None else (),
        joint_position=joints,
        shapes=shapes,
        goal=_goal(run, times),
        ending=ending,
        success=True,
        floor_m=min(0.0, float(position[:, 2].min()) - _BELOW_M),
    )


def _signal(run: RecordedRun, name: str, times: Array) -> Array | None:
    """Return a signal at each time: that of the newest message, of the first before it."""
    stream = run.inputs.get(SENSED[name].topic)
    if stream is None or not len(stream) or name not in stream.values(0):
        return None
    at = np.array([run.seconds(one) for one in stream.received_ns.tolist()])
    newest = np.clip(np.searchsorted(at, times, side="right") - 1, 0, None)
    return np.array([stream.values(number)[name] for number in newest.tolist()])


def _goal(run: RecordedRun, times: Array) -> Array | None:
    if not run.goals:
        return None
    at = np.array([run.seconds(when) for when, _ in run.goals])
    newest = np.clip(np.searchsorted(at, times, side="right") - 1, 0, None)
    return np.array([run.goals[number][1][:3] for number in newest.tolist()])


def _shapes(run: RecordedRun) -> tuple[Visual, ...]:
    found = []
    for marker in run.markers.markers if run.markers is not None else ():
        if marker.action != 0 or marker.type not in _SHAPES:
            continue
        p, q, size, c = marker.pose.position, marker.pose.orientation, marker.scale, marker.color
        place, turn = np.array([p.x, p.y, p.z]), np.array([q.x, q.y, q.z, q.w])
        shape = _SHAPES[marker.type]
        found.append(Visual("world", shape, (size.x, size.y, size.z), place, turn, (c.r, c.g, c.b, c.a)))  # type: ignore[arg-type]
    return tuple(found)
