"""Observation and action pipeline of arms: actions move the tool, commands are joint targets.

Forward and differential inverse kinematics are part of the graph, with the limits of joints, speeds and workspace: the
policy file maps joint states to joint targets, without an external controller.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rlstack.control.inverse_kinematics import Limits, led_step, limits_of, span_of, upright, yaw_of
from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots.dynamics import ArmDynamics
from rlstack.robots.kinematics import Carried, Chain, Screws, chain_of, holding_effort, tool_motion
from rlstack.tasks.core.pipeline import Pipeline, Tensors, Term
from rlstack.tasks.manipulator.trials import Motion

_PRESS = 0.7
"""Lead of the fingers' target before the action moves it, as a share of their effort."""

STARTED, TARGET = "started", "joint_target"


class ArmPipeline(Pipeline):
    """Terms in order; the action moves the tool's target from its previous place.

    The tool points down. Its target starts where the tool is. Prepared inputs have, beside the signals, of the tool
    ``tool_position`` (batch, 3) m, ``tool_yaw`` (batch, 2) cos and sin, ``tool_velocity`` (batch, 3) m/s, and ``lead``
    (batch, 3) m to its target; of the target ``target_position``, ``target_yaw``, ``target_rotation`` (batch, 3, 3),
    ``target_jacobian`` (batch, 6, joints of the arm) and ``target`` (batch, joints); ``opening`` and
    ``opening_target`` (batch, 1) as shares of the gripper's range; ``started`` (batch, 1), 0 in the first step. For an
    arm without gravity compensation, ``sag`` (batch, joints of the arm) rad or m is the steady-state error.

    Args:
        terms: The observation's terms.
        robot: The arm; its gripper's joints all close together.
        rate_hz: Control rate.
        axes: The policy's axes, from :data:`rlstack.tasks.manipulator.trials.AXES`.
        motion: Scale of actions.
        workspace_m: Corners of the region of the tool's target in base_link.
        grip: Action of a gripper that the policy does not move: 1 opens it, -1 closes it.

    Raises:
        UserError: The arm's joints are not those between its base and its tool.
    """

    stays = True

    def __init__(
        self,
        terms: Sequence[Term],
        robot: Manipulator,
        rate_hz: float,
        axes: Sequence[str],
        motion: Motion,
        workspace_m: tuple[tuple[float, ...], tuple[float, ...]],
        grip: float = -1.0,
    ) -> None:
        lower = [drive.lower for drive in robot.drives]
        upper = [drive.upper for drive in robot.drives]
        opened = 1.0 if robot.work is None else robot.work.opened
        for k in range(len(robot.joints), len(upper)):  # no further than tasks open the gripper
            upper[k] = lower[k] + opened * (upper[k] - lower[k])
        super().__init__(terms, TARGET, lower, upper)
        self.axes, self.motion, self.period_s, self.grip = tuple(axes), motion, 1.0 / rate_hz, grip
        self._shift: tuple[float, float] | None = None
        self.chain = _arm_of(robot)
        self.span_m = span_of(self.chain)
        self.arm = len(robot.joints)
        self.hands = len(robot.gripper)
        constants = {**self.chain.screws._asdict(), **limits_of(robot, self.chain)._asdict()}
        self.sags = not robot.gravity_compensation
        if self.sags:
            constants |= ArmDynamics(robot).carried._asdict()
            constants["stiffness"] = np.array([drive.stiffness for drive in robot.drives[: self.arm]])
        constants["rest"] = np.array([drive.rest for drive in robot.drives[: self.arm]])
        constants["hand_speed"] = np.array([drive.velocity_max for drive in robot.drives[self.arm :]])
        constants["low"], constants["high"] = (np.array(corner) for corner in workspace_m)
        hands = robot.drives[self.arm :]
        self.hand_range = np.array([opened * (d.upper - d.lower) for d in hands])
        """(fingers,) range of each finger, rad or m."""
        self.press = min(
            (_PRESS * d.effort_max / d.stiffness / (opened * (d.upper - d.lower)) for d in hands), default=0.0
        )
        for name, array in constants.items():
            self.register_buffer(f"_{name}", torch.tensor(array, dtype=torch.float32))

    def shift_actions(self, yaw_rad: float, gain: float) -> None:
        """Turn the tool's horizontal motions about the vertical and scale all its motions, from the next action on.

        It imitates a controller whose frame and scale differ from those of the demonstrations.
        """
        self._shift = None if yaw_rad == 0.0 and gain == 1.0 else (yaw_rad, gain)

    @property
    def action_size(self) -> int:
        """Number of actions."""
        return len(self.axes)

    @property
    def memory(self) -> dict[str, tuple[int, ...]]:
        """Shapes of all recurrent state by name."""
        return {TARGET: (self.arm + self.hands,), STARTED: (1,), **super().memory}

    def prepare(self, inputs: Tensors, memory: Tensors) -> dict[str, Tensor]:
        """Return the inputs with values that several terms share; see the class."""
        joints, started = inputs["joint_position"], memory[STARTED]
        target = started * memory[TARGET] + (1.0 - started) * joints
        arm, hand = target[:, : self.arm], target[:, self.arm :]
        now = joints[:, : self.arm]
        lead = self.motion.lead_s * self._buffer("velocity")
        arm = torch.maximum(torch.minimum(arm, now + lead), now - lead)
        arm = torch.maximum(torch.minimum(arm, self._buffer("upper")), self._buffer("lower"))
        if self.hands:
            # before the action moves it; with much further targets the object slides between the fingers
            low, range_ = self.minimum[self.arm :], (self.maximum - self.minimum)[self.arm :]
            opening = ((joints[:, self.arm :] - low) / range_).mean(dim=-1, keepdim=True)
            wanted = ((hand - low) / range_).mean(dim=-1, keepdim=True)
            wanted = torch.maximum(torch.minimum(wanted, opening + self.press), opening - self.press)
            wanted = wanted.clamp(0.0, 1.0)
            hand = low + wanted * range_
        screws = Screws(*(self._buffer(name) for name in Screws._fields))
        batch = joints.shape[0]
        both = tool_motion(screws, torch.cat([now, arm], dim=0))  # one call for both is cheaper than two
        moving = both.jacobian[:batch, :3] @ inputs["joint_velocity"][:, : self.arm, None]
        prepared = {
            **inputs,
            "target": torch.cat([arm, hand], dim=-1),
            "tool_position": both.position[:batch],
            "tool_yaw": yaw_of(both.rotation[:batch]),
            "tool_velocity": moving[:, :, 0],
            "target_position": both.position[batch:],
            "target_yaw": yaw_of(both.rotation[batch:]),
            "target_rotation": both.rotation[batch:],
            "target_jacobian": both.jacobian[batch:],
            "lead": both.position[batch:] - both.position[:batch],
            "started": started,
        }
        if self.sags:
            carried = Carried(*(self._buffer(name) for name in Carried._fields))
            prepared["sag"] = holding_effort(screws, carried, now) / self._buffer("stiffness")
        if self.hands:
            prepared["opening"] = opening
            prepared["opening_target"] = wanted
        for term in self._terms():
            prepared.update(term.prepare(prepared, memory))
        return prepared

    def command(self, action: Tensor, inputs: Tensors) -> Tensor:
        """Return the joints' targets (batch, joints), rad or m, for a clipped action; ``inputs`` as prepared.

        Without gravity compensation they exceed the wanted joint positions by the steady-state error.
        """
        moved = {axis: action[:, k : k + 1] for k, axis in enumerate(self.axes)}
        none = torch.zeros_like(action[:, :1])
        place = inputs["target_position"]
        step = torch.cat([moved.get(axis, none) for axis in "xyz"], dim=-1) * (self.motion.speed_m_s * self.period_s)
        if self._shift is not None:
            step = _shifted(step, *self._shift)
        linear = torch.maximum(torch.minimum(place + step, self._buffer("high")), self._buffer("low")) - place
        # return into the workspace no faster than an action
        fastest = self.motion.speed_m_s * self.period_s
        linear = linear.clamp(-fastest, fastest)
        yaw = moved.get("yaw", none) * (self.motion.yaw_rate_rad_s * self.period_s)
        turn = 0.2 * upright(inputs["target_rotation"]) + torch.cat([none, none, yaw], dim=-1)
        arm = inputs["target"][:, : self.arm]
        limits = Limits(*(self._buffer(name) for name in Limits._fields))
        aside = self.motion.posture * (self._buffer("rest") - arm)
        wanted = torch.cat([linear, turn], dim=-1)
        jacobian, rotation = inputs["target_jacobian"], inputs["target_rotation"]
        arm = led_step(jacobian, rotation, wanted, aside, arm, limits, self.period_s, self.span_m)
        if self.sags:
            arm = torch.maximum(torch.minimum(arm + inputs["sag"], limits.upper), limits.lower)
        grip = moved.get("gripper", none + self.grip)
        hand = inputs["target"][:, self.arm :] + grip * (self._buffer("hand_speed") * self.period_s)
        hand = torch.maximum(torch.minimum(hand, self.maximum[self.arm :]), self.minimum[self.arm :])
        return torch.cat([arm, hand], dim=-1)

    def tool_target(self, command: Tensor, inputs: Tensors) -> Tensor:
        """Return the pose of tool and fingers (batch, 5 + fingers) that a command (batch, joints) leads to.

        The tool's position, m, cos and sin of its yaw, and the fingers in rad or m. ``inputs`` as prepared.
        """
        arm = command[:, : self.arm]
        if self.sags:
            arm = arm - inputs["sag"]
        tool = tool_motion(Screws(*(self._buffer(name) for name in Screws._fields)), arm)
        return torch.cat([tool.position, yaw_of(tool.rotation), command[:, self.arm :]], dim=-1)

    def remember(self, inputs: Tensors, memory: Tensors, action: Tensor) -> dict[str, Tensor]:
        """Return all memory after a clipped ``action``; ``inputs`` as prepared for the observation."""
        return self.remember_command(inputs, memory, action, self.command(action, inputs))

    def remember_command(self, inputs: Tensors, memory: Tensors, action: Tensor, command: Tensor) -> dict[str, Tensor]:
        """Return all memory after a clipped ``action`` whose ``command`` is already known."""
        if self.sags:
            command = torch.cat([command[:, : self.arm] - inputs["sag"], command[:, self.arm :]], dim=-1)
        started = torch.ones_like(memory[STARTED])
        return {TARGET: command, STARTED: started, **super().remember(inputs, memory, action)}

    def _buffer(self, name: str) -> Tensor:
        found: Tensor = getattr(self, f"_{name}")
        return found


def _shifted(step: Tensor, yaw_rad: float, gain: float) -> Tensor:
    """Return motions (batch, 3) turned about the vertical and scaled."""
    x, y, z = step.unbind(dim=-1)
    cos, sin = math.cos(yaw_rad), math.sin(yaw_rad)
    return gain * torch.stack([cos * x - sin * y, sin * x + cos * y, z], dim=-1)


def _arm_of(robot: Manipulator) -> Chain:
    chain = chain_of(robot)
    if chain.index != tuple(range(len(robot.joints))):
        raise UserError(
            f"{robot.name}: the joints between base and {robot.tool_link} are {', '.join(chain.joints)}, and the robot"
            f" file has {', '.join(joint.name for joint in robot.joints)}: list exactly those under joints."
        )
    return chain
