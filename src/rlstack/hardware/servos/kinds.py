"""Kinds of bus servos: registers, units and errors, by their makers' control tables, and their packets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TICKS = 4096
"""Encoder ticks per revolution of every kind here (12 bits)."""
TICK_RAD = 2.0 * math.pi / TICKS


@dataclass(frozen=True)
class Register:
    """A number in a servo's control table.

    Args:
        address: Its address.
        size: Bytes, low byte first.
        sign_bit: The bit that is the sign of a magnitude; None where there is none.
        signed: Whether it is a two's complement.
        unit: What one count means: rad, rad/s, V, degrees Celsius, or a share of the most.
    """

    address: int
    size: int = 1
    sign_bit: int | None = None
    signed: bool = False
    unit: float = 1.0

    def decode(self, data: Sequence[int]) -> int:
        """Return the count in its bytes."""
        count = int.from_bytes(bytes(data), "little", signed=self.signed)
        if self.sign_bit is None:
            return count
        size = count & ((1 << self.sign_bit) - 1)
        return -size if count >> self.sign_bit & 1 else size

    def encode(self, count: int) -> list[int]:
        """Return a count's bytes."""
        if self.sign_bit is not None and count < 0:
            count = -count | 1 << self.sign_bit
        return list(count.to_bytes(self.size, "little", signed=self.signed))


class FeetechPackets:
    """Packets of Feetech's protocol, read and written by its library."""

    def __init__(self, sdk: Any) -> None:
        self.handler = sdk.PacketHandler(0)  # the STS series sends low bytes first
        self.good, self.silence = sdk.COMM_SUCCESS, sdk.COMM_RX_TIMEOUT

    def ask(self, port: Any, register: tuple[int, int], ids: Sequence[int]) -> int:
        """Ask servos for registers, of one or of several servos at once."""
        address, size = register
        if len(ids) == 1:
            return int(self.handler.readTx(port, ids[0], address, size))
        return int(self.handler.syncReadTx(port, address, size, list(ids), len(ids)))

    def tell(self, port: Any, register: tuple[int, int], data: list[int]) -> int:
        """Write a register of several servos at once; ``data`` has each one's number and bytes. None answers."""
        return int(self.handler.syncWriteTxOnly(port, *register, data, len(data)))

    def tell_one(self, port: Any, one: int, address: int, data: bytes) -> bool:
        """Write registers of one servo; return whether it has confirmed them."""
        result, error = self.handler.writeTxRx(port, one, address, len(data), list(data))
        return bool(result == self.good and not error)

    def answer(self, port: Any) -> tuple[int, int, int, list[int]]:
        """Return the next answer: the library's result, the servo's number, its error byte and its data."""
        packet, result = self.handler.rxPacket(port)
        if result != self.good:
            return int(result), 0, 0, []
        return int(result), packet[2], packet[4], packet[5:-1]


class DynamixelPackets:
    """Packets of Dynamixel's protocol 2, read and written by its library."""

    def __init__(self, sdk: Any) -> None:
        self.handler = sdk.PacketHandler(2.0)
        self.good, self.silence = sdk.COMM_SUCCESS, sdk.COMM_RX_TIMEOUT

    def ask(self, port: Any, register: tuple[int, int], ids: Sequence[int]) -> int:
        """See :meth:`FeetechPackets.ask`."""
        address, size = register
        if len(ids) == 1:
            return int(self.handler.readTx(port, ids[0], address, size))
        return int(self.handler.syncReadTx(port, address, size, list(ids), len(ids), False))

    def tell(self, port: Any, register: tuple[int, int], data: list[int]) -> int:
        """See :meth:`FeetechPackets.tell`."""
        return int(self.handler.syncWriteTxOnly(port, *register, data, len(data)))

    def tell_one(self, port: Any, one: int, address: int, data: bytes) -> bool:
        """See :meth:`FeetechPackets.tell_one`."""
        result, error = self.handler.writeTxRx(port, one, address, len(data), list(data))
        return bool(result == self.good and not error & 0x7F)

    def answer(self, port: Any) -> tuple[int, int, int, list[int]]:
        """See :meth:`FeetechPackets.answer`."""
        packet, result = self.handler.rxPacket(port, False)
        if result != self.good:
            return int(result), 0, 0, []
        length = packet[5] | packet[6] << 8  # what is behind is left over from removing byte stuffing
        return int(result), packet[4], packet[8], packet[9 : length + 5]


@dataclass(frozen=True, kw_only=True)
class BusKind:
    """What is on a bus, and whose packets it speaks."""

    name: str
    library: str
    """The maker's library."""
    extra: str
    """The extra of rlstack that installs it."""
    packets: type[FeetechPackets] | type[DynamixelPackets]
    baud: int
    """As it comes."""
    models: Mapping[int, str]
    """Names of the models that the registers hold for, by model number."""
    settings: tuple[int, int]
    """Address and size of the block with ``model`` and everything else that is checked before anything moves. No other
    question has an answer of this size, so that a late one is not taken for it."""
    model: Register
    firmware: Register
    """The firmware's version."""
    firmwares: tuple[int, int] = (0, 255)
    """The oldest and newest that the registers hold for."""


