"""What the models of all kinds of robots in MuJoCo have in common."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

BODY = "base_link"
"""Name, after the prefix, of the robot's body; its free joint and its collision geom are named after it."""
CAMERA = "track"
"""Name, after the prefix, of the camera that follows the robot from behind and above, looking forward."""

VISUAL_GROUP, COLLISION_GROUP = 1, 3
"""MuJoCo draws groups 0 to 2 unless asked."""


def add_camera(mujoco: Any, body: Any, prefix: str, reach: float) -> None:
    """Add the camera that follows a robot of the size ``reach`` in m."""
    # Looking at the robot from behind, above and a little to the right, so that front and rear can be told apart.
    offset = np.array([-4.0, -2.4, 2.9]) * reach
    right = np.cross(-offset, [0.0, 0.0, 1.0])
    right /= math.sqrt(float(right @ right))
    up = np.cross(right, -offset)
    up /= math.sqrt(float(up @ up))
    camera = body.add_camera(
        name=prefix + CAMERA, mode=mujoco.mjtCamLight.mjCAMLIGHT_TRACK, pos=offset.tolist(), fovy=40.0
    )
    camera.alt.type = mujoco.mjtOrientation.mjORIENTATION_XYAXES
    camera.alt.xyaxes = [*right.tolist(), *up.tolist()]
