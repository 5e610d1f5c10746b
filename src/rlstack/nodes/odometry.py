"""The odometry node: where a quadrotor is, from its IMU and a motion capture, or optical flow and a rangefinder."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from rlstack.arrays import Array
from rlstack.interfaces import topics
from rlstack.interfaces.messages import NANOSECONDS, OdometryMessage
from rlstack.interfaces.signal_reader import SignalReader
from rlstack.interfaces.timing import Pace
from rlstack.nodes.frames import FRAME_PARAMETERS, frames_of
from rlstack.nodes.parameters import Parameter
from rlstack.nodes.runtime import ManagedNode
from rlstack.perception.odometry_filter import FLOW, POSE, OdometryFilter
from rlstack.perception.odometry_state import FilterSettings, State, turned_covariance
from rlstack.robots.frames import rotate_inverse

_DEFAULT = FilterSettings()
_NOISE = (
    ("acceleration_m_s2", "Noise of the accelerometer, m/s^2, with vibration."),
    ("angular_velocity_rad_s", "Noise of the gyroscope, rad/s."),
    ("position_m", "Noise of a pose's position, m."),
    ("orientation_rad", "Noise of a pose's orientation, rad."),
    ("flow_m_s", "Noise of the velocity by optical flow, m/s."),
    ("range_m", "Noise of the distance to the floor, m."),
)
PARAMETERS = (
    Parameter(
        "source",
        POSE,
        "Where the position comes from: pose (external_pose), or flow (flow and range, from level on the floor).",
        choices=(POSE, FLOW),
    ),
    Parameter("rate_hz", 100.0, "Rate of odometry, at most that of the IMU, Hz.", minimum=1.0, maximum=1000.0),
    Parameter("imu_hz", _DEFAULT.imu_hz, "Rate at which the IMU's noise is stated, Hz.", minimum=1.0, maximum=10000.0),
    *(
        Parameter(f"noise_{name}", getattr(_DEFAULT, name), about, minimum=1e-6, maximum=100.0)
        for name, about in _NOISE
    ),
    *FRAME_PARAMETERS,
)

_IMU_WAITING = 50
"""Samples of the IMU that may wait: at 1 kHz, while this process is held up for 50 ms."""


class OdometryNode(ManagedNode):
    """Publishes ``odom`` with its covariance at samples of ``imu``, from an error-state Kalman filter.

    Measurements may be late by up to 0.5 s; one that does not fit is left out, and where nothing else comes for 0.3 s
    the filter begins anew.
    """

    NAME: ClassVar[str] = "odometry"
    PARAMETERS: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    def configure(self) -> None:
        """Create the topics."""
        p = self.parameters
        noise = {name: p[f"noise_{name}"] for name, _ in _NOISE}
        self._flows = p["source"] == FLOW
        self._filter = OdometryFilter(FilterSettings(**noise, imu_hz=p["imu_hz"]), on_floor=self._flows)
        self._pace = Pace(p["rate_hz"])
        frames = frames_of(p)
        self._message = OdometryMessage(topics.type_of(topics.ODOM)(), frames.odom, frames.base)
        self._odometry = self.publisher(topics.type_of(topics.ODOM), topics.ODOM, "sensor_out")
        self._sent, self._refused = 0, ""
        self._hear(topics.IMU, {"gyro": "angular_velocity", "force": "linear_acceleration"}, self._on_imu, _IMU_WAITING)
        if self._flows:
            self._hear(topics.FLOW, {"velocity": "twist.twist.linear"}, self._on_flow, 5)
            self._hear(topics.RANGE, {"distance": "range"}, self._on_range, 5)
        else:
            pose = {"position": "pose.position", "orientation": "pose.orientation"}
            self._hear(topics.EXTERNAL_POSE, pose, self._on_pose, 5)

    def activate(self) -> None:
        """Begin anew."""
        self._filter.reset()

    def status(self) -> tuple[str, dict[str, Any]]:
        """Report what was measured."""
        counts = self._filter.counts
        figures = {
            "odometry": self._sent,
            "measurements": counts.measurements,
            "outliers": counts.outliers,
            "too late": counts.too_late,
            "resets": counts.resets,
            "longest delay ms": round(1000.0 * counts.longest_delay_s, 1),
        }
        where = f"{topics.FLOW} and {topics.RANGE}" if self._flows else topics.EXTERNAL_POSE
        waiting = f"waiting for {topics.IMU} and {where}" if self._filter.state is None else ""
        return self._refused or waiting, figures

    def _hear(self, topic: str, fields: dict[str, str], take: Any, depth: int) -> None:
        kind = topics.type_of(topic)
        read = SignalReader(kind, fields)

        def receive(data: bytes) -> None:
            if not self.active:
                return
            try:
                stamp_ns, values = read(data)
            except ValueError as error:
                self.refuse(topic, str(error))
                return
            if all(np.isfinite(value).all() for value in values.values()):
                take(stamp_ns / NANOSECONDS, stamp_ns, **values)

        self.subscriber(kind, topic, receive, "sensor_in", raw=True, depth=depth)

    def _on_imu(self, time_s: float, stamp_ns: int, gyro: Array, force: Array) -> None:
        if not self._filter.take_imu(time_s, gyro, force) or not self._pace.takes(stamp_ns):
            return
        state = self._filter.state
        assert state is not None
        velocity = rotate_inverse(state.orientation, state.velocity)
        rates = gyro - state.angular_velocity_bias
        message = self._message.fill(stamp_ns, state.position, state.orientation, velocity, rates)
        _fill_covariance(message, state, self.parameters["noise_angular_velocity_rad_s"])
        self._odometry.publish(message)
        self._sent += 1

    def _on_pose(self, time_s: float, stamp_ns: int, position: Array, orientation: Array) -> None:
        if np.linalg.norm(orientation) < 1e-3:
            self.refuse(topics.EXTERNAL_POSE, "its orientation has no length")
            return
        self._filter.take_pose(time_s, position, orientation)

    def _on_flow(self, time_s: float, stamp_ns: int, velocity: Array) -> None:
        self._filter.take_flow(time_s, velocity[:2])

    def _on_range(self, time_s: float, stamp_ns: int, distance: Array) -> None:
        self._filter.take_range(time_s, float(distance[0]))


def _fill_covariance(message: Any, state: State, gyroscope_rad_s: float) -> None:
    pose, twist = turned_covariance(state)
    twist[3:, 3:] += gyroscope_rad_s**2 * np.eye(3)
    message.pose.covariance, message.twist.covariance = pose.ravel(), twist.ravel()


main = OdometryNode.main

if __name__ == "__main__":
    raise SystemExit(main())
