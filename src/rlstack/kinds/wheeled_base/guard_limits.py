"""Limits of a wheeled base: tilt, speeds and plausible odometry, and the limiter of its twist commands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rlstack.guard.guard import LimitedCommand
from rlstack.guard.observation import Observation
from rlstack.kinds.wheeled_base.guard_config import WheeledBaseGuardConfig
from rlstack.kinds.wheeled_base.guard_geofence import Geofence
from rlstack.kinds.wheeled_base.guard_protective_stop import ProtectiveStop

_FACTORS = (1.0, 0.8, 0.6, 0.4, 0.2, 0.0)
"""Fractions of a blocked speed: the largest that is not blocked is used."""

_STILL_M_S = 0.01

_MOVED = "find out what moved it, such as a push or a slope, then arm it"
_JUMPED = "look for a reset, a relocalisation or a wheel that slips, then arm it"
"""What to do after a stop."""


def forward_m_s(seen: Observation) -> float:
    """Return the speed along the robot's heading, m/s; negative backwards."""
    vx, vy, _ = seen.linear_velocity
    return math.cos(seen.yaw_rad) * vx + math.sin(seen.yaw_rad) * vy


def broken_limit(seen: Observation, config: WheeledBaseGuardConfig) -> str:
    """Return which limit the state violates, with the values, or an empty string."""
    if seen.tilt_rad > config.tilt_rad:
        return f"tilt {seen.tilt_rad:.2f} rad is over {config.tilt_rad:.2f} rad: put it on level floor, then arm it"
    speed, most = math.hypot(*seen.linear_velocity[:2]), config.overspeed * config.linear_velocity_m_s
    if speed > most:
        return f"speed {speed:.2f} m/s is over {most:.2f} m/s: {_MOVED}"
    turn, most = abs(seen.angular_velocity[2]), config.overspeed * config.angular_velocity_rad_s
    if turn > most:
        return f"angular velocity {turn:.2f} rad/s is over {most:.2f} rad/s: {_MOVED}"
    return ""


def jump(before: Observation, now: Observation, config: WheeledBaseGuardConfig, grip_m_s2: float) -> str:
    """Return how far odometry jumped in what time, if its own speeds cannot explain it, or an empty string.

    Speeds that grow faster than tyres grip, with ``grip_m_s2``, are a jump, too; a collision may end any speed at once.
    """
    dt = max(0.0, now.stamp_s - before.stamp_s)  # negative if the clock was restarted
    gone = math.dist(before.position[:2], now.position[:2])
    speed = max(math.hypot(*seen.linear_velocity[:2]) for seen in (before, now))
    if gone > config.jump_factor * speed * dt + config.jump_m:
        return f"odometry jumped by {gone:.2f} m in {dt:.3f} s at {speed:.2f} m/s: {_JUMPED}"
    turned = abs(math.remainder(now.yaw_rad - before.yaw_rad, 2.0 * math.pi))
    turning = max(abs(seen.angular_velocity[2]) for seen in (before, now))
    if turned > config.jump_factor * turning * dt + config.jump_rad:
        return f"odometry jumped by {turned:.2f} rad in {dt:.3f} s at {turning:.2f} rad/s: {_JUMPED}"
    faster, most = _gained(forward_m_s(before), forward_m_s(now)), config.jump_factor * grip_m_s2 * dt + config.jump_m_s
    if faster > most:
        return f"odometry is faster by {faster:.2f} m/s after {dt:.3f} s, more than tyres can give: {_JUMPED}"
    return ""


def _gained(before: float, now: float) -> float:
    """Return by how much a speed has grown in its direction; one in the other direction begins at a standstill."""
    return abs(now) - (abs(before) if before * now > 0.0 else 0.0)


