"""The steps to control and back, by a clock of the test's own."""

from __future__ import annotations

import pytest

from rlstack.hardware.mavlink.autopilots import ARDUPILOT, PX4, Autopilot
from rlstack.hardware.mavlink.engagement import (
    ACCEPTED,
    ARM_DISARM,
    FORCE,
    SET_MODE,
    TEMPORARILY_REJECTED,
    TERMINATE,
    TRIES,
    Engagement,
    Phase,
)

OFFBOARD, POSCTL, LAND = 6 << 16, 3 << 16, 4 << 16 | 6 << 24
DT = 0.01


class Bench:
    def __init__(self, autopilot: Autopilot = PX4, mode: int = OFFBOARD, terminate: bool = False) -> None:
        self.sent: list[tuple[int, tuple[float, ...]]] = []
        self.engagement = Engagement(autopilot, mode, lambda number, p, tries: self.sent.append((number, p)), terminate)
        self.now = 100.0
        self.engagement.on_heartbeat(self.now, False, POSCTL if autopilot is PX4 else 0)

    def run(self, seconds: float, write: bool = True) -> Phase:
        for _ in range(round(seconds / DT)):
            self.now += DT
            if write:
                self.engagement.write(self.now)
            self.engagement.tick(self.now)
        return self.engagement.phase

    def beat(self, armed: bool, mode: int) -> None:
        self.engagement.on_heartbeat(self.now, armed, mode)

    def flying(self) -> Bench:
        self.run(1.3)
        self.engagement.on_ack(self.now, SET_MODE, ACCEPTED)
        self.engagement.on_ack(self.now, ARM_DISARM, ACCEPTED)
        assert self.run(1.0) is Phase.FLY
        self.beat(True, OFFBOARD)
        self.sent.clear()
        return self


def test_set_points_first_then_the_mode_then_arming() -> None:
    bench = Bench()
    assert bench.run(1.0) is Phase.STREAM and not bench.sent
    assert bench.run(0.2) is Phase.MODE and bench.sent == [(SET_MODE, (1.0, 6.0, 0.0))]
    bench.engagement.on_ack(bench.now, SET_MODE, ACCEPTED)
    assert bench.engagement.phase is Phase.ARM and bench.sent[-1] == (ARM_DISARM, (1.0, 0.0))
    bench.engagement.on_ack(bench.now, ARM_DISARM, ACCEPTED)
    assert bench.engagement.phase is Phase.FLY


def test_a_pause_begins_the_stream_anew() -> None:
    bench = Bench()
    bench.run(0.9)
    bench.run(0.6, write=False)
    assert bench.run(0.9) is Phase.STREAM
    assert bench.run(0.3) is Phase.MODE


def test_ardupilot_needs_no_stream() -> None:
    bench = Bench(ARDUPILOT, 20)
    assert bench.run(0.02) is Phase.MODE and bench.sent == [(SET_MODE, (1.0, 20.0, 0.0))]


def test_a_heartbeat_does_for_an_answer_that_was_lost() -> None:
    bench = Bench()
    bench.run(1.3)
    bench.beat(False, OFFBOARD)
    assert bench.engagement.phase is Phase.ARM
    bench.beat(True, OFFBOARD)
    assert bench.engagement.phase is Phase.FLY


def test_a_rejected_mode_is_asked_for_again_and_a_refused_arming_is_told_with_its_reason() -> None:
    bench = Bench()
    bench.run(1.3)
    bench.engagement.on_ack(bench.now, SET_MODE, TEMPORARILY_REJECTED)
    assert bench.run(0.5) is Phase.MODE and len(bench.sent) > 1
    bench.engagement.on_ack(bench.now, SET_MODE, ACCEPTED)
    bench.engagement.on_ack(bench.now, ARM_DISARM, TEMPORARILY_REJECTED)
    bench.engagement.on_text(bench.now, "Preflight Fail: ")
    bench.engagement.on_text(bench.now, "no position", continues=True)
    with pytest.raises(ValueError, match=r"arming is refused \(temporarily rejected\): Preflight Fail: no position"):
        bench.run(0.5)
    with pytest.raises(ValueError, match="no position"):
        bench.run(5.0)
    bench.engagement.stop(bench.now)
    assert bench.run(0.1) is Phase.STREAM  # tried anew, after "off"
    assert all(p != (0.0, FORCE) for _, p in bench.sent)


def test_silence_is_told_after_some_tries() -> None:
    bench = Bench()
    with pytest.raises(ValueError, match="does not answer to OFFBOARD"):
        bench.run(6.0)
    assert [number for number, _ in bench.sent] == [SET_MODE] * TRIES


def test_it_does_not_take_over_what_somebody_else_has_armed() -> None:
    bench = Bench()
    bench.beat(True, POSCTL)
    with pytest.raises(ValueError, match="armed already, in POSCTL"):
        bench.run(0.1)
    bench.engagement.stop(bench.now)
    bench.run(1.0, write=False)
    assert not bench.sent


def test_a_pilot_who_takes_over_is_not_disarmed_and_nothing_is_sent_any_more() -> None:
    bench = Bench().flying()
    bench.engagement.on_text(bench.now, "Pilot took over")
    bench.beat(True, POSCTL)
    assert bench.run(0.1) is Phase.RELEASED and "the pilot flies, in POSCTL: Pilot took over" in bench.engagement.reason
    bench.engagement.stop(bench.now)
    assert bench.run(1.0) is Phase.RELEASED and not bench.sent
    bench.beat(True, OFFBOARD)
    assert bench.run(0.1) is Phase.RELEASED  # nor does control come back by itself
    bench.beat(False, POSCTL)
    with pytest.raises(ValueError, match=r"the pilot flies.*disarmed since"):
        bench.run(0.1)