@dataclass(frozen=True, kw_only=True)
class ServoKind(BusKind):
    """One maker's servos: where their registers are, and what they report."""

    mode: Register
    position_modes: Mapping[int, str]
    """Values of ``mode`` in which the servo holds a position."""
    homing_offset: Register
    range_min: Register
    range_max: Register
    drive_mode: Register | None = None
    """Where the servo itself turns the other way; None: whoever reads it does."""
    torque: Register
    goal: Register
    speed_limit: Register
    """Largest speed on the way to a goal."""
    effort_limit: Register
    """Largest effort, as a share of the most."""
    watchdog: Register | None = None
    """Time without packets after which the servo stops by itself, s; None: it has none, and holds its last goal."""
    status: Register
    """Errors that the servo has, by bit."""
    errors: Mapping[int, str]
    """Their names by bit."""
    alert: int
    """The bits of an answer's error byte that say that there is such an error."""
    told: bool
    """Whether these bits are those of ``status``, so that it need not be asked for."""
    present: tuple[int, int]
    """Address and size of the block that holds the five below."""
    position: Register
    velocity: Register
    load: Register
    voltage: Register
    temperature: Register

    def error_names(self, bits: int) -> str:
        """Return the names of the errors in ``bits``."""
        named = [name for bit, name in self.errors.items() if bits & bit]
        return ", ".join(named) or f"an unknown error ({bits:#04x})"


_RPM = 2.0 * math.pi / 60.0

FEETECH = ServoKind(  # Feetech, memory table and communication protocol of the STS series
    name="Feetech STS",
    library="scservo_sdk",
    extra="feetech",
    packets=FeetechPackets,
    baud=1_000_000,
    models={777: "STS3215", 2825: "STS3250"},
    settings=(0, 40),
    model=Register(3, 2),
    firmware=Register(0),
    firmwares=(3, 3),
    mode=Register(33),
    position_modes={0: "position"},
    homing_offset=Register(31, 2, sign_bit=11),
    range_min=Register(9, 2),
    range_max=Register(11, 2),
    torque=Register(40),
    goal=Register(42, 2, sign_bit=15),
    speed_limit=Register(46, 2, sign_bit=15, unit=TICK_RAD),
    effort_limit=Register(48, 2, unit=1e-3),
    status=Register(65),
    errors={
        1: "voltage outside its limits",
        2: "broken angle sensor",
        4: "overheated",
        8: "overcurrent",
        16: "angle outside its limits",
        32: "overload",
    },
    alert=0x3F,
    told=True,
    present=(56, 15),
    position=Register(56, 2, sign_bit=15),
    velocity=Register(58, 2, sign_bit=15, unit=TICK_RAD),
    load=Register(60, 2, sign_bit=10, unit=1e-3),
    voltage=Register(62, 1, unit=0.1),
    temperature=Register(63),
)

DYNAMIXEL = ServoKind(  # ROBOTIS e-Manual, control table of the X series, protocol 2.0
    name="Dynamixel X",
    library="dynamixel_sdk",
    extra="dynamixel",
    packets=DynamixelPackets,
    baud=1_000_000,
    models={
        1020: "XM430-W350",
        1030: "XM430-W210",
        1060: "XL430-W250",
        1070: "XC430-W150",
        1080: "XC430-W240",
        1090: "2XL430-W250",
        1120: "XM540-W270",
        1130: "XM540-W150",
        1160: "2XC430-W250",
        1190: "XL330-M077",
        1200: "XL330-M288",
        1210: "XC330-T181",
        1220: "XC330-T288",
        1230: "XC330-M181",
        1240: "XC330-M288",
    },
    settings=(0, 56),
    model=Register(0, 2),
    firmware=Register(6),
    firmwares=(38, 255),  # older ones have no bus watchdog
    mode=Register(11),
    position_modes={3: "position", 4: "extended position", 5: "current-based position"},
    homing_offset=Register(20, 4, signed=True),
    range_min=Register(52, 4, signed=True),
    range_max=Register(48, 4, signed=True),
    drive_mode=Register(10),
    torque=Register(64),
    goal=Register(116, 4, signed=True),
    speed_limit=Register(112, 4, unit=0.229 * _RPM),
    effort_limit=Register(100, 2, unit=1.0 / 885.0),
    watchdog=Register(98, unit=0.02),
    status=Register(70),
    errors={
        1: "voltage outside its limits",
        4: "overheated",
        8: "broken encoder",
        16: "electrical shock",
        32: "overload",
    },
    alert=0x80,
    told=False,
    present=(124, 23),
    position=Register(132, 4, signed=True),
    velocity=Register(128, 4, signed=True, unit=0.229 * _RPM),
    load=Register(124, 2, signed=True, unit=1.0 / 885.0),
    voltage=Register(144, 2, unit=0.1),
    temperature=Register(146),
)

KINDS = {"feetech": FEETECH, "dynamixel": DYNAMIXEL}
"""By the name of the driver."""
