"""Betaflight flight controllers, by MSP: body rates and thrust as the sticks of a receiver; see docs/hardware.md.

A flight controller knows its rates, not its place: the pose comes from outside, :meth:`BetaflightBackend.locate`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.hardware.betaflight.arming import reasons
from rlstack.hardware.betaflight.flight_controller import FlightController, channel_frame
from rlstack.hardware.betaflight.pose_filter import PoseFilter
from rlstack.hardware.betaflight.settings import ARM, MSP_OVERRIDE, NOT_RATES, Settings, read_settings
from rlstack.hardware.betaflight.sticks import LOW_US, RateStick, Throttle
from rlstack.hardware.betaflight.transport import EXAMPLES, Transport
from rlstack.hardware.uri import parse_uri
from rlstack.interfaces.backend import Capture, Reading, Signals, nobody_listens
from rlstack.robots import RobotSpec
from rlstack.robots.frames import rotate_inverse
from rlstack.robots.spec import STANDARD_GRAVITY

OPTIONS = {"baud": 115200, "hover_throttle": 0.0, "board": "", "pilot": False, "any_version": False, "gyroscope": 0.0}

HOVER_RATIO = 1.6
"""How far hovering by the URI and by the robot file may be apart."""
_CONNECT_S = 1.0
_ARM_S = 3.0
"""How long arming may take."""
_DISARM_S = 0.3
_DISARMED_S = 0.1
"""Time in which the firmware has read the channels: it takes four frames, 80 ms."""
_REST_S = 0.3
"""For how long the accelerometer is compared with gravity."""
_G_UNITS = (256.0, 512.0, 1024.0, 2048.0, 4096.0)
"""What accelerometers of flight controllers read at 1 g."""
_REST_ERROR = 0.12
_TILT_ERROR_RAD = 0.2
_LIFTS = 0.5
"""Share of hovering below which no thrust lifts it, although the hover throttle may be wrong by :data:`HOVER_RATIO`."""
_FRESH_S = 0.3
_AHEAD_S = 0.1
_APART_S = 0.05
"""How much older than the pose the rates may be."""

_Phase = Literal["off", "arming", "flying", "released"]


class BetaflightBackend:
    """See :class:`rlstack.interfaces.backend.Backend`, and :class:`rlstack.interfaces.backend.Located`.

    Args:
        robot: A quadrotor.
        uri: Where it is: ``serial:///dev/ttyACM0?baud=115200``, or ``tcp://HOST:PORT`` for a simulated one. Options:
            ``hover_throttle`` (0 to 1), ``board``, ``pilot``, ``any_version`` and ``gyroscope`` (range, degrees/s).

    Raises:
        UserError: The robot is no quadrotor, or the URI is not allowed.
    """

    owns_time = False
    sensed: ClassVar[tuple[str, ...]] = (
        "position",
        "orientation",
        "linear_velocity",
        "angular_velocity",
        "linear_acceleration",
        "battery_voltage",
        "battery_current",
    )
    commanded: ClassVar[tuple[str, ...]] = ("rates_thrust",)
    captured: ClassVar[tuple[str, ...]] = ()

    def __init__(self, robot: RobotSpec, *, uri: str = "") -> None:
        if not robot.has_rotors:
            raise UserError(f"Betaflight flies quadrotors, and {robot.name} is a {robot.kind}.")
        self.robot: Any = robot
        self._uri = parse_uri(uri, "betaflight", EXAMPLES, OPTIONS)
        hover = self._uri.options["hover_throttle"]
        if not 0.0 <= hover < 1.0:
            raise UserError(f"The URI '{uri}' has hover_throttle={hover}, which is not allowed: give 0 to 1.")
        if (wide := self._uri.options["gyroscope"]) and not 100.0 <= wide <= 10000.0:
            raise UserError(
                f"The URI '{uri}' has gyroscope={wide:g}, which is not allowed: give 100 to 10000 degrees/s."
            )
        self._pilot = bool(self._uri.options["pilot"])
        self._controller: FlightController | None = None
        self._poses = PoseFilter()
        self._last: Reading | None = None
        self._phase: _Phase = "off"
        self._since_s = 0.0
        self._lifted = False
        """Whether a thrust that may lift it has been sent since it was armed."""
        self.on_reading: Callable[[], None] = nobody_listens
        """See :class:`rlstack.interfaces.backend.Announcing`."""
        self.ignored_poses = 0
        """Poses that were not finite, no rotation, or out of order."""

    def connect(self) -> None:
        """Open the link, read the settings, and begin to measure; the flight controller must be at rest."""
        if self._controller is not None:
            return
        controller = FlightController(Transport(self._uri))
        try:
            options = self._uri.options
            settings = read_settings(
                controller.ask,
                board=options["board"],
                pilot=self._pilot,
                any_version=options["any_version"],
                gyroscope_deg_s=options["gyroscope"],
            )
            controller.check_rate()
            self._adopt(settings)
            controller.start(self._disarmed, settings.gyroscope_rad_s)
            self._g_units = _gravity(controller)
        except BaseException:
            controller.close()
            raise
        self._controller = controller

    def locate(self, time_s: float, position: ArrayLike, orientation: ArrayLike) -> None:
        """Take the robot's pose; see :class:`rlstack.interfaces.backend.Located`."""
        place, turn = np.array(position, dtype=float), np.array(orientation, dtype=float)
        good = np.isfinite(place).all() and abs(float(np.linalg.norm(turn)) - 1.0) < 1e-2
        if not good or not self._poses.time_s < time_s < time.time() + _AHEAD_S:
            self.ignored_poses += 1
            return
        acceleration = None
        if self._controller is not None and (imu := self._controller.imu) is not None:
            acceleration = imu.acceleration * (STANDARD_GRAVITY / self._g_units)
        self._poses.take(time_s, place, turn / np.linalg.norm(turn), acceleration)
        self.on_reading()

    def read(self) -> Reading:
        """Return the newest pose with the rates measured about then; empty before the first pose.

        Where the rates are much older than the pose, it is the last one for which they were not.
        """
        controller, poses = self._connected(), self._poses
        imu, battery = controller.imu, controller.battery
        if imu is None or not math.isfinite(poses.time_s):
            return Reading(0.0, {})
        if poses.time_s - imu.time_s > _APART_S and self._last is not None:
            return self._last
        known = battery is not None and battery.cells > 0
        voltage, current = (battery.voltage_v, -battery.current_a) if battery and known else (math.nan, math.nan)
        signals = {
            "position": poses.position.copy(),
            "orientation": poses.orientation.copy(),
            "linear_velocity": rotate_inverse(poses.orientation, poses.velocity),
            "angular_velocity": imu.angular_velocity.copy(),
            "linear_acceleration": imu.acceleration * (STANDARD_GRAVITY / self._g_units),
            "battery_voltage": np.array([voltage]),
            "battery_current": np.array([current]),
        }
        self._last = Reading(poses.time_s, signals)  # its position is the pose's, so its time is, too
        return self._last

    def capture(self, name: str) -> Capture:
        """Raise ``UserError``: a flight controller has no cameras."""
        raise UserError(f"Betaflight gives no images or scans, so there is no '{name}'.")

    def write(self, command: Signals) -> Signals:
        """Send ``rates_thrust`` (4,), and arm first where it is not armed; return what the sticks say.

        Until the flight controller is armed, the throttle is low, and the returned command is zero.

        Raises:
            ValueError: The command is not one finite array of that shape, or the flight controller does not arm or has
                disarmed; the text says why.
        """
        wanted = _checked(command)
        controller = self._connected()
        if not self._ready(controller):
            controller.send(self._arming)
            return {"rates_thrust": np.zeros(4)}
        settings, sent, channels = self._settings, np.empty(4), dict(self._settings.armed_aux)
        for axis, stick in enumerate(self._sticks):
            offset, sent[axis] = stick.offset(wanted[axis])
            channels[settings.places[axis]] = settings.middle_us + offset
        channels[settings.places[3]], sent[3] = self._throttle.pulse(wanted[3])
        self._lifted = self._lifted or bool(sent[3] > _LIFTS * STANDARD_GRAVITY)
        controller.send(channel_frame(channels, settings.channels))
        return {"rates_thrust": sent}

    def step(self, duration_s: float) -> None:
        """Do nothing: time is the system's clock."""

    def reset(self, state: Signals | None = None) -> None:
        """Do nothing: a real robot is carried back."""

    def disarm(self) -> None:
        """Lower the throttle and the ARM channel at once, and keep them low."""
        self._phase = "off"
        if self._controller is not None:
            self._controller.keep_alive(self._disarmed)
            self._controller.send(self._disarmed)

    def let_go(self) -> str:
        """Send no channels any more where the flight controller's failsafe lands it; disarm where that would drop it.

        A pilot's transmitter would have the firmware repeat the last channels, so then the throttle is lowered, too. A
        failsafe that lands runs the motors for a while also on the ground, so one that has not taken off is disarmed.
        """
        if self._phase == "flying" and self._lifted and not self._pilot and self._settings.lands_by:
            return f"left to the flight controller's failsafe {self._settings.lands_by}"
        self.disarm()
        return "disarmed"

    def close(self) -> None:
        """Let it go (:meth:`let_go`) and end the link; a second call does nothing."""
        if self._controller is None:
            return
        self.let_go()
        end, since_s = time.monotonic() + _DISARM_S, time.time()
        while not self._pilot and self._phase == "off" and time.monotonic() < end and not self._controller.error:
            status = self._controller.status  # one of before may not yet show that it has armed
            if status is not None and status.time_s > since_s + _DISARMED_S and not self._is_on(ARM):
                break
            time.sleep(0.01)
        self._controller.close()
        self._controller = None

    # -----------------------------------------------------------------------------------------------------------

    def _adopt(self, settings: Settings) -> None:
        self._settings = settings
        self._sticks = [RateStick(rates, sign) for rates, sign in zip(settings.rates, (1, 1, -1))]
        self._throttle = Throttle(
            self.robot, settings.idle, settings.throttle_low_us, self._uri.options["hover_throttle"]
        )
        by_file = Throttle(self.robot, settings.idle, settings.throttle_low_us).hover
        if not by_file / HOVER_RATIO < self._throttle.hover < by_file * HOVER_RATIO:
            raise UserError(
                f"The URI says that {self.robot.name} hovers at a throttle of {self._throttle.hover:.2f}, and by mass"
                f" and motors of the robot file it is {by_file:.2f}: correct the one that is wrong."
            )
        if not 0.0 < self._throttle.hover < 1.0:
            raise UserError(
                f"By the robot file {self.robot.name} would hover at a throttle of {self._throttle.hover:.2f}, idling"
                f" at {settings.idle:.3f}: measure it, and give it as hover_throttle in the URI."
            )
        low = {settings.places[3]: LOW_US}
        count, middle = settings.channels, settings.middle_us
        self._disarmed = channel_frame({**low, **settings.disarmed_aux}, count, middle)
        self._arming = channel_frame({**low, **settings.armed_aux}, count, middle)

    def _connected(self) -> FlightController:
        if self._controller is None:
            raise RuntimeError("connect() comes first.")
        return self._controller

    def _is_on(self, mode: int) -> bool:
        """Return whether a mode is active, by the last status."""
        status = self._controller.status if self._controller is not None else None
        if status is None or mode not in self._settings.modes:
            return False
        return bool(status.flags >> self._settings.modes.index(mode) & 1)

    def _ready(self, controller: FlightController) -> bool:
        """Return whether commands count now; arm where that is the driver's.

        Raises:
            ValueError: It is not armed, and will not be by itself.
        """
        if self._pilot:
            if not self._is_on(ARM):
                raise ValueError("the pilot's ARM switch is off")
            if not self._is_on(MSP_OVERRIDE):
                raise ValueError("the pilot flies: the switch of MSP OVERRIDE is off")
            controller.keep_alive(None)
        elif self._phase == "off":
            self._check_before_arming(controller)
            controller.keep_alive(None)
            self._phase, self._since_s, self._lifted = "arming", time.time(), False
        elif self._phase == "released":
            raise ValueError(
                f"the flight controller has disarmed itself: {self._why(controller)}; disarm and arm again"
            )
        status = controller.status
        armed = self._is_on(ARM) and status is not None and (self._pilot or status.time_s > self._since_s)
        if armed:
            if on := [name for mode, name in NOT_RATES.items() if self._is_on(mode)]:
                self.disarm()
                raise ValueError(f"the mode {on[0]} is on, in which sticks are not body rates: disarmed")
            self._phase = "flying"
        elif self._phase == "flying":
            self._release(controller, "released")
            raise ValueError(f"the flight controller has disarmed itself: {self._why(controller)}")
        elif time.time() - self._since_s > _ARM_S:
            why = self._why(controller)
            self._release(controller, "off")
            raise ValueError(f"the flight controller has not armed within {_ARM_S:g} s: {why}")
        return armed

    def _release(self, controller: FlightController, phase: _Phase) -> None:
        self._phase = phase
        controller.keep_alive(self._disarmed)

    @staticmethod
    def _why(controller: FlightController) -> str:
        status = controller.status
        return reasons(status.arming) if status is not None and reasons(status.arming) else "it does not say why"

    def _check_before_arming(self, controller: FlightController) -> None:
        status = controller.status
        if status is None or time.time() - status.time_s > _FRESH_S:
            raise ValueError(f"the flight controller does not answer{': ' * bool(controller.error)}{controller.error}")
        if why := reasons(status.arming):
            raise ValueError(f"the flight controller does not arm: {why}")
        if controller.attitude is None or not time.time() - self._poses.time_s < _FRESH_S:
            return
        up = rotate_inverse(self._poses.orientation, np.array([0.0, 0.0, 1.0]))
        error = math.acos(max(-1.0, min(1.0, float(up @ _up(*controller.attitude)))))
        if error > _TILT_ERROR_RAD:
            raise ValueError(
                f"the pose from outside and the flight controller's attitude differ in tilt by {error:.2f} rad: are the"
                " tracked body's axes x forward, y left, z up, and is the board mounted as align_board says"
            )