def test_a_failsafe_lands_undisturbed_and_can_still_be_stopped() -> None:
    bench = Bench().flying()
    bench.beat(True, LAND)
    assert bench.run(0.5) is Phase.RELEASED and not bench.sent
    bench.engagement.stop(bench.now)
    assert bench.sent == [(ARM_DISARM, (0.0, FORCE))]


def test_a_heartbeat_from_just_before_arming_is_not_a_disarming() -> None:
    bench = Bench()
    bench.run(1.3)
    bench.engagement.on_ack(bench.now, SET_MODE, ACCEPTED)
    bench.engagement.on_ack(bench.now, ARM_DISARM, ACCEPTED)
    bench.beat(False, POSCTL)
    assert bench.run(0.1) is Phase.FLY
    bench.run(0.5)
    bench.beat(False, OFFBOARD)
    with pytest.raises(ValueError, match="it has disarmed"):
        bench.run(0.1)


def test_disarming_is_forced_at_once_and_repeated_until_it_is_confirmed() -> None:
    bench = Bench().flying()
    bench.engagement.stop(bench.now)
    assert bench.sent == [(ARM_DISARM, (0.0, FORCE))]
    bench.beat(False, OFFBOARD)  # it may be from before the arming arrived
    bench.run(0.4, write=False)
    assert bench.engagement.phase is Phase.STOP and len(bench.sent) > 6 and set(bench.sent) == {bench.sent[0]}
    with pytest.raises(ValueError, match="being disarmed"):
        bench.run(0.01)
    bench.beat(False, OFFBOARD)
    assert bench.engagement.phase is Phase.OFF


def test_an_unconfirmed_disarming_terminates_the_flight_if_that_is_allowed_and_ends() -> None:
    for allowed in (False, True):
        bench = Bench(terminate=allowed).flying()
        bench.engagement.stop(bench.now)
        assert bench.run(2.5, write=False) is Phase.OFF
        assert ((TERMINATE, (1.0,)) in bench.sent) == allowed


def test_an_emergency_stop_that_goes_on_counts_once_a_lost_link_is_back() -> None:
    bench = Bench().flying()
    bench.engagement.stop(bench.now)
    assert bench.run(2.5, write=False) is Phase.OFF, "nothing was heard"
    bench.sent.clear()
    bench.beat(True, LAND)  # its failsafe has it
    bench.engagement.stop(bench.now)
    assert bench.engagement.phase is Phase.STOP and bench.sent == [(ARM_DISARM, (0.0, FORCE))]
    bench.run(0.5, write=False)
    bench.beat(False, LAND)
    assert bench.engagement.phase is Phase.OFF
    bench.sent.clear()
    bench.beat(True, LAND)  # armed by another
    bench.engagement.stop(bench.now)
    assert not bench.sent


def test_after_a_disarming_that_was_not_confirmed_the_pilots_switch_counts() -> None:
    bench = Bench().flying()
    bench.engagement.stop(bench.now)
    bench.run(2.5, write=False)
    bench.sent.clear()
    bench.beat(True, POSCTL)
    bench.engagement.stop(bench.now)
    assert bench.engagement.phase is Phase.OFF and not bench.sent


def test_commands_that_end_before_it_is_armed_leave_it_disarmed() -> None:
    bench = Bench()
    bench.run(1.3)
    assert bench.run(0.6, write=False) is Phase.OFF
    bench.run(1.3)
    bench.engagement.on_ack(bench.now, SET_MODE, ACCEPTED)
    bench.run(0.6, write=False)
    assert bench.engagement.phase is Phase.STOP and bench.sent[-1] == (ARM_DISARM, (0.0, FORCE))


def test_without_commands_it_is_disarmed_on_the_ground_alone() -> None:
    bench = Bench().flying()
    bench.engagement.let_go(bench.now)
    assert bench.sent == [(ARM_DISARM, (0.0, 0.0))], "not by force"
    bench.engagement.on_ack(bench.now, ARM_DISARM, 2)  # denied: it is in the air
    bench.beat(True, OFFBOARD)
    assert bench.run(0.9, write=False) is Phase.LET_GO and len(bench.sent) == 1
    assert bench.run(0.01) is Phase.FLY, "a guard that is back goes on"
    bench.engagement.let_go(bench.now)
    bench.run(0.6, write=False)
    bench.beat(True, LAND)
    assert bench.engagement.phase is Phase.RELEASED and "its failsafe flies" in bench.engagement.reason
    assert (ARM_DISARM, (0.0, FORCE)) not in bench.sent


def test_on_the_ground_it_is_disarmed_and_an_emergency_stop_disarms_by_force() -> None:
    bench = Bench().flying()
    bench.engagement.let_go(bench.now)
    assert bench.run(0.7, write=False) is Phase.LET_GO and len(bench.sent) == 3, "repeated until it is confirmed"
    bench.beat(False, OFFBOARD)
    assert bench.engagement.phase is Phase.OFF
    bench = Bench().flying()
    bench.engagement.let_go(bench.now)
    bench.engagement.stop(bench.now)
    assert bench.engagement.phase is Phase.STOP and bench.sent[-1] == (ARM_DISARM, (0.0, FORCE))
