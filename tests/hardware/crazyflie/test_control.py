"""The steps to control and back, by a clock of the test's own."""

from __future__ import annotations

import pytest

from rlstack.hardware.crazyflie.control import (
    ARMED,
    ARMS_ITSELF,
    CAN_BE_ARMED,
    CAN_FLY,
    FLYING,
    LOCKED,
    TUMBLED,
    Control,
    Phase,
)

READY = ARMED | ARMS_ITSELF | CAN_FLY
DT = 0.01


class Bench:
    def __init__(self, bits: int = READY) -> None:
        self.sent: list[str] = []
        self.control = Control(
            *(lambda name=name: self.sent.append(name) for name in ("arm", "stop", "emergency", "land"))
        )
        self.now = 100.0
        self.control.on_status(self.now, bits, 0.0)

    def run(self, seconds: float, write: bool = True) -> Phase:
        for _ in range(round(seconds / DT)):
            self.now += DT
            if write:
                self.control.write(self.now)
            self.control.tick(self.now)
        return self.control.phase

    def status(self, bits: int, thrust: float = 0.0) -> None:
        self.control.on_status(self.now, bits, thrust)


def test_some_set_points_without_thrust_unlock_it() -> None:
    bench = Bench()
    assert bench.run(0.03) is Phase.UNLOCK
    assert bench.run(0.01) is Phase.FLY and not bench.sent


def test_one_that_must_be_armed_is_armed() -> None:
    bench = Bench(CAN_BE_ARMED)
    assert bench.run(0.5) is Phase.UNLOCK
    assert set(bench.sent) == {"arm"} and 2 <= len(bench.sent) <= 4
    bench.status(ARMED | CAN_FLY)
    assert bench.run(0.02) is Phase.FLY


def test_without_commands_it_lands_where_it_flies_and_stops_where_it_stands() -> None:
    bench = Bench()
    bench.run(0.1)
    bench.control.let_go(bench.now)
    assert bench.sent == ["stop"]
    bench = Bench()
    bench.run(0.1)
    bench.status(READY | FLYING, 30000.0)
    bench.control.let_go(bench.now)
    assert bench.run(0.5, write=False) is Phase.LAND and bench.sent == ["land"] * 3, "repeated, as packets are lost"
    assert bench.run(0.01) is Phase.FLY, "a guard that is back goes on"
    bench.control.let_go(bench.now)
    bench.run(0.2, write=False)
    bench.status(READY, 0.0)
    assert bench.control.phase is Phase.OFF
    bench.run(0.1)
    bench.status(READY | FLYING, 30000.0)
    bench.control.let_go(bench.now)
    bench.control.stop(bench.now)
    assert bench.control.phase is Phase.STOP, "an emergency stop counts"


def test_what_keeps_it_from_flying_is_told() -> None:
    for bits, said in ((LOCKED, "locked: restart it"), (TUMBLED | READY, "on its side"), (ARMS_ITSELF, "arms itself")):
        bench = Bench(bits)
        with pytest.raises(ValueError, match=said):
            bench.run(3.0)
    bench.status(READY)
    with pytest.raises(ValueError):  # until the guard has said "off"
        bench.run(0.1)
    bench.control.stop(bench.now)
    assert bench.run(0.1) is Phase.FLY


def test_one_that_tumbles_in_flight_gets_no_more_set_points() -> None:
    bench = Bench()
    bench.run(0.1)
    bench.status(READY | FLYING | TUMBLED | LOCKED)
    with pytest.raises(ValueError, match="locked"):
        bench.run(0.01)


def test_a_stop_is_repeated_until_the_log_shows_that_its_motors_stand() -> None:
    bench = Bench()
    bench.run(0.1)
    bench.control.stop(bench.now)
    assert bench.sent == ["stop"]
    bench.status(READY)  # measured before
    assert bench.run(0.2, write=False) is Phase.STOP and len(bench.sent) > 4
    with pytest.raises(ValueError, match="being stopped"):
        bench.control.write(bench.now)
    bench.status(READY, thrust=30000.0)
    assert bench.run(0.1, write=False) is Phase.STOP
    bench.status(READY)
    assert bench.control.phase is Phase.OFF and set(bench.sent) == {"stop"}


def test_the_emergency_stop_follows_one_that_is_not_confirmed() -> None:
    bench = Bench()
    bench.run(0.1)
    bench.control.stop(bench.now)
    bench.run(0.45, write=False)
    assert "emergency" not in bench.sent
    assert bench.run(0.7, write=False) is Phase.OFF
    assert "emergency" in bench.sent
    bench.sent.clear()
    bench.control.stop(bench.now)
    assert bench.control.phase is Phase.STOP and bench.sent == ["stop"], "one that is repeated, as the link is back"
    bench.run(0.2, write=False)
    bench.status(READY, 0.0)
    bench.sent.clear()
    bench.control.stop(bench.now)
    assert bench.control.phase is Phase.OFF and not bench.sent


def test_without_control_nothing_is_stopped() -> None:
    bench = Bench()
    bench.control.stop(bench.now)
    assert bench.run(0.1, write=False) is Phase.OFF and not bench.sent
