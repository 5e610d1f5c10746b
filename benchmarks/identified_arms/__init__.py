"""Arms for benchmarks/identify.py: with numbers that differ from their file's by 10 to 40%, moved in MuJoCo."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.identification.recorded import Recorded, Track
from rlstack.kinds.manipulator.identification import ArmMotion, carry
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots.joints import clip_targets, rest_positions
from rlstack.robots.mjcf import import_mujoco, mujoco_spec

STEP_S, PERIOD_S = 0.001, 0.01
ENCODER_RAD, VELOCITY_RAD_S = 0.0005, 0.005
"""Noise of the joint states."""
SPAN_RAD = 0.4
"""Furthest that targets are from rest."""


def other_arm(robot: Manipulator, rng: np.random.Generator) -> tuple[Manipulator, dict[str, float]]:
    """Return an arm with other drives, and the true value of every parameter, the payload and friction among them."""

    def off() -> float:
        return 1.0 + float(rng.choice([-1.0, 1.0])) * float(rng.uniform(0.1, 0.4))

    model = ArmMotion(robot, [])
    inertia = dict(zip((joint.name for joint in robot.joints), model._inertia(robot).tolist()))
    truth, joints = {}, []
    for joint in robot.joints:
        drive, keys = joint.driven, [field.name for field in dataclasses.fields(joint)][5:8]
        armature = drive.armature * off() if drive.armature else 0.3 * inertia[joint.name] * off()
        values = drive.stiffness * off(), drive.damping * off(), armature
        joints.append(dataclasses.replace(joint, **dict(zip(keys, values))))
        truth |= {f"{what}_{joint.name}": v for what, v in zip(("stiffness", "damping", "armature"), values)}
        truth[f"friction_{joint.name}"] = 0.01 * drive.stiffness * off()
    truth["payload"] = 0.06 * robot.mass_kg * off()
    truth["delay"] = int(rng.integers(5, 40)) / 1000.0
    return dataclasses.replace(robot, joints=tuple(joints)), truth


def move(true: Manipulator, truth: dict[str, float], seed: int, seconds: float) -> Recorded:
    """Return the recording of an arm whose joints follow targets that step, and now and then move slowly."""
    mujoco, rng = import_mujoco(), np.random.default_rng([seed, 1])
    model = mujoco_spec(true, timestep_s=STEP_S, floor=False).compile()
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    data, names = mujoco.MjData(model), [joint.name for joint in true.drives]
    q, v = ([int(getattr(model.joint(name), key)[0]) for name in names] for key in ("qposadr", "dofadr"))
    motors = [int(model.actuator(name).id) for name in names]
    for name in names[: len(true.joints)]:
        model.dof_frictionloss[int(model.joint(name).dofadr[0])] = truth[f"friction_{name}"]
    carry(mujoco, model, data, int(model.body(true.tool_link).id), truth["payload"])
    rest = rest_positions(true.drives)
    data.qpos[q] = rest
    most = np.array([joint.velocity_max for joint in true.drives])
    goal, target, due_s, pace = rest.copy(), rest.copy(), 0.5, most
    sent: list[NDArray[Any]] = []
    seen: list[NDArray[Any]] = []
    every, late = round(PERIOD_S / STEP_S), round(truth["delay"] / STEP_S)
    arm = np.arange(len(names)) < len(true.joints)
    for k in range(round(seconds / PERIOD_S)):
        if k * PERIOD_S >= due_s:
            chosen = arm & (rng.random(len(names)) < 0.7)
            goal = np.where(chosen, rest + rng.uniform(-SPAN_RAD, SPAN_RAD, len(names)), goal)
            goal, pace = clip_targets(true.drives, goal), most * float(rng.choice([0.15, 0.5, 1.0]))
            due_s += float(rng.uniform(0.6, 1.5))
        target = target + np.clip(goal - target, -pace * PERIOD_S, pace * PERIOD_S)
        sent.append(target)
        seen.append(np.concatenate([data.qpos[q], data.qvel[v]]))
        for step in range(every):
            at = (k * every + step - late) // every
            data.ctrl[motors] = sent[max(at, 0)]
            mujoco.mj_step(model, data)
    at_s: Any = PERIOD_S * np.arange(len(sent))
    both = np.array(seen)
    both += rng.normal(size=both.shape) * np.repeat([ENCODER_RAD, VELOCITY_RAD_S], len(names))
    values = {"joint_position": both[:, : len(names)], "joint_velocity": both[:, len(names) :]}
    states = Track("joint_states", at_s, values)
    return Recorded(
        Path(f"arm {seed}"),
        {"joint_states": states, "cmd/joints": Track("cmd/joints", at_s, {"joint_target": np.array(sent)})},
    )
