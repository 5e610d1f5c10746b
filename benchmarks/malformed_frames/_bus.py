"""A servo bus whose port hands over prepared bytes: everything above the port is the driver's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlstack.hardware.servos.bus import ServoBus, _port_class
from rlstack.hardware.servos.kinds import BusKind
from rlstack.libraries import import_library


class Wire:
    """In the place of pyserial's port: what is read comes from ``data``, and at its end the time is over."""

    def __init__(self) -> None:
        self.data = b""
        self.ended: Callable[[], None] = lambda: None

    def read(self, size: int) -> bytes:
        part, self.data = self.data[:size], self.data[size:]
        if not part:
            self.ended()
        return part

    def write(self, data: Any) -> int:
        return len(data)

    def reset_input_buffer(self) -> None: ...


def bus_with(kind: BusKind, servos: list[int]) -> tuple[ServoBus[Any], Wire]:
    sdk = import_library(kind.library, kind.extra)
    wire = Wire()
    port = _port_class(sdk)("wire", 0.05)
    port.ser, port.is_open = wire, True
    wire.ended = lambda: port.shorten(-1.0)
    bus: ServoBus[Any] = ServoBus(kind, "wire", kind.baud, {one: f"joint{one}" for one in servos})
    bus._port, bus._packets = port, kind.packets(sdk)
    return bus, wire


def parser_of(kind: BusKind, block: tuple[int, int], servos: list[int]) -> Callable[[bytes], bool]:
    bus, wire = bus_with(kind, servos)

    def parse(data: bytes) -> bool:
        wire.data = data
        return bool(bus.read(block, servos))

    return parse