class TwistLimiter:
    """Limits commands to the base's limits of speed, acceleration and jerk, the protective stop and the geofence."""

    def __init__(self, config: WheeledBaseGuardConfig, protective_stop: ProtectiveStop, geofence: Geofence) -> None:
        self._config, self._protective_stop, self._geofence = config, protective_stop, geofence
        self._brakes = config
        self._gaining = [0.0, 0.0]  # m/s^2 and rad/s^2 with which the last command grew
        self.sent = [0.0, 0.0]
        """The last published command, m/s and rad/s."""
        self.sent_t = 0.0
        """Time of its publication, s."""

    @property
    def stopped(self) -> bool:
        """Whether the last command was a stop."""
        return self.sent == [0.0, 0.0]

    def adopt(self, config: WheeledBaseGuardConfig, seen: Observation | None) -> None:
        """Take a configuration that differs in its limits; ``seen`` is the present state.

        Other accelerations apply to speeding up at once, and to braking from the next standstill on: until then the
        base must be able to stop before what it has already come near to.
        """
        self._config = config
        brakes = replace(
            config,
            linear_acceleration_m_s2=self._brakes.linear_acceleration_m_s2,
            angular_acceleration_rad_s2=self._brakes.angular_acceleration_rad_s2,
        )
        self._geofence.move(brakes, seen)
        self._brake_by(config if self.stopped else brakes)

    def slows_within_s(self, before: WheeledBaseGuardConfig) -> float:
        """Return how long a base takes at most to slow down from former limits of speed to the present ones, s."""
        now, brakes = self._config, self._brakes
        return max(
            0.0,
            (before.linear_velocity_m_s - now.linear_velocity_m_s) / brakes.linear_acceleration_m_s2,
            (before.angular_velocity_rad_s - now.angular_velocity_rad_s) / brakes.angular_acceleration_rad_s2,
        )

    def _brake_by(self, config: WheeledBaseGuardConfig) -> None:
        self._brakes = self._protective_stop.config = self._geofence.config = config

    def start(self, t: float, seen: Observation) -> None:
        """Start at the robot's present speed."""
        self._brake_by(self._config)
        speed = forward_m_s(seen)
        rolling = abs(speed) > _STILL_M_S
        self.sent = self._within([speed, seen.angular_velocity[2]]) if rolling else [0.0, 0.0]
        self.sent_t, self._gaining = t - self._config.period_s, [0.0, 0.0]

    def pass_on(self, t: float, wanted: Sequence[float], seen: Observation) -> LimitedCommand:
        """Return a desired command (2,), m/s and rad/s, within the limits."""
        held = self._towards(t, self._within(wanted))
        held, blocked = self._free(t, held, seen)
        return LimitedCommand(np.array(self._publish(t, held)), held != list(wanted), blocked)

    def slow_down(self, t: float, seen: Observation) -> LimitedCommand | None:
        """Return the command that a new obstacle requires at once; None if there is none."""
        held, blocked = self._free(t, self.sent, seen)
        if not blocked or held == self.sent:
            return None
        return LimitedCommand(np.array(self._publish(t, held)), True, blocked)

    def brake(self, t: float) -> list[float]:
        """Return the next command of a controlled stop; it needs no odometry."""
        return self._publish(t, self._towards(t, [0.0, 0.0]))

    def _within(self, wanted: Sequence[float]) -> list[float]:
        top = (self._config.linear_velocity_m_s, self._config.angular_velocity_rad_s)
        return [min(max(w, -most), most) for w, most in zip(wanted, top)]

    def _towards(self, t: float, wanted: Sequence[float]) -> list[float]:
        # after a longer gap the base still drives at its last command, so braking must start gently from there
        dt, config = min(max(0.0, t - self.sent_t), self._config.longest_s), self._config
        rates = (config.linear_acceleration_m_s2, config.angular_acceleration_rad_s2)
        brakes = (self._brakes.linear_acceleration_m_s2, self._brakes.angular_acceleration_rad_s2)
        jerks = (config.linear_jerk_m_s3, config.angular_jerk_rad_s3)
        held = []
        for want, sent, rate, brake, jerk, gaining in zip(wanted, self.sent, rates, brakes, jerks, self._gaining):
            forward = math.copysign(1.0, sent or want)
            speed, grown = abs(sent), min(rate, gaining + jerk * dt) * dt
            slowest = speed - brake * dt  # jerk limits what grows, in the other direction, too
            held.append(forward * min(max(forward * want, max(slowest, -grown)), speed + grown))
        return held

    def _free(self, t: float, held: list[float], seen: Observation) -> tuple[list[float], str]:
        """Return the command at the highest unblocked speed, but never braked harder than the base can."""
        around = np.empty((0, 2)) if self._protective_stop.lidar is None else self._protective_stop.hits(seen)

        def obstruction(speed: float, turning: float) -> str:
            found = self._protective_stop.obstacle_on_path(around, speed, turning) if len(around) else ""
            return found or self._geofence.left_by(seen, speed, turning)

        measured, turning = forward_m_s(seen), held[1]
        # the robot may still be faster than its command, or not yet as fast
        speed = math.copysign(max(abs(held[0]), abs(measured)), held[0]) if held[0] * measured > 0.0 else held[0]
        blocked = obstruction(speed, turning)
        if not blocked:
            return held, ""
        tries = [(factor * held[0], turning) for factor in _FACTORS if held[0]]
        for trial in [*tries, (0.0, turning), (0.0, 0.0)]:
            if not obstruction(*trial):
                break
        return self._towards(t, trial), blocked

    def _publish(self, t: float, held: list[float]) -> list[float]:
        if not math.isfinite(sum(held)):  # no known input leads here, but published commands must always be finite
            held = [0.0, 0.0]
        if (dt := t - self.sent_t) > 0.0:
            self._gaining = [max(0.0, _gained(before, now)) / dt for before, now in zip(self.sent, held)]
        self.sent, self.sent_t = held, t
        if self._brakes is not self._config and self.stopped:
            self._brake_by(self._config)
        return held
