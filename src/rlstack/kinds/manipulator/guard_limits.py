"""Limits of a manipulator: the ranges, speeds and efforts of its joint targets, its workspace, and self-collision."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from rlstack.arrays import Array
from rlstack.guard.guard import LimitedCommand
from rlstack.kinds.manipulator.guard_collision import CollisionModel
from rlstack.kinds.manipulator.guard_config import ManipulatorGuardConfig
from rlstack.kinds.manipulator.spec import Manipulator

_SHARES = np.array([1.0, 0.75, 0.5, 0.25])
"""Fractions of a step that leaves the workspace or brings links too close: the largest allowed one is used."""

_ROUNDING = 1e-4
"""Relative tolerance for a float32 policy that respects a limit itself."""

_SAME = 1e-9
"""Rad or m: tolerance for rounding in comparisons."""


@dataclass(frozen=True)
class _Place:
    """Tool positions and link clearances of N postures."""

    tool: Array  # (N, tools, 3) m, in base_link
    outside: Array  # (N,) m by which a tool is outside the workspace; negative inside
    near: Array  # (N,) m by which links are closer than allowed; negative if they are not

    def one(self, k: int) -> _Place:
        """Return one posture's part."""
        return _Place(self.tool[k : k + 1], self.outside[k : k + 1], self.near[k : k + 1])

    def moved(self, before: _Place) -> Array:
        """Return (N,) m, the largest distance that a tool has moved."""
        return np.asarray(np.linalg.norm(self.tool - before.tool, axis=-1).max(axis=1))