def _up(roll: float, pitch: float) -> Array:
    """Return the world's up axis (3,) in FLU of a flight controller's attitude."""
    across = math.cos(pitch)
    return np.array([-math.sin(pitch), across * math.sin(roll), across * math.cos(roll)])


def _gravity(controller: FlightController) -> float:
    """Return what the accelerometer reads at 1 g, which a flight controller at rest shows.

    Raises:
        UserError: No measurements come, or they are not of one at rest.
    """
    end = time.monotonic() + _CONNECT_S
    readings: dict[float, float] = {}
    while time.monotonic() < end:
        imu = controller.imu
        if imu is not None and controller.status is not None:
            readings[imu.time_s] = float(np.linalg.norm(imu.acceleration))
            if imu.time_s - min(readings) > _REST_S:
                break
        time.sleep(0.002)
    else:
        raise UserError(f"The flight controller sends no measurements within {_CONNECT_S:g} s: power it off and on.")
    measured = float(np.median(list(readings.values())))
    nearest = min(_G_UNITS, key=lambda units: abs(measured / units - 1.0))
    if abs(measured / nearest - 1.0) > _REST_ERROR:
        raise UserError(
            f"The accelerometer reads {measured:.0f} at rest, and 1 g is {nearest:.0f}: put the robot down"
            " level and still, or calibrate its accelerometer in Betaflight Configurator."
        )
    return nearest


def _checked(command: Signals) -> Array:
    if set(command) != {"rates_thrust"}:
        raise ValueError(f"the command holds {sorted(command)}: must hold 'rates_thrust' alone.")
    wanted = np.array(command["rates_thrust"], dtype=float)
    if wanted.shape != (4,):
        raise ValueError(f"rates_thrust: the shape {wanted.shape} is not allowed: must be (4,).")
    if not np.isfinite(wanted).all():
        raise ValueError(f"rates_thrust: {wanted.tolist()} is not allowed: must be finite.")
    return wanted


BACKEND = BetaflightBackend
