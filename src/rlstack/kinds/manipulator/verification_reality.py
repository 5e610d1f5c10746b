"""Axes of the reality grid of arms, with their required margins and the sources of these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.tasks.manipulator.departures import departures
from rlstack.tasks.manipulator.trials import USUAL
from rlstack.verification.reality import Axis, Conditions, control_rate, late, lost_messages


def arm_axes(robot: Manipulator, task: Any, handles: bool) -> tuple[Axis, ...]:
    """Return the axes for a robot and a policy's task.

    Args:
        robot: The arm.
        task: The task as its trials are judged by.
        handles: Whether the policy gets the pose of an object.
    """
    opening_m = USUAL.opening_m if robot.work is None else robot.work.opening_m
    rate_hz = task.rate_hz
    every = [
        late(
            "observation_delay_s",
            "Observation delay",
            farthest=0.3,
            required=0.1,
            resolution=0.0125,
            reason="a tracker at 30 Hz takes two to three of its periods; joint states over a servo bus or Wi-Fi 10"
            " to 50 ms",
        ),
        late(
            "observation_jitter_s",
            "Observation jitter, 0 to",
            farthest=0.2,
            required=0.05,
            resolution=0.0125,
            reason="a tracker's periods and a busy computer's delays add up to one control period",
        ),
        late(
            "command_delay_s",
            "Command delay",
            farthest=0.3,
            required=0.1,
            resolution=0.0125,
            reason="a joint trajectory controller reaches a point 1.2 policy periods after it was commanded, 60 ms,"
            " and drivers filter it",
        ),
        lost_messages(
            farthest=0.5,
            required=0.1,
            resolution=0.025,
            reason="best-effort links lose some percent of the messages, busy ones 10%",
        ),
        control_rate(
            rate_hz,
            required=None,
            reason="an overloaded computer misses every second period; the tool then moves at half its speed",
        ),
        _stiffness("stiffness_scale", "Stiffness of the joints, higher", 4.0, 2.0, 0.25),
        _stiffness("stiffness_scale_low", "Stiffness of the joints, lower", 0.2, 0.5, 0.05),
        _scale("damping_scale", "Damping of the joints, higher", 4.0, None, _DAMPING, 0.25, damping=1.0),
        _scale("damping_scale_low", "Damping of the joints, lower", 0.2, None, _DAMPING, 0.05, damping=1.0),
        Axis(
            key="payload_kg",
            title="Payload, not known to the controller",
            unit="kg",
            nominal=0.0,
            farthest=round(2.0 * opening_m / USUAL.opening_m, 2),
            required=None,
            reason="a camera, a cable or another gripper on the hand",
            apply=lambda value, c: _departing(c, payload_kg=value),
            resolution=0.05,
        ),
        Axis(
            key="trial_s",
            title="Length of a trial, held to its end",
            unit="s",
            nominal=task.episode_s,
            farthest=4.0 * task.episode_s,
            required=2.0 * task.episode_s,
            reason="what an arm lets go once training's episodes are over, it does not hold",
            apply=partial(_longer, task),
            values=tuple(n * task.episode_s for n in (1, 2, 4)),
        ),
    ]
    if robot.gravity_compensation:
        every.append(
            Axis(
                key="gravity_compensation_share",
                title="Share of the weight that the controller compensates",
                unit="share",
                nominal=1.0,
                farthest=0.0,
                required=None,
                reason="a controller that was told the wrong masses, or none",
                apply=lambda value, c: _departing(c, gravity_compensation=value),
                resolution=0.05,
            )
        )
    looks = _camera_axes(task) if getattr(task, "cameras", ()) else ()
    return (*every, *(_object_axes(opening_m) if handles else ()), *looks)


_GAINS = (
    "impedances are chosen: Franka's examples have 50 to 600 N m/rad for one joint (franka_ros); servos differ. The"
    " damping varies by the root, so that its ratio stays"
)
_DAMPING = "friction of the joints is rarely known, and differs between two arms of a type"


def _object_axes(opening_m: float) -> tuple[Axis, ...]:
    size = opening_m / USUAL.opening_m
    return (
        _scale("object_mass_scale", "Mass of the object", 4.0, 2.0, "objects of a size differ", 0.25, object_mass=1.0),
        _scale(
            "object_friction_scale_low",
            "Friction of the object, lower",
            0.2,
            0.5,
            "rubber on wood has twice the friction of plastic on metal",
            0.05,
            object_friction=1.0,
        ),
        Axis(
            key="object_noise_m",
            title="Noise of the object's position",
            unit="m",
            nominal=0.0,
            farthest=round(0.02 * size, 4),
            required=0.005,
            reason="poses of fiducial markers and depth cameras scatter by 2 to 5 mm at 1 m",
            apply=lambda value, c: c.departing(noise={"object_position": value}),
            resolution=0.0005,
        ),
        Axis(
            key="object_bias_m",
            title="Constant error of the object's position",
            unit="m",
            nominal=0.0,
            farthest=round(0.02 * size, 4),
            required=None,
            reason="a camera's calibration to the arm's base is good to some mm",
            apply=lambda value, c: _departing(c, object_bias_m=value),
            resolution=0.0005,
        ),
    )


def _camera_axes(task: Any) -> tuple[Axis, ...]:
    look = task.pictures.look
    return (
        Axis(
            key="camera_m",
            title="Error of the cameras' places along each axis, one standard deviation",
            unit="m",
            nominal=look.camera_m,
            farthest=round(look.camera_m + 0.03, 4),
            required=None,
            reason="a camera on a stand is placed to some mm, and is pushed sooner or later",
            apply=partial(_looking, task, "camera_m"),
            resolution=0.002,
        ),
        Axis(
            key="camera_rad",
            title="Error of the cameras' directions about each axis, one standard deviation",
            unit="rad",
            nominal=look.camera_rad,
            farthest=round(look.camera_rad + 0.05, 4),
            required=None,
            reason="a camera is aimed by hand to 1 or 2 degrees, 0.02 to 0.03 rad, unless it is calibrated",
            apply=partial(_looking, task, "camera_rad"),
            resolution=0.002,
        ),
        Axis(
            key="image_noise",
            title="Noise of pixels, of 255",
            unit="",
            nominal=0.0,
            farthest=32.0,
            required=None,
            reason="a camera raises its gain, and with it its noise, in a dim room",
            apply=lambda value, c: c.departing(noise={f"{camera}_image": value for camera in task.cameras}),
            resolution=1.0,
        ),
    )


def _looking(task: Any, name: str, value: float, conditions: Conditions) -> Conditions:
    pictures = replace(task.pictures, look=replace(task.pictures.look, **{name: value}))
    return replace(conditions, options={**conditions.options, "task": replace(task, pictures=pictures)})


def _departing(conditions: Conditions, **changed: float) -> Conditions:
    trials = conditions.trials
    return replace(conditions, trials=replace(trials, departures=departures(len(trials), **changed)))


def _stiffness(key: str, title: str, farthest: float, required: float, resolution: float) -> Axis:
    """Return the axis of the joints' stiffness at a constant damping ratio."""
    plain = _scale(key, title, farthest, required, _GAINS, resolution, stiffness=1.0)
    return replace(plain, apply=lambda value, c: _departing(c, stiffness=value, damping=value**0.5))


def _longer(task: Any, value: float, conditions: Conditions) -> Conditions:
    return replace(conditions, options={**conditions.options, "task": replace(task, episode_s=value)})


def _scale(
    key: str, title: str, farthest: float, required: float | None, reason: str, resolution: float, **nominal: float
) -> Axis:
    """Return the axis of a share of the nominal value; ``nominal`` names the departure."""
    (name,) = nominal
    apply: Callable[[float, Conditions], Conditions] = lambda value, c: _departing(c, **{name: value})  # noqa: E731
    return Axis(
        key=key,
        title=title,
        unit="x",
        nominal=1.0,
        farthest=farthest,
        required=required,
        reason=reason,
        apply=apply,
        resolution=resolution,
    )
