"""The estimate of a flying robot's motion with its uncertainty, and how motion and measurements change both."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from rlstack.arrays import Array
from rlstack.robots.spec import STANDARD_GRAVITY

P, V, TURN, ACC, GYRO = (slice(3 * k, 3 * k + 3) for k in range(5))
"""Parts of the error: position, m, and velocity, m/s, in the world; turn, rad, and both biases in the body frame."""
SIZE = 15
DOWN = np.array([0.0, 0.0, -STANDARD_GRAVITY])
"""(3,) m/s^2, gravity."""


@dataclass(frozen=True)
class FilterSettings:
    """Noise of the sensors, one standard deviation, and what counts as wrong.

    The IMU's are per sample at ``imu_hz``; vibration makes them larger than a datasheet's.

    Args:
        acceleration_m_s2: Noise of the accelerometer.
        angular_velocity_rad_s: Noise of the gyroscope.
        acceleration_bias_m_s2_sqrt_s: Walk of the accelerometer's bias, in a second.
        angular_velocity_bias_rad_s_sqrt_s: Walk of the gyroscope's.
        position_m: Noise of a pose's position.
        orientation_rad: Noise of its orientation, about each axis.
        flow_m_s: Noise of the velocity by optical flow.
        range_m: Noise of the distance to the floor.
        imu_hz: Rate at which the IMU's noise is stated.
        gate: Square of the distance from what is expected, in standard deviations, from which a measurement is an
            outlier; 25: of three normal values 1 in 65,000.
        patience_s: After this time of outliers alone, the measurement is right and the filter wrong: it begins anew.
    """

    acceleration_m_s2: float = 0.2
    angular_velocity_rad_s: float = 0.01
    acceleration_bias_m_s2_sqrt_s: float = 0.02
    angular_velocity_bias_rad_s_sqrt_s: float = 0.001
    position_m: float = 0.002
    orientation_rad: float = 0.01
    flow_m_s: float = 0.05
    range_m: float = 0.01
    imu_hz: float = 500.0
    gate: float = 25.0
    patience_s: float = 0.3


@dataclass(frozen=True, eq=False)
class State:
    """An estimate.

    Args:
        position: (3,) m, world.
        velocity: (3,) m/s, world.
        orientation: (4,) xyzw, body in world.
        acceleration_bias: (3,) m/s^2.
        angular_velocity_bias: (3,) rad/s.
        covariance: (15, 15) of the error: position, velocity, turn about the body's axes, both biases.
    """

    position: Array
    velocity: Array
    orientation: Array
    acceleration_bias: Array
    angular_velocity_bias: Array
    covariance: Array

    def moved(self, step_s: float, angular_velocity: Array, acceleration: Array, settings: FilterSettings) -> State:
        """Return the state after a time.

        Args:
            step_s: The time.
            angular_velocity: (3,) rad/s as the gyroscope measures it, held over the time.
            acceleration: (3,) m/s^2 as the accelerometer measures it, gravity included.
            settings: Noise.
        """
        wx, wy, wz = (angular_velocity - self.angular_velocity_bias).tolist()
        fx, fy, fz = (acceleration - self.acceleration_bias).tolist()
        turn = to_matrix_quickly(self.orientation)
        gained = turn @ (fx, fy, fz) + DOWN
        step = _ITSELF.copy()
        step[0, 3] = step[1, 4] = step[2, 5] = step_s
        step[V, TURN] = turn @ np.array(
            [[0.0, step_s * fz, -step_s * fy], [-step_s * fz, 0.0, step_s * fx], [step_s * fy, -step_s * fx, 0.0]]
        )
        step[V, ACC] = -step_s * turn
        x, y, z = step_s * wx, step_s * wy, step_s * wz  # of the turn, to the second order: it is below 0.1 rad
        step[TURN, TURN] = (
            (1.0 - 0.5 * (y * y + z * z), z + 0.5 * x * y, -y + 0.5 * x * z),
            (-z + 0.5 * x * y, 1.0 - 0.5 * (x * x + z * z), x + 0.5 * y * z),
            (y + 0.5 * x * z, -x + 0.5 * y * z, 1.0 - 0.5 * (x * x + y * y)),
        )
        step[6, 12] = step[7, 13] = step[8, 14] = -step_s
        covariance = step @ self.covariance @ step.T
        covariance.ravel()[:: SIZE + 1] += _process_noise(step_s, settings)
        return State(
            self.position + step_s * self.velocity + 0.5 * step_s**2 * gained,
            self.velocity + step_s * gained,
            _turned(self.orientation, x, y, z),
            self.acceleration_bias,
            self.angular_velocity_bias,
            covariance,
        )

    def corrected(self, residual: Array, jacobian: Array, noise: Array, gate: float) -> State | None:
        """Return the state after a measurement; None: it is an outlier.

        Args:
            residual: (n,) measured minus expected.
            jacobian: (n, 15) of the expected by the error.
            noise: (n,) variances of the measurement.
            gate: See :class:`FilterSettings`.
        """
        spread = self.covariance @ jacobian.T
        innovation = jacobian @ spread + np.diag(noise)
        weighed = np.linalg.solve(innovation, residual)
        if residual @ weighed > gate:
            return None
        gain = np.linalg.solve(innovation, spread.T).T
        error = gain @ residual
        rest = np.eye(SIZE) - gain @ jacobian  # Joseph's form stays positive
        covariance = rest @ self.covariance @ rest.T + (gain * noise) @ gain.T
        return State(
            self.position + error[P],
            self.velocity + error[V],
            _turned(self.orientation, *error[TURN].tolist()),
            self.acceleration_bias + error[ACC],
            self.angular_velocity_bias + error[GYRO],
            0.5 * (covariance + covariance.T),
        )


_ITSELF = np.eye(SIZE)


@lru_cache(maxsize=256)
def _process_noise(step_s: float, s: FilterSettings) -> Array:
    """Return the variances that a time adds, (15,)."""
    white = step_s / s.imu_hz  # a sample's noise holds for its period
    parts = [
        0.0,
        s.acceleration_m_s2**2 * white,
        s.angular_velocity_rad_s**2 * white,
        s.acceleration_bias_m_s2_sqrt_s**2 * step_s,
        s.angular_velocity_bias_rad_s_sqrt_s**2 * step_s,
    ]
    return np.repeat(parts, 3)


def to_matrix_quickly(quaternion: Array) -> Array:
    """Return the rotation matrix (3, 3) of one unit quaternion xyzw: the general one takes five times as long."""
    x, y, z, w = quaternion.tolist()
    return np.array(
        (
            (1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)),
            (2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)),
            (2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)),
        )
    )


def _turned(quaternion: Array, x: float, y: float, z: float) -> Array:
    """Return a quaternion xyzw after a small turn about the body's axes, rad."""
    angle = math.sqrt(x * x + y * y + z * z)
    half = 0.5 - angle * angle / 48.0 if angle < 1e-3 else math.sin(0.5 * angle) / angle
    a, b, c, d = half * x, half * y, half * z, math.cos(0.5 * angle)
    i, j, k, r = quaternion.tolist()
    found = np.array(
        (
            r * a + i * d + j * c - k * b,
            r * b - i * c + j * d + k * a,
            r * c + i * b - j * a + k * d,
            r * d - i * a - j * b - k * c,
        )
    )
    return found / math.sqrt(found @ found)


def cross(v: Array) -> Array:
    """Return the matrix of the cross product with a vector (3,)."""
    x, y, z = v.tolist()
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


def turned_covariance(state: State) -> tuple[Array, Array]:
    """Return the covariances (6, 6) of an odometry message.

    Of the pose: position, and turn about the world's axes; of the twist in the body frame: velocity, and the bias of
    the gyroscope.
    """
    turn = to_matrix_quickly(state.orientation)
    pose, twist = np.zeros((6, SIZE)), np.zeros((6, SIZE))
    pose[:3, P], pose[3:, TURN] = np.eye(3), turn
    twist[:3, V], twist[:3, TURN], twist[3:, GYRO] = turn.T, cross(turn.T @ state.velocity), np.eye(3)
    return pose @ state.covariance @ pose.T, twist @ state.covariance @ twist.T
