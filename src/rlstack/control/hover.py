"""The classical hover controller: flies any quadrotor to a position and holds it, tuned from its robot file alone.

Geometric tracking control (T. Lee, M. Leok, N. H. McClamroch, "Geometric tracking control of a quadrotor UAV on SE(3)",
CDC 2010): the wanted acceleration gives the wanted thrust direction, the thrust is its part along the body's up axis,
and the attitude error is taken on the rotation group. The error is split into tilt and heading (D. Brescianini,
R. D'Andrea, "Tilt-prioritized quadrocopter attitude control", TCST 2020), so that a heading error never disturbs the
recovery of the thrust direction and the tilt error keeps growing up to 180 degrees.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.control.mixer import Mixer
from rlstack.control.rotor_effectiveness import RotorEffectiveness
from rlstack.kinds.quadrotor.spec import Quadrotor, RateLoop
from rlstack.kinds.quadrotor.spec_allocation import allocation
from rlstack.robots.spec import STANDARD_GRAVITY
from rlstack.schema import value

Vector = Sequence[float] | NDArray[np.floating]

LONGEST_STEP_S = 0.1
"""Longest time step of the integral; longer gaps between calls are clipped to it."""


@dataclass(frozen=True, kw_only=True)
class HoverGains:
    """Gains as bandwidths; each loop is slower than the one inside it by a fixed ratio."""

    horizon_s: float = value(unit="s", above=0.0)
    """How soon the rotors reach a wanted speed under the motor lead."""
    tilt_per_s: float = value(unit="1/s", above=0.0)
    """Roll and pitch rate per tilt error."""
    tilt_rate_per_s: float = value(unit="1/s", above=0.0)
    """Angular acceleration per error of the roll and pitch rate."""
    tilt_rate_rad_s: float = value(unit="rad/s", above=0.0)
    """Largest wanted roll and pitch rate."""
    yaw_per_s: float = value(unit="1/s", above=0.0)
    yaw_rate_per_s: float = value(unit="1/s", above=0.0)
    yaw_rate_rad_s: float = value(unit="rad/s", above=0.0)
    """The same three for the heading."""
    velocity_per_s: float = value(unit="1/s", above=0.0)
    """Acceleration per velocity error."""
    position_per_s: float = value(unit="1/s", above=0.0)
    """Velocity per position error."""
    integral_per_s: float = value(unit="1/s", above=0.0)
    """Rate at which the integral absorbs a remaining velocity error."""
    speed_m_s: float = value(unit="m/s", above=0.0)
    """Largest wanted speed, which bounds the effect of a position error."""
    tilt_rad: float = value(unit="rad", above=0.0, at_most=1.4)
    """Largest wanted tilt."""
    integral_m_s2: float = value(unit="m/s^2", at_least=0.0)
    """Largest acceleration that the integral may request, per axis."""

    @staticmethod
    def for_robot(robot: Quadrotor, latency_s: float | None = None, speed_m_s: float = 1.0) -> HoverGains:
        """Return gains derived from the robot's motors and rate.

        Args:
            robot: The robot.
            latency_s: Time from a measurement to its command's arrival at the motors; one control period if None.
            speed_m_s: Largest speed on the way to a goal.
        """
        period = 1.0 / robot.control_rate_hz
        slowest = max(robot.rotor_model.rise_time_constant_s, robot.rotor_model.fall_time_constant_s)
        # A shorter horizon would turn sensor noise into full-range rotor commands.
        horizon = max(2.0 * period, slowest / 8.0)
        lag = horizon + 0.5 * period + (period if latency_s is None else latency_s)
        if robot.rate_loop is not None:
            return HoverGains._through(robot.rate_loop, robot, horizon, lag - horizon, speed_m_s)
        # Neither loop may be faster than the lag allows, nor demand more than the rotors give at a radian of error.
        turn, spin = authority(robot)
        rate = min(1.0 / (RATE_RATIO * lag), math.sqrt(DAMPING_RATIO * turn))
        yaw_rate = min(0.5 * rate, math.sqrt(DAMPING_RATIO * spin))
        fastest = 0.5 * robot.limits.angular_velocity_rad_s
        return HoverGains._around(
            robot,
            horizon,
            (rate, yaw_rate),
            # half the authority stops it within half a radian
            (min(fastest, math.sqrt(0.5 * turn)), min(fastest, math.sqrt(0.5 * spin))),
            speed_m_s,
        )

    @staticmethod
    def _through(loop: RateLoop, robot: Quadrotor, horizon_s: float, late_s: float, speed_m_s: float) -> HoverGains:
        """Return gains around an autopilot's rate loop, which may be half as slow again as its file says."""
        rates = 1.0 / (1.5 * loop.time_constant_s + late_s), 1.0 / (1.5 * loop.yaw_time_constant_s + late_s)
        roll, pitch, yaw = (min(most, 0.5 * robot.limits.angular_velocity_rad_s) for most in loop.rates_max_rad_s)
        return HoverGains._around(robot, horizon_s, rates, (min(roll, pitch), yaw), speed_m_s)

    @staticmethod
    def _around(
        robot: Quadrotor,
        horizon_s: float,
        loops: tuple[float, float],
        fastest: tuple[float, float],
        speed_m_s: float,
    ) -> HoverGains:
        """Return the gains around rate loops.

        Args:
            robot: The robot.
            horizon_s: As in the result.
            loops: Bandwidth of the loops of roll and pitch, and of yaw, 1/s.
            fastest: Largest wanted rates of the two, rad/s.
            speed_m_s: Largest speed on the way to a goal.
        """
        rate, yaw_rate = loops
        tilt_per_s = rate / DAMPING_RATIO
        velocity = math.sqrt(tilt_per_s * rate) / VELOCITY_RATIO
        position = velocity / POSITION_RATIO
        # Level flight must stay possible with a quarter of the thrust in hand.
        tilt = min(math.acos(min(1.0, 1.25 / robot.thrust_to_weight)), 0.7) if robot.thrust_to_weight > 1.4 else 0.3
        return HoverGains(
            horizon_s=horizon_s,
            tilt_per_s=tilt_per_s,
            tilt_rate_per_s=rate,
            tilt_rate_rad_s=fastest[0],
            yaw_per_s=yaw_rate / DAMPING_RATIO,
            yaw_rate_per_s=yaw_rate,
            yaw_rate_rad_s=fastest[1],
            velocity_per_s=velocity,
            position_per_s=position,
            integral_per_s=position / INTEGRAL_RATIO,
            speed_m_s=speed_m_s,
            tilt_rad=tilt,
            integral_m_s2=0.3 * STANDARD_GRAVITY,
        )


