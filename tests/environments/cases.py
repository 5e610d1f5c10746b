from __future__ import annotations

import importlib.util

import pytest

BACKENDS = [
    "batch",
    "mujoco",
    pytest.param(
        "pybullet",
        marks=pytest.mark.skipif(importlib.util.find_spec("pybullet") is None, reason="PyBullet is not installed"),
    ),
]
TASK_IDS = ("rlstack/QuadrotorHover-v0", "rlstack/QuadrotorTracking-v0", "rlstack/QuadrotorFoundation-v0")
QUIET = {
    "noise": dict.fromkeys(("position_m", "orientation_rad", "linear_velocity_m_s", "angular_velocity_rad_s"), 0.0)
}
STILL = {"randomisation": {"force_sigma": 0.0, "torque_sigma_m": 0.0}}
