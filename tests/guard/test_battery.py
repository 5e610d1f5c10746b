"""When a battery is low, when it ends the work, and what each kind of robot then does."""

from __future__ import annotations

import math

import pytest

from rlstack.guard import CommonMode
from rlstack.guard.battery import BatteryMonitor
from rlstack.kinds.quadrotor.guard import QuadrotorGuard, QuadrotorMode
from rlstack.kinds.quadrotor.guard_config import QuadrotorGuardConfig
from rlstack.kinds.wheeled_base.guard import WheeledBaseGuard, WheeledBaseMode
from rlstack.robots import load_robot
from tests.kinds.manipulator import guard_loop as arms
from tests.kinds.quadrotor import guard_loop as quadrotors
from tests.kinds.wheeled_base import guard_loop as bases

NAN = math.nan


def monitor(**changes: float) -> BatteryMonitor:
    return BatteryMonitor(QuadrotorGuardConfig.from_robot(load_robot("crazyflie"), **changes))  # one cell


def test_nothing_is_said_of_a_battery_that_is_full_or_not_measured() -> None:
    battery = monitor()
    assert battery.state == battery.low == battery.critical == battery.forbids_arming == ""
    for percentage, voltage in ((0.9, NAN), (NAN, 3.9), (NAN, NAN), (-1.0, 0.0), (55.0, NAN), (math.inf, math.inf)):
        battery.receive(0.0, percentage, voltage)
        assert battery.low == battery.critical == battery.forbids_arming == ""


def test_a_low_battery_is_warned_of_and_a_critical_one_forbids_arming_at_once() -> None:
    battery = monitor()
    battery.receive(0.0, 0.15, NAN)
    assert battery.low == "the battery is at 15%, below 20%: charge it soon" and not battery.forbids_arming
    battery.receive(1.0, 0.05, NAN)
    assert battery.forbids_arming == "the battery is at 5%, below the critical 10%: charge or change it, then arm"


@pytest.mark.parametrize(("low", "good"), [((0.05, NAN), (0.5, NAN)), ((NAN, 2.9), (NAN, 3.7))])
def test_only_what_stays_critical_ends_the_work(low: tuple[float, float], good: tuple[float, float]) -> None:
    battery = monitor()
    for t, state in enumerate((good, low, low, good, low, low)):
        battery.receive(float(t), *state)
        assert not battery.critical
    battery.receive(6.0, *low)
    assert "below the critical" in battery.critical
    battery.receive(7.0, *good)
    assert not battery.critical


def test_voltage_counts_only_where_the_cells_are_known_and_a_charge_counts_first() -> None:
    unknown = BatteryMonitor(QuadrotorGuardConfig.from_robot(load_robot("racer")))
    unknown.receive(0.0, NAN, 11.0)
    assert not unknown.state
    four = BatteryMonitor(QuadrotorGuardConfig.from_robot(load_robot("racer"), battery_cells=4))
    four.receive(0.0, NAN, 11.0)
    assert four.forbids_arming.startswith("the battery is at 11.00 V, 2.75 V a cell, below the critical 3.00 V a cell")
    four.receive(0.0, 0.8, 11.0)
    assert not four.low


def test_a_limit_of_zero_is_never_broken() -> None:
    battery = monitor(battery_low=0.0, battery_critical=0.0)
    for t in (0.0, 10.0):
        battery.receive(t, 0.0, NAN)
    assert battery.low == battery.critical == battery.forbids_arming == ""


def test_a_base_stops_for_good_and_is_not_armed_before_its_battery_is_charged() -> None:
    loop = bases.Rolling(WheeledBaseGuard(bases.turtlebot()))
    loop.arm()
    loop.run(1.0, lambda seen: [0.2, 0.0])
    loop.guard.on_battery(loop.time_s, 0.05, NAN)
    loop.run(2.0, lambda seen: [0.2, 0.0])
    assert loop.guard.mode is CommonMode.POLICY and "below the critical 10%" in loop.guard.warning
    loop.guard.on_battery(loop.time_s, 0.05, NAN)
    loop.run(0.1, lambda seen: [0.2, 0.0])
    assert loop.guard.mode is WheeledBaseMode.STOP and loop.guard.interventions == 1
    loop.run(1.0, lambda seen: [0.2, 0.0])
    assert loop.guard.mode is CommonMode.DISARMED and not loop.command.any()
    armed, why = loop.guard.arm(loop.time_s)
    assert not armed and "charge or change it, then arm" in why
    loop.guard.on_battery(loop.time_s, 0.9, NAN)
    loop.arm()


def test_a_quadrotor_lands_at_once() -> None:
    robot = load_robot("crazyflie")
    loop = quadrotors.Loop(QuadrotorGuard(robot), (0.0, 0.0, 1.0))
    policy = quadrotors.good_policy(robot, (0.0, 0.0, 1.0))
    loop.run(0.1, None)
    assert loop.guard.arm(loop.time_s)[0]
    for _ in range(4):
        loop.guard.on_battery(loop.time_s, NAN, 2.9)
        loop.run(0.9, policy)
    assert loop.guard.mode is QuadrotorMode.LAND and "the battery is at 2.90 V" in loop.guard.reason
    loop.run(6.0, policy)
    assert loop.guard.mode is CommonMode.DISARMED and loop.guard.reason.startswith("landed (the battery")


def test_an_arm_holds_and_parks() -> None:
    loop = arms.Following(arms.ManipulatorGuard(arms.panda()))
    loop.arm()
    for _ in range(4):
        loop.guard.on_battery(loop.time_s, 0.05, NAN)
        loop.run(1.0, lambda seen: loop.position)
    modes = list(dict.fromkeys(str(decision.mode) for decision in loop.decisions))
    assert modes == ["policy", "hold"]
    loop.run(12.0, lambda seen: loop.position)
    assert loop.guard.mode is CommonMode.DISARMED and loop.guard.reason.startswith("parked (the battery is at 5%")