RATE_RATIO, DAMPING_RATIO, VELOCITY_RATIO, POSITION_RATIO, INTEGRAL_RATIO = 1.6, 2.5, 2.0, 2.4, 4.0
"""Ratio of each loop's time constant to the one inside it: rate to lag, attitude to rate (damping ratio 0.79), velocity
to attitude, position to velocity, integral to position. Tuned in closed loop with the reference quadrotor, on a 27 g
and a 1.5 kg robot: recovery from 60 degrees, and margin for two periods of delay, motors 30% slower, 20% more mass."""

EFFECTIVENESS_RATIO = 0.5
"""Bandwidth of the rotors' estimated effectiveness to that of the rate loop."""


def authority(robot: Quadrotor) -> tuple[float, float]:
    """Return the angular accelerations in rad/s^2 available at hover: the lesser of roll and pitch, and yaw."""
    model = robot.rotor_model
    low, high = (float(model.thrust(np.array(s))) for s in (model.speed_min_rad_s, model.speed_max_rad_s))
    low, high = low * float(robot.thrust_factors.max()), high * float(robot.thrust_factors.min())
    hover = robot.weight_n / len(robot.rotors)
    room = min(hover - low, high - hover)
    roll, pitch, yaw = (np.abs(allocation(robot)[1:]).sum(axis=1) * room / np.array(robot.body.inertia_kg_m2)).tolist()
    return min(roll, pitch), yaw


class Aim(NamedTuple):
    """What a hover controller wants of a body's attitude and thrust.

    Args:
        up: Thrust per mass along the body's z, m/s^2.
        tilt_x: Rotation about the body's x that turns the thrust as wanted, rad.
        tilt_y: The same about y.
        heading: Heading error, which fades with the tilt, rad.
    """

    up: float
    tilt_x: float
    tilt_y: float
    heading: float


