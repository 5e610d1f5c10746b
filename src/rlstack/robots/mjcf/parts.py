"""Building blocks of MuJoCo models: names, groups, inertia, joints, actuators, the tracking camera."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rlstack.robots.inertia import Inertial
from rlstack.robots.joints import DrivenJoint

BODY = "base_link"
"""Name, after the prefix, of the robot's body; its free joint and its collision geom are named after it."""
CAMERA = "track"
"""Name, after the prefix, of the camera that follows the robot from behind and above, looking forward."""

VISUAL_GROUP, COLLISION_GROUP = 1, 3
"""MuJoCo renders groups 0 to 2 by default."""


def add_camera(mujoco: Any, body: Any, prefix: str, reach: float) -> None:
    """Add the camera that follows a robot of size ``reach`` in m."""
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


def set_inertial(body: Any, piece: Inertial) -> None:
    """Give a body of a ``MjSpec`` exactly this mass, centre of mass and inertia."""
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = piece.inertia_kg_m2.tolist()
    body.explicitinertial, body.mass, body.ipos = True, piece.mass_kg, piece.centre_m.tolist()
    if xy or xz or yz:
        body.fullinertia = [xx, yy, zz, xy, xz, yz]
    else:
        body.iquat, body.inertia = [1.0, 0.0, 0.0, 0.0], [xx, yy, zz]


def limit_joint(spec: Any, joint: Any, own: DrivenJoint) -> None:
    """Give a joint of a ``MjSpec`` the file's range, effort and armature."""
    joint.limited = own.type != "continuous"
    unit = math.degrees(1.0) if own.type == "revolute" and spec.compiler.degree else 1.0
    joint.range = [unit * own.lower, unit * own.upper] if own.type != "continuous" else [0.0, 0.0]
    joint.actfrclimited = own.effort_max > 0.0
    joint.actfrcrange = [-own.effort_max, own.effort_max]
    joint.armature = own.armature


def add_drive(mujoco: Any, spec: Any, own: DrivenJoint, prefix: str) -> None:
    """Add the actuator of a joint, named like it; its control is the joint's target. A free joint gets none.

    ``position``: stiffness * (control - position) - damping * velocity. ``velocity``: damping * (control - velocity).
    """
    if own.mode == "free":
        return
    actuator = spec.add_actuator(name=prefix + own.name, target=prefix + own.name)
    actuator.trntype = mujoco.mjtTrn.mjTRN_JOINT
    actuator.gaintype, actuator.biastype = mujoco.mjtGain.mjGAIN_FIXED, mujoco.mjtBias.mjBIAS_AFFINE
    gain, bias = list(actuator.gainprm), list(actuator.biasprm)
    if own.mode == "position":
        gain[0], bias[:3] = own.stiffness, (0.0, -own.stiffness, -own.damping)
        low, high = own.lower, own.upper
    else:
        gain[0], bias[:3] = own.damping, (0.0, 0.0, -own.damping)
        low, high = -own.velocity_max, own.velocity_max
    actuator.gainprm, actuator.biasprm = gain, bias
    actuator.forcelimited, actuator.forcerange = True, [-own.effort_max, own.effort_max]
    actuator.ctrllimited = own.mode == "velocity" or own.type != "continuous"
    if actuator.ctrllimited:
        actuator.ctrlrange = [low, high]