class ManipulatorTargetLimiter:
    """Limits targets to the joints' ranges, speeds and efforts and the workspace, and prevents self-collision."""

    def __init__(self, robot: Manipulator, config: ManipulatorGuardConfig, body: CollisionModel) -> None:
        self._body = body
        drives = robot.drives
        self._lower, self._upper = np.array([d.lower for d in drives]), np.array([d.upper for d in drives])
        self._velocity_max = np.array([d.velocity_max for d in drives])
        self._strongest = np.array([d.effort_max for d in drives])
        self._stiffness = np.array([d.stiffness for d in drives])
        self._damping = np.array([d.damping for d in drives])
        self.arm = np.isin(np.arange(len(drives)), body.arm)
        self._take(config)
        self.sent = np.array([d.rest for d in drives])
        """(joints,) rad or m: the last published targets."""
        self._window_s = config.window_s
        self.sent_t, self._budget_s, self._tool_budget_s = 0.0, self._window_s, self._window_s
        self._path: deque[tuple[float, Array]] = deque([(0.0, self.sent)])
        """Recent targets, linear in between; see :meth:`_publish`."""
        self._place = _Place(np.zeros((1, len(body.chains), 3)), np.zeros(1), np.zeros(1))

    def adopt(self, config: ManipulatorGuardConfig) -> None:
        """Take a configuration that differs in its limits, and judge the present posture anew."""
        self._take(config)
        self._place = self._judge(self.sent[None])

    def _take(self, config: ManipulatorGuardConfig) -> None:
        self._config, self.fastest = config, config.joint_speed * self._velocity_max
        self._low, self._high = np.array(config.workspace_min_m), np.array(config.workspace_max_m)

    def strain(self, position: Array) -> Array:
        """Return the shares of their efforts with which drives would pull joints (joints,) back into their ranges."""
        out = np.abs(position - np.clip(position, self._lower, self._upper))
        return np.asarray(out * self._stiffness / self._strongest)

    def start(self, t: float, position: Array) -> None:
        """Start at the joints' positions (joints,)."""
        self.sent = np.clip(position, self._lower, self._upper)
        self.sent_t, self._budget_s, self._tool_budget_s = t, self._window_s, self._window_s
        self._path.clear()
        self._path.append((t - 2.0 * self._window_s, self.sent))
        self._place = self._judge(self.sent[None])

    def pass_on(self, t: float, wanted: Array, position: Array, velocity: Array) -> LimitedCommand:
        """Return desired targets (joints,) within the limits, and the limits that applied, if any.

        Args:
            t: Now, s.
            wanted: Desired targets, finite.
            position: (joints,) measured.
            velocity: (joints,) measured.
        """
        reasons = []
        held = np.clip(wanted, self._lower, self._upper)
        if (np.abs(held - wanted) > _ROUNDING).any():
            reasons.append("joint range")
        held, slowed = self._slowed(held, t)
        reasons += slowed
        pulled = self._within_effort(held, position, velocity)
        if (np.abs(pulled - held) > _ROUNDING).any():
            reasons.append("joint effort")
            # one misread joint, or a push, must not make targets jump
            held, _ = self._slowed(np.clip(pulled, self._lower, self._upper), t)
        target, stopped = self.publish_apart(held, t)
        reasons += stopped
        return LimitedCommand(target, bool(reasons), held_for=", ".join(reasons))

    def hold(self, t: float) -> Array:
        """Return the last targets again."""
        return self._publish(t, self.sent, self._place)

    def publish_apart(self, held: Array, t: float) -> tuple[Array, list[str]]:
        """Publish the part of a step that tool and links allow; return it and the limits that applied."""
        held, place, stopped = self._apart(held, t)
        return self._publish(t, held, place), stopped

    def _slowed(self, held: Array, t: float) -> tuple[Array, list[str]]:
        """Return targets within the joints' speed and acceleration limits."""
        step = held - self.sent
        along = np.sign(step)
        before, earlier = self._was(t - self._window_s), self._was(t - 2.0 * self._window_s)
        most = {"joint speed": self._grown(self._budget_s, t) * self.fastest}
        if self._config.speed_up_s > 0.0:
            gain = self.fastest * self._window_s * self._window_s / self._config.speed_up_s
            done = along * (self.sent - before)
            most["joint acceleration"] = np.maximum(along * (before - earlier), 0.0) + gain - done
        reasons = []
        # scale the whole arm equally, so that the tool keeps its path; the gripper separately
        for part in (self.arm, ~self.arm):
            share = 1.0
            for reason, allowed in most.items():
                far, room = np.abs(step[part]), np.maximum(allowed[part], 0.0)
                over = far > room * (1.0 + _ROUNDING) + _SAME
                if over.any():
                    share = min(share, float((room[over] / far[over]).min()))
                    reasons.append(reason)
            step[part] *= share
        return self.sent + step, list(dict.fromkeys(reasons))

    def _was(self, t: float) -> Array:
        """Return the targets at a time, or the oldest known ones."""
        later = self._path[-1]
        for knot in reversed(self._path):
            if knot[0] <= t:
                share = (t - knot[0]) / (later[0] - knot[0]) if later[0] > knot[0] else 0.0
                return knot[1] + share * (later[1] - knot[1])
            later = knot
        return later[1]

    def _grown(self, budget_s: float, t: float) -> float:
        """Return the present value of a budget that was last updated at the last publication."""
        return min(budget_s + max(0.0, t - self.sent_t), self._window_s)

    def _within_effort(self, held: Array, position: Array, velocity: Array) -> Array:
        """Return targets at which drives need no more than their effort."""
        back = self._damping * velocity
        return np.clip(
            held,
            position + (back - self._strongest) / self._stiffness,
            position + (back + self._strongest) / self._stiffness,
        )

    def _apart(self, held: Array, t: float) -> tuple[Array, _Place, list[str]]:
        """Return the part of a step that keeps the tool in the workspace and its speed and links within limits; its
        place; and the limits that applied.

        A step that starts outside a limit may pass if it does not make the violation worse.
        """
        step = held - self.sent
        if not step.any():
            return held, self._place, []
        tried, reasons = self._judge(self.sent + _SHARES[:, None] * step), []
        room = self._config.tool_velocity_m_s * self._grown(self._tool_budget_s, t)
        far = tried.moved(self._place)
        if far[0] > room * (1.0 + _ROUNDING):
            reasons.append("tool speed")
            for _ in range(2):  # the tool's path is curved: the first fraction is slightly too large
                step *= min(1.0, room / far[0]) if far[0] else 1.0
                tried = self._judge(self.sent + _SHARES[:, None] * step)
                far = tried.moved(self._place)
        bad = far > room * (1.0 + _ROUNDING) + _SAME
        for reason, before, now in (
            ("workspace", self._place.outside, tried.outside),
            ("self-collision", self._place.near, tried.near),
        ):
            worse = now > max(before[0], 0.0) + _SAME
            if worse[0]:
                reasons.append(reason)
            bad = bad | worse
        allowed = np.flatnonzero(~bad)
        if not len(allowed):
            return self.sent.copy(), self._place, reasons
        k = int(allowed[0])
        return self.sent + _SHARES[k] * step, tried.one(k), reasons

    def _judge(self, joints: Array) -> _Place:
        """Return tool positions and link clearances for joints (N, joints)."""
        tool, gap = self._body.place(joints)
        outside = np.maximum(self._low - tool, tool - self._high).max(axis=(1, 2))
        near = self._config.apart_m - gap if self._config.self_collision else np.full(len(gap), -np.inf)
        return _Place(tool, outside, near)

    def _publish(self, t: float, held: Array, place: _Place) -> Array:
        if not np.isfinite(held).all():  # no known input leads here, but published targets must always be finite
            held, place = self.sent.copy(), self._place
        self._budget_s, self._tool_budget_s = self._grown(self._budget_s, t), self._grown(self._tool_budget_s, t)
        self.sent_t = t
        if (held != self.sent).any():
            far = float(place.moved(self._place)[0])
            self._budget_s = max(0.0, self._budget_s - float((np.abs(held - self.sent) / self.fastest).max()))
            self._tool_budget_s = max(0.0, self._tool_budget_s - far / self._config.tool_velocity_m_s)
            # a policy slower than the guard steps: each step counts as made since the one before, within a time window
            if self._path[-1][0] < t - self._window_s:
                self._path.append((t - self._window_s, self.sent))
            self._path.append((t, held))
            self.sent, self._place = held, place
        while len(self._path) > 1 and self._path[1][0] < t - 2.5 * self._window_s:
            self._path.popleft()
        return self.sent.copy()
