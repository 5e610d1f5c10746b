"""The last targets of an arm's joints, and what may follow them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from rlstack.arrays import Array
from rlstack.kinds.manipulator.guard_collision import CollisionModel
from rlstack.kinds.manipulator.guard_config import ManipulatorGuardConfig
from rlstack.kinds.manipulator.spec import Manipulator

_SHARES = np.array([1.0, 0.75, 0.5, 0.25])
"""Of a step that leads out of the workspace, or links too near to each other: the largest that does not is made."""

_ROUNDING = 1e-4
"""Share by which float32 in a policy may be beyond a limit that it keeps itself."""

_SAME = 1e-9
"""Rad or m: rounding in what is compared."""


@dataclass(frozen=True)
class _Place:
    """Where N postures put tools and links."""

    tool: Array  # (N, tools, 3) m, in base_link
    outside: Array  # (N,) m that a tool is out of the workspace; below 0: within
    near: Array  # (N,) m by which links are nearer to each other than they may be; below 0: they are not

    def one(self, k: int) -> _Place:
        """Return that of one posture."""
        return _Place(self.tool[k : k + 1], self.outside[k : k + 1], self.near[k : k + 1])

    def moved(self, before: _Place) -> Array:
        """Return (N,) m that the tool that went furthest is from where it was."""
        return np.asarray(np.linalg.norm(self.tool - before.tool, axis=-1).max(axis=1))


class CommandLimiter:
    """Brings every target within the joints' ranges, speeds and efforts, the workspace, and apart from the arm itself.

    Args:
        robot: Which arm.
        config: The limits.
        body: Where its tool and links are.
    """

    def __init__(self, robot: Manipulator, config: ManipulatorGuardConfig, body: CollisionModel) -> None:
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
        self._sent_t, self._budget_s, self._tool_budget_s = 0.0, self._window_s, self._window_s
        self._path: deque[tuple[float, Array]] = deque([(0.0, self.sent)])
        """Where targets turned, with straight lines between; see :meth:`_publish`."""
        self._place = _Place(np.zeros((1, len(body.chains), 3)), np.zeros(1), np.zeros(1))

    def strain(self, position: Array) -> Array:
        """Return the shares of their efforts with which drives would pull joints (joints,) back into their ranges."""
        out = np.abs(position - np.clip(position, self._lower, self._upper))
        return np.asarray(out * self._stiffness / self._strongest)

    def start(self, t: float, position: Array) -> None:
        """Begin where the joints (joints,) are."""
        self.sent = np.clip(position, self._lower, self._upper)
        self._sent_t, self._budget_s, self._tool_budget_s = t, self._window_s, self._window_s
        self._path.clear()
        self._path.append((t - 2.0 * self._window_s, self.sent))
        self._place = self._judge(self.sent[None])

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
            # one wrong reading of a joint, or a push, must not make targets jump
            held, _ = self._slowed(np.clip(pulled, self._lower, self._upper), t)
        held, place, stopped = self._apart(held, t)
        reasons += stopped
        return self._publish(t, held, place), ", ".join(reasons)

    def hold(self, t: float) -> Array:
        """Return the last targets again."""
        return self._publish(t, self.sent, self._place)

    def towards_rest(self, t: float) -> tuple[Array, bool]:
        """Return the next targets on the slow way to the rest position, the gripper as it is, and whether it is over.

        It is over, too, where the way leads out of the workspace or into the arm itself.
        """
        goal = self.sent.copy()
        goal[self._arm] = self._rest[self._arm]
        dt = min(max(0.0, t - self._sent_t), self._window_s)
        left = goal - self.sent
        share = np.abs(left) / (self._fastest * self._config.parking_speed * max(dt, 1e-6))
        held, place, stopped = self._apart(self.sent + left / max(1.0, float(share.max())), t)
        over = bool({"workspace", "self-collision"} & set(stopped)) or not left.any()
        return self._publish(t, held, place), over

    def _slowed(self, held: Array, t: float) -> tuple[Array, list[str]]:
        """Return targets that are no faster than the joints, and have not sped up faster than allowed."""
        step = held - self.sent
        along = np.sign(step)
        before, earlier = self._was(t - self._window_s), self._was(t - 2.0 * self._window_s)
        most = {"joint speed": self._grown(self._budget_s, t) * self._fastest}
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
        later = self._path[-1]
        for knot in reversed(self._path):
            if knot[0] <= t:
                share = (t - knot[0]) / (later[0] - knot[0]) if later[0] > knot[0] else 0.0
                return knot[1] + share * (later[1] - knot[1])
            later = knot
        return later[1]

    def _grown(self, budget_s: float, t: float) -> float:
        """Return what a budget, of the last time that something was published, is by now."""
        return min(budget_s + max(0.0, t - self._sent_t), self._window_s)

    def _within_effort(self, held: Array, position: Array, velocity: Array) -> Array:
        """Return targets at which drives ask for no more than their effort."""
        back = self._damping * velocity
        return np.clip(
            held,
            position + (back - self._strongest) / self._stiffness,
            position + (back + self._strongest) / self._stiffness,
        )

    def _apart(self, held: Array, t: float) -> tuple[Array, _Place, list[str]]:
        """Return targets on the way to some, and their place, at which the tool is in the workspace and no faster, and
        links are apart; and why not all of the way.

        Where that was not so before, what makes it no worse may pass.
        """
        step = held - self.sent
        if not step.any():
            return held, self._place, []
        tried, reasons = self._judge(self.sent + _SHARES[:, None] * step), []
        room = self._config.tool_velocity_m_s * self._grown(self._tool_budget_s, t)
        far = tried.moved(self._place)
        if far[0] > room * (1.0 + _ROUNDING):
            reasons.append("tool speed")
            for _ in range(2):  # the tool goes round a bend: the first share is a little too much
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
        """Return where joints (N, joints) put tools and links."""
        tool, gap = self._body.place(joints)
        outside = np.maximum(self._low - tool, tool - self._high).max(axis=(1, 2))
        near = self._config.apart_m - gap if self._config.self_collision else np.full(len(gap), -np.inf)
        return _Place(tool, outside, near)

    def _publish(self, t: float, held: Array, place: _Place) -> Array:
        if not np.isfinite(held).all():  # no input is known to lead here; the last word must hold all the same
            held, place = self.sent.copy(), self._place
        self._budget_s, self._tool_budget_s = self._grown(self._budget_s, t), self._grown(self._tool_budget_s, t)
        self._sent_t = t
        if (held != self.sent).any():
            far = float(place.moved(self._place)[0])
            self._budget_s = max(0.0, self._budget_s - float((np.abs(held - self.sent) / self._fastest).max()))
            self._tool_budget_s = max(0.0, self._tool_budget_s - far / self._config.tool_velocity_m_s)
            # a policy slower than the guard moves in steps: one counts as made since the step before, within a window
            if self._path[-1][0] < t - self._window_s:
                self._path.append((t - self._window_s, self.sent))
            self._path.append((t, held))
            self.sent, self._place = held, place
        while len(self._path) > 1 and self._path[1][0] < t - 2.5 * self._window_s:
            self._path.popleft()
        return self.sent.copy()