class HoverLaw:
    """From a state and a goal to thrust, tilt and wanted rates; keeps an integral between calls.

    Args:
        robot: The robot.
        gains: Gains; derived from the robot if None.
    """

    def __init__(self, robot: Quadrotor, gains: HoverGains | None = None) -> None:
        self.robot = robot
        self.gains = gains or HoverGains.for_robot(robot)
        self._top_acceleration = robot.thrust_to_weight * STANDARD_GRAVITY
        self._integral = [0.0, 0.0, 0.0]

    def forget_integral(self) -> None:
        """Reset the integral, for example when the goal changes."""
        self._integral = [0.0, 0.0, 0.0]

    def _aim(
        self,
        position: Vector,
        orientation: Vector,
        linear_velocity_world: Vector,
        goal_position: Vector,
        goal_yaw: float,
        dt: float,
        goal_velocity: Vector,
    ) -> Aim:
        """Return thrust, tilt and heading error; arguments as for :meth:`HoverController.command`."""
        qx, qy, qz, qw = map(float, orientation)
        wanted = self._acceleration(
            position, linear_velocity_world, goal_position, goal_velocity, min(max(dt, 0.0), LONGEST_STEP_S)
        )

        # Columns of the rotation matrix are the body's axes; the wanted thrust direction in the body is R^T wanted.
        xx, xy, xz = 1.0 - 2.0 * (qy * qy + qz * qz), 2.0 * (qx * qy + qz * qw), 2.0 * (qx * qz - qy * qw)
        yx, yy, yz = 2.0 * (qx * qy - qz * qw), 1.0 - 2.0 * (qx * qx + qz * qz), 2.0 * (qy * qz + qx * qw)
        zx, zy, zz = 2.0 * (qx * qz + qy * qw), 2.0 * (qy * qz - qx * qw), 1.0 - 2.0 * (qx * qx + qy * qy)
        ax, ay, az = wanted
        forward, left, up = ax * xx + ay * xy + az * xz, ax * yx + ay * yy + az * yz, ax * zx + ay * zy + az * zz
        across = math.hypot(forward, left)
        # Rotate body z onto the wanted direction, about z x direction; upside down any axis will do.
        angle = math.atan2(across, up)
        tilt_x, tilt_y = (-left * angle / across, forward * angle / across) if across > 1e-9 else (angle, 0.0)
        # The heading of a body on its side is undefined: its error fades with the tilt.
        heading = math.remainder(goal_yaw - math.atan2(xy, xx), 2.0 * math.pi) * max(zz, 0.0)
        return Aim(up, tilt_x, tilt_y, heading)

    def _acceleration(
        self, position: Vector, velocity: Vector, goal: Vector, goal_velocity: Vector, dt: float
    ) -> tuple[float, float, float]:
        """Return the wanted thrust per mass (3,) in m/s^2, world, bounded in tilt and size."""
        gains = self.gains
        error = [float(g) - float(p) for g, p in zip(goal, position)]
        far = math.hypot(*error)
        # Up to the speed limit the wanted velocity grows with the distance.
        slow = gains.position_per_s * min(1.0, gains.speed_m_s / max(gains.position_per_s * far, 1e-9))
        short = [slow * e + float(f) - float(v) for e, f, v in zip(error, goal_velocity, velocity)]
        x, y, z = [gains.velocity_per_s * s + i for s, i in zip(short, self._integral)]
        up = min(max(STANDARD_GRAVITY + z, 0.3 * STANDARD_GRAVITY), 0.9 * self._top_acceleration)
        # Height comes first: the horizontal part gets what the tilt limit and the thrust leave.
        level = min(up * math.tan(gains.tilt_rad), math.sqrt(max(self._top_acceleration**2 - up * up, 0.0)))
        size = math.hypot(x, y)
        share = min(1.0, level / max(size, 1e-9))
        free = (share == 1.0, share == 1.0, up == STANDARD_GRAVITY + z)
        # Integrate the velocity error: it grows under a disturbance, but not on the way to a far goal.
        rate = gains.integral_per_s * gains.velocity_per_s * dt
        most = gains.integral_m_s2
        self._integral = [
            min(max(i + rate * s, -most), most) if f else i for i, s, f in zip(self._integral, short, free)
        ]
        return x * share, y * share, up

    def _rates(self, aim: Aim) -> tuple[float, float, float]:
        """Return the wanted rates about the body's axes, rad/s."""
        gains = self.gains
        slow = min(gains.tilt_per_s, gains.tilt_rate_rad_s / max(math.hypot(aim.tilt_x, aim.tilt_y), 1e-9))
        turn = min(max(gains.yaw_per_s * aim.heading, -gains.yaw_rate_rad_s), gains.yaw_rate_rad_s)
        return slow * aim.tilt_x, slow * aim.tilt_y, turn


