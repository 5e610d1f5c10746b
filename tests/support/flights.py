"""Start states and noise for closed loops with the reference quadrotor."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlstack.robots import frames
from tests.support.reference import ReferenceQuadrotor

Array = NDArray[np.float64]


def scatter(quad: ReferenceQuadrotor, random: np.random.Generator, tilt_rad: float) -> None:
    """Start at the origin, tilted up to ``tilt_rad``, any heading, velocities U(+-1) per axis, rotors near hover."""
    axis, lean = random.uniform(0.0, 2.0 * np.pi), random.uniform(0.0, tilt_rad)
    tilted = frames.from_rotation_vector(lean * np.array([np.cos(axis), np.sin(axis), 0.0]))
    quad.state["orientation"] = frames.multiply(tilted, frames.from_yaw(random.uniform(-np.pi, np.pi)))
    quad.state["linear_velocity"] = random.uniform(-1.0, 1.0, 3)
    quad.state["angular_velocity"] = random.uniform(-1.0, 1.0, 3)
    quad.state["rotor_speed"] = np.full(4, quad.robot.hover_speed_rad_s * random.uniform(0.7, 1.1))


def measure(quad: ReferenceQuadrotor, random: np.random.Generator | None = None) -> dict[str, Array]:
    """Return the state as the topics give it: velocity in ``base_link``, noisy if ``random`` is given."""
    state = quad.state
    signals = {
        "position": state["position"].copy(),
        "orientation": state["orientation"].copy(),
        "linear_velocity": frames.rotate_inverse(state["orientation"], state["linear_velocity"]),
        "angular_velocity": state["angular_velocity"].copy(),
    }
    if random is not None:
        for name, sigma in (("position", 1e-3), ("linear_velocity", 2e-3), ("angular_velocity", 2e-3)):
            signals[name] = signals[name] + random.normal(0.0, sigma, 3)
        wobble = frames.from_rotation_vector(random.normal(0.0, 1e-3, 3))
        signals["orientation"] = frames.multiply(signals["orientation"], wobble)
    return signals
