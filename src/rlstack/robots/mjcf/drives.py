"""Joints' limits and drives in MuJoCo, from the robot file."""

from __future__ import annotations

import math
from typing import Any

from rlstack.robots.joints import DrivenJoint


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