class HoverController(HoverLaw):
    """Flies to a goal and holds it by rotor speeds; keeps an integral, a motor model and what each rotor gives.

    Args:
        robot: The robot.
        gains: Gains; derived from the robot if None.
    """

    def __init__(self, robot: Quadrotor, gains: HoverGains | None = None) -> None:
        super().__init__(robot, gains)
        self.mixer = Mixer(robot, self.gains.horizon_s)
        self._mass = robot.body.mass_kg
        self._inertia = robot.body.inertia_kg_m2
        self.effectiveness = RotorEffectiveness(robot, EFFECTIVENESS_RATIO * self.gains.tilt_rate_per_s)
        """What each rotor gives, as far as :meth:`observe` is told rates, while another controller flies, too."""
        self._time_s = 0.0

    def reset(self, rotor_speed: float | None = None) -> None:
        """Reset the state; assume that all rotors turn at ``rotor_speed`` rad/s (the hover speed if None)."""
        self.forget_integral()
        self.effectiveness.reset()
        model = self.robot.rotor_model
        speed = self.robot.hover_speed_rad_s if rotor_speed is None else rotor_speed
        self.mixer.reset(1, min(max(speed, model.speed_min_rad_s), model.speed_max_rad_s))

    def sent(self, rotor_speed: Sequence[float]) -> None:
        """Set the speeds actually sent to the rotors, (rotors,) rad/s, where they differ from :meth:`command`'s."""
        self.mixer.sent = np.array(rotor_speed, dtype=float)[None]

    def follow(self, dt: float) -> None:
        """Advance the motor model by ``dt`` s under the last command, while another controller flies."""
        self.mixer.follow(max(dt, 0.0))
        self._time_s += max(dt, 0.0)
        self.effectiveness.drove(self._time_s, self.mixer.speed[0])

    def observe(self, angular_velocity: Vector, age_s: float = 0.0) -> None:
        """Estimate the rotors' effectiveness from rates (3,), rad/s, body, that were measured ``age_s`` s ago."""
        usual_s = 1.0 / self.robot.control_rate_hz
        self.effectiveness.observe(self._time_s - age_s, angular_velocity, max(0.0, age_s - usual_s))

    def command(
        self,
        position: Vector,
        orientation: Vector,
        linear_velocity_world: Vector,
        angular_velocity: Vector,
        goal_position: Vector,
        goal_yaw: float,
        dt: float,
        goal_velocity: Vector = (0.0, 0.0, 0.0),
        motors_dt: float | None = None,
    ) -> Array:
        """Return rotor speeds (rotors,) in rad/s, finite and within the rotors' limits for any finite input.

        Args:
            position: (3,) m, world.
            orientation: (4,) xyzw, body to world, unit.
            linear_velocity_world: (3,) m/s, world.
            angular_velocity: (3,) rad/s, body.
            goal_position: (3,) m, world.
            goal_yaw: rad.
            dt: Time since the previous call, s.
            goal_velocity: (3,) m/s, world, of a moving goal.
            motors_dt: Time since the motor model was last advanced, s; None: ``dt``.
        """
        self.follow(dt if motors_dt is None else motors_dt)
        aim = self._aim(position, orientation, linear_velocity_world, goal_position, goal_yaw, dt, goal_velocity)
        p, q, r = map(float, angular_velocity)
        torque = self._torque(self._rates(aim), (p, q, r))
        self.mixer.factors = self.robot.thrust_factors * self.effectiveness.shares
        return np.asarray(self.mixer.command(np.array([[self._mass * max(aim.up, 0.0), *torque]]))[0])

    def _torque(
        self, wanted: tuple[float, float, float], rates: tuple[float, float, float]
    ) -> tuple[float, float, float]:
        gains, (jx, jy, jz), (p, q, r), (roll, pitch, turn) = self.gains, self._inertia, rates, wanted
        return (
            jx * gains.tilt_rate_per_s * (roll - p) + (jz - jy) * q * r,
            jy * gains.tilt_rate_per_s * (pitch - q) + (jx - jz) * p * r,
            jz * gains.yaw_rate_per_s * (turn - r) + (jy - jx) * p * q,
        )


LEAD_M = 0.3
"""Largest distance of the goal below the robot; also the least at which a standstill counts as the floor."""
STILL_M_S = 0.1
"""Speed below which the robot counts as standing still."""
STILL_S = 0.5
"""Standstill time before the motors stop."""


class Descent:
    """A descent that detects touchdown without a known floor height.

    The goal keeps moving down; a robot that stops following it and stands still has landed.

    Args:
        start: (3,) m, world, the robot's position; it lands below.
        speed_m_s: Descent speed of the goal.
    """

    def __init__(self, start: Sequence[float], speed_m_s: float) -> None:
        self.goal: list[float] = [float(x) for x in start]
        self._speed = speed_m_s
        self._still_s = 0.0

    def step(self, position: Sequence[float], linear_velocity: Sequence[float], dt: float) -> bool:
        """Advance the goal by ``dt`` s and return whether the robot has landed.

        Args:
            position: (3,) m, world.
            linear_velocity: (3,) m/s, any frame.
            dt: s.
        """
        height = float(position[2])
        self.goal[2] = max(self.goal[2] - self._speed * dt, height - LEAD_M)
        blocked = height - self.goal[2] >= 0.9 * LEAD_M
        still = math.hypot(*(float(v) for v in linear_velocity)) < STILL_M_S
        self._still_s = self._still_s + dt if blocked and still else 0.0
        return self._still_s >= STILL_S
