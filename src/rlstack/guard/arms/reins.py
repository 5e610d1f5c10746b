"""The last targets of an arm's joints, and what may follow them."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from rlstack.guard.arms.body import ArmBody
from rlstack.guard.arms.config import ArmGuardConfig
from rlstack.robots import Manipulator

Array = NDArray[np.float64]

_SHARES = np.array([1.0, 0.75, 0.5, 0.25])
"""Of a step that leads out of the workspace, or links too near to each other: the largest that does not is made."""

_ROUNDING = 1e-4
"""Share by which float32 in a policy may be beyond a limit that it keeps itself."""

_SAME = 1e-9


class Reins:
    """Brings every target within the joints' ranges, speeds and efforts, the workspace, and apart from the arm itself.

    Args:
        robot: Which arm.
        config: The limits.
        body: Where its tool and links are.
    """

    def __init__(self, robot: Manipulator, config: ArmGuardConfig, body: ArmBody) -> None:
        self._config, self._body = config, body
        drives = robot.drives
        self._lower, self._upper = np.array([d.lower for d in drives]), np.array([d.upper for d in drives])
        self._fastest = config.joint_speed * np.array([d.velocity_max for d in drives])
        self._strongest = np.array([d.effort_max for d in drives])
        self._stiffness = np.array([d.stiffness for d in drives])
        self._damping = np.array([d.damping for d in drives])
        self._rest = np.array([d.rest for d in drives])
        self._arm = np.isin(np.arange(len(drives)), body.arm)
        self._low, self._high = np.array(config.workspace_min_m), np.array(config.workspace_max_m)
        self.sent = self._rest.copy()
        """(joints,) rad or m: the last published targets."""
        self._window_s = config.window_s
        self._sent_t, self._budget_s = 0.0, self._window_s
        self._past: deque[tuple[float, Array]] = deque([(0.0, self.sent)])
        self._tool, self._off = np.zeros((len(body.chains), 3)), 0.0

    def start(self, t: float, position: Array) -> None:
        """Begin where the joints (joints,) are."""
        self.sent = np.clip(position, self._lower, self._upper)
        self._sent_t, self._budget_s = t, self._window_s
        self._past.clear()
        self._past.append((t - 2.0 * self._window_s, self.sent))
        tool, off = self._judge(self.sent[None])
        self._tool, self._off = tool[0], float(off[0])

    def pass_on(self, t: float, wanted: Array, position: Array, velocity: Array) -> tuple[Array, str]:
        """Return what may be published of wanted targets (joints,), and what they were held back for, if they were.

        Args:
            t: Now, s.
            wanted: Finite.
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
        held, stopped = self._apart(np.clip(pulled, self._lower, self._upper), t)
        reasons += stopped
        return self._publish(t, held), ", ".join(reasons)

    def hold(self, t: float) -> Array:
        """Return the last targets again."""
        return self._publish(t, self.sent)

    def towards_rest(self, t: float) -> tuple[Array, bool]:
        """Return the next targets on the slow way to the rest position, the gripper as it is, and whether it is over.

        It is over, too, where the way leads out of the workspace or into the arm itself.
        """
        goal = self.sent.copy()
        goal[self._arm] = self._rest[self._arm]
        dt = min(max(0.0, t - self._sent_t), self._window_s)
        left = goal - self.sent
        share = np.abs(left) / (self._fastest * self._config.parking_speed * max(dt, 1e-6))
        held, stopped = self._apart(self.sent + left / max(1.0, float(share.max())), t)
        over = bool(stopped) or not left.any()
        return self._publish(t, held), over

    def _slowed(self, held: Array, t: float) -> tuple[Array, list[str]]:
        """Return targets that are no faster than the joints, and have not sped up faster than allowed."""
        step = held - self.sent
        along = np.sign(step)
        before, earlier = self._was(t - self._window_s), self._was(t - 2.0 * self._window_s)
        budget = min(self._budget_s + max(0.0, t - self._sent_t), self._window_s)
        most = {"joint speed": budget * self._fastest}
        if self._config.speed_up_s > 0.0:
            gain = self._fastest * self._window_s * self._window_s / self._config.speed_up_s
            done = along * (self.sent - before)
            most["joint acceleration"] = np.maximum(along * (before - earlier), 0.0) + gain - done
        reasons = []
        # all of the arm alike, so that the tool keeps its way; the gripper for itself
        for part in (self._arm, ~self._arm):
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
        """Return the targets at a time, or the oldest that are known."""
        for time_s, sent in reversed(self._past):
            if time_s <= t + 0.5 * self._config.period_s:
                return sent
        return self._past[0][1]

    def _within_effort(self, held: Array, position: Array, velocity: Array) -> Array:
        """Return targets at which drives ask for no more than their effort."""
        back = self._damping * velocity
        return np.clip(
            held,
            position + (back - self._strongest) / self._stiffness,
            position + (back + self._strongest) / self._stiffness,
        )

    def _apart(self, held: Array, t: float) -> tuple[Array, list[str]]:
        """Return targets on the way to some at which the tool is in the workspace and no faster, and links are apart.

        Where that was not so before, what makes it no worse may pass.
        """
        step = held - self.sent
        if not step.any():
            return held, []
        tool, off = self._judge(self.sent + _SHARES[:, None] * step)
        reasons = []
        budget = min(self._budget_s + max(0.0, t - self._sent_t), self._window_s)
        far = np.linalg.norm(tool - self._tool, axis=-1).max(axis=1)
        fast = far > self._config.tool_velocity_m_s * budget * (1.0 + _ROUNDING)
        if fast[0]:
            reasons.append("tool speed")
        bad = off > max(self._off, 0.0) + 1e-9
        if bad[0]:
            reasons.append("workspace" if self._outside(tool[:1])[0] > max(self._off, 0.0) else "self-collision")
        allowed = np.flatnonzero(~fast & ~bad)
        if not len(allowed):
            return self.sent.copy(), reasons
        k = int(allowed[0])
        return self.sent + _SHARES[k] * step, reasons

    def _judge(self, joints: Array) -> tuple[Array, Array]:
        """Return tools (N, tools, 3), and how far, m, joints (N, joints) are beyond what is allowed; below 0: not."""
        tool, gap = self._body.place(joints)
        off = self._outside(tool)
        if self._config.self_collision:
            off = np.maximum(off, self._config.apart_m - gap)
        return tool, off

    def _outside(self, tool: Array) -> Array:
        return np.asarray(np.maximum(self._low - tool, tool - self._high).max(axis=(1, 2)))

    def _publish(self, t: float, held: Array) -> Array:
        if not np.isfinite(held).all():  # no input is known to lead here; the last word must hold all the same
            held = self.sent.copy()
        spent = float((np.abs(held - self.sent) / self._fastest).max())
        self._budget_s = max(0.0, min(self._budget_s + max(0.0, t - self._sent_t), self._window_s) - spent)
        self._sent_t = t
        if (held != self.sent).any():
            self.sent = held
            tool, off = self._judge(held[None])
            self._tool, self._off = tool[0], float(off[0])
        self._past.append((t, self.sent))
        while len(self._past) > 1 and self._past[1][0] < t - 2.5 * self._window_s:
            self._past.popleft()
        return self.sent.copy()
