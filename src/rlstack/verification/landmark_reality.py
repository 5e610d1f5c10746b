"""Axes of the reality grid of mobile robots among landmarks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from rlstack.tasks.landmarks.sensing import CAMERA
from rlstack.verification.reality import Axis, Conditions, control_rate, late, lost_messages


def landmark_axes(task: Any) -> tuple[Axis, ...]:
    """Return the axes for a policy's task."""
    every = (
        late(
            "observation_delay_s",
            "Observation delay",
            farthest=0.4,
            required=None,
            resolution=0.025,
            reason="images over Wi-Fi take 50 to 100 ms more than on board",
        ),
        late(
            "command_delay_s",
            "Command delay",
            farthest=0.4,
            required=None,
            resolution=0.025,
            reason="a busy computer or a radio link adds one control period",
        ),
        lost_messages(
            farthest=0.5,
            required=None,
            resolution=0.025,
            reason="best-effort links lose some percent of the messages, busy ones 10%",
        ),
        control_rate(task.rate_hz, required=None, reason="an overloaded computer misses every second period"),
        _noise("velocity_noise_m_s", "Noise of the measured velocity", "linear_velocity", "m/s", 0.2, 0.01, _SLIP),
        _noise("image_noise", "Noise of pixels, of 255", f"{CAMERA}_image", "", 32.0, 1.0, _GAIN),
    )
    if task.of_mass(1.0) is None:
        return every
    mass = Axis(
        key="mass_scale",
        title="Mass",
        unit="x",
        nominal=1.0,
        farthest=1.5,
        required=None,
        reason="a battery or a payload that the robot file does not know",
        apply=partial(_massive, task),
        resolution=0.05,
    )
    return (*every, mass)


_SLIP = "wheels slip, and visual odometry is noisy in turns"
_GAIN = "a camera raises its gain, and with it its noise, in a dim room"


def _noise(key: str, title: str, signal: str, unit: str, farthest: float, resolution: float, reason: str) -> Axis:
    return Axis(
        key=key,
        title=title,
        unit=unit,
        nominal=0.0,
        farthest=farthest,
        required=None,
        reason=reason,
        apply=lambda value, c: c.departing(noise={signal: value}),
        resolution=resolution,
    )


def _massive(task: Any, value: float, conditions: Conditions) -> Conditions:
    return replace(conditions, options={**conditions.options, "task": task.of_mass(value)})
