"""A Betaflight flight controller at the end of a serial port: MSP as its public sources describe it, and their rules.

It answers one command at a time, arms by a channel, loses its receiver after 150 ms without channels, drops after 1.5 s
(the default failsafe), and disarms on the fourth frame with the ARM channel off. It does not fly: it lies level.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import struct
import threading
import time
import tty
from collections.abc import Callable
from types import TracebackType

import numpy as np

from rlstack.arrays import Array
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots import load_robot
from tests.support.peers import Misfit

RXLOSS, THROTTLE, ARM_SWITCH = 1 << 2, 1 << 7, 1 << 28
_RX_LOSS_S, _DROP_S, _RECOVER_S = 0.15, 1.5, 0.1
_SERIAL_S = 0.0005
_MODES = (0, 1, 2, 27, 28)
"""Permanent numbers of the modes, in the order of the status's flags: ARM, ANGLE, HORIZON, FAILSAFE, AIR MODE."""


class BetaflightPeer:
    """See :class:`tests.support.peers.Peer`; ``answers`` may be changed to be another flight controller."""

    def __init__(self) -> None:
        self.robot: Quadrotor = load_robot("racer")  # type: ignore[assignment]
        self.answers: dict[int, bytes] = {
            1: bytes((0, 1, 47)),  # MSP_API_VERSION
            2: b"BTFL",  # MSP_FC_VARIANT
            3: bytes((4, 6, 0)),  # MSP_FC_VERSION
            4: b"S405" + bytes(4) + b"\x09STM32F405" + b"\x05RACER",  # MSP_BOARD_INFO
            34: bytes((0, 0, 32, 48, 1, 1, 32, 48, 0, 0, 0, 0)),  # MSP_MODE_RANGES: ARM on AUX1, ANGLE on AUX2, unused
            36: struct.pack("<I", 1 << 14),  # MSP_FEATURE_CONFIG: RX_MSP
            42: bytes((3, 0)),  # MSP_MIXER_CONFIG: QUADX
            44: struct.pack("<BHHHBHH", 0, 1900, 1500, 1050, 0, 885, 2115),  # MSP_RX_CONFIG
            75: struct.pack("<BBHBHB", 15, 10, 1000, 0, 100, 1),  # MSP_FAILSAFE_CONFIG: DROP after 1.5 s
            64: bytes((0, 1, 3, 2, 4, 5, 6, 7)),  # MSP_RX_MAP: AETR1234
            90: struct.pack("<BBBBHHBBBB", 1, 1, 0, 5, 480, 550, 0, 0, 0, 0),  # MSP_ADVANCED_CONFIG: idle 5.5%
            111: bytes((7, 0, 67, 67, 67, 0, 50, 0, 0, 0, 0, 7, 7, 0, 0, 100))  # MSP_RC_TUNING: ACTUAL, 70 to 670 deg/s
            + struct.pack("<3HBB", 1998, 1998, 1998, 3, 50),
            119: bytes(_MODES),  # MSP_BOXIDS
            125: bytes((0, 0, 0, 50, 0)),  # MSP_RC_DEADBAND
            130: struct.pack("<BHBHhBH", 4, 1500, 158, 20, 310, 0, 1580),  # MSP_BATTERY_STATE: 4 cells, 15.8 V, 3.1 A
            131: struct.pack("<HHHBB", 0, 2000, 1000, 4, 14),  # MSP_MOTOR_CONFIG
            102: struct.pack("<9h", 0, 0, 2048, 0, 0, 0, 0, 0, 0),  # MSP_RAW_IMU
            108: struct.pack("<3h", 0, 0, 90),  # MSP_ATTITUDE
            0x300A: bytes((13, 16, 2, 255, 255, 255)),  # MSP2_SENSOR_CONFIG_ACTIVE: ICM42688P
        }
        self.powered = False
        self.hinders = 0
        """Further flags that hinder arming."""
        self.channels: tuple[int, ...] = ()
        self.frames = 0
        """Frames of channels that arrived."""
        self.serial_s = _SERIAL_S
        """Period at which it takes a command."""
        self.uri = ""
        self._heard = True
        self._received_s, self._since_s = -1e9, 0.0
        self._off_frames = 0
        self._switched_on_hindered = False

    def __enter__(self) -> BetaflightPeer:
        self._master, self._slave = pty.openpty()
        tty.setraw(self._master)
        tty.setraw(self._slave)
        os.set_blocking(self._master, False)
        self.uri = f"serial://{os.ttyname(self._slave)}"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        os.close(self._master)
        os.close(self._slave)

    def rest(self) -> dict[str, Array]:
        """Turn at no rate, without thrust: the motors idle."""
        return {"rates_thrust": np.zeros(4)}

    def misfits(self) -> dict[str, Misfit | str]:
        def answers(command: int, data: bytes) -> Callable[[], None]:
            return lambda: self.answers.__setitem__(command, data)

        tilted = struct.pack("<9h", 0, 0, 1500, *(0,) * 6)
        return {
            "in use": Misfit(("another program uses it", self.uri.removeprefix("serial://")), self._occupy),
            "answers twice": "one flight controller is at the end of a cable",
            "firmware": Misfit(("MSP 1.44", "MSP 1.47"), answers(1, bytes((0, 1, 44)))),
            "calibration": Misfit(("reads 1500 at rest", "1 g is"), answers(102, tilted)),
            "joints": Misfit(("number 10 with 4 motors", "QUADX with 4"), answers(42, bytes((10, 0)))),
            "limits": "its rates are read, and faster ones are clipped to them",
            "mass": Misfit(("a throttle of 0.60", "it is 0."), uri=f"{self.uri}?hover_throttle=0.6"),
        }

    def _occupy(self) -> None:
        fcntl.flock(self._slave, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def pose(self) -> tuple[Array, Array]:
        """Return position and orientation, as motion capture would."""
        return np.array([0.3, -0.2, 0.04]), np.array([0.0, 0.0, 0.0, 1.0])

    def lose_link(self) -> None:
        """Hear and answer nothing."""
        self._heard = False

    def regain_link(self) -> None:
        """Hear and answer again."""
        self._heard = True

    def send_noise(self, data: bytes) -> None:
        """Send bytes on the line."""
        os.write(self._master, data)

    def _run(self) -> None:
        pending = b""
        while not self._stop.is_set():
            ready, _, _ = select.select([self._master], [], [], self.serial_s)
            if ready:
                data = os.read(self._master, 4096)
                pending = pending + data if self._heard else b""
            if (at := pending.find(b"$M<")) >= 0 and len(pending) >= at + 6 + pending[at + 3]:
                size = pending[at + 3]
                frame, pending = pending[at + 3 : at + 6 + size], pending[at + 6 + size :]
                check = 0
                for byte in frame:
                    check ^= byte
                if check == 0:
                    self._obey(frame[1], frame[2:-1])
                time.sleep(self.serial_s)
            self._keep_rules()

    def _obey(self, command: int, payload: bytes) -> None:
        if command == 255:  # of version 2, inside one of version 1
            _, inner, _ = struct.unpack_from("<BHH", payload)
            known = self.answers.get(inner)
            body = struct.pack("<BHH", 0, inner, len(known or b"")) + (known or b"")
            self._answer(command, body + bytes((_crc8(body),)), b"!" if known is None else b">")
            return
        if command == 200:  # MSP_SET_RAW_RC
            self._receive(struct.unpack(f"<{len(payload) // 2}H", payload))
            self._answer(command, b"")
        elif command == 150:  # MSP_STATUS_EX
            flags = int(self.powered) | int(len(self.channels) > 5 and self.channels[5] >= 1700) << 1
            head = struct.pack("<HHHIBHBBBBI", 125, 0, 33, flags, 0, 100, 3, 0, 0, 29, self._hindered())
            self._answer(command, head + bytes(4))
        elif command in self.answers:
            self._answer(command, self.answers[command])
        else:
            self._answer(command, b"", b"!")

    def _answer(self, command: int, payload: bytes, direction: bytes = b">") -> None:
        body = bytes((len(payload), command)) + payload
        check = 0
        for byte in body:
            check ^= byte
        with contextlib.suppress(BlockingIOError):  # nobody reads
            os.write(self._master, b"$M" + direction + body + bytes((check,)))

    def _receive(self, channels: tuple[int, ...]) -> None:
        now = time.monotonic()
        if now - self._received_s > _RX_LOSS_S:
            self._since_s = now
        self._received_s, self.channels = now, channels
        self.frames += 1
        on = 1700 <= channels[4] < 2100
        if on and not self.powered:
            self._switched_on_hindered |= bool(self._hindered())
            self.powered = not self._switched_on_hindered
        elif not on:
            self._switched_on_hindered = False
            self._off_frames = self._off_frames + 1 if self.powered else 0
            self.powered &= self._off_frames <= 3

    def _keep_rules(self) -> None:
        if self.powered and time.monotonic() - self._received_s > _DROP_S:
            self.powered = False

    def _hindered(self) -> int:
        now = time.monotonic()
        silent = now - self._received_s > _RX_LOSS_S or now - self._since_s < _RECOVER_S
        low = not self.channels or self.channels[2] < 1050
        return (
            self.hinders
            | (RXLOSS if silent else 0)
            | (0 if low or self.powered else THROTTLE)
            | (ARM_SWITCH if self._switched_on_hindered else 0)
        )


def _crc8(data: bytes) -> int:
    """CRC-8 of the polynomial D5, from 0, most significant bit first, by division of the whole number."""
    rest = int.from_bytes(data, "big") << 8
    for place in range(8 * len(data) - 1, -1, -1):
        if rest >> (place + 8) & 1:
            rest ^= 0x1D5 << place
    return rest


PEER = BetaflightPeer
