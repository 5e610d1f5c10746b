"""A battery that differs from its file is found from its voltage, current and charge; what is not told is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlstack.identification.motion_model import Estimate
from rlstack.identification.recorded import Recorded, Track
from rlstack.identification.sensors import sensor_edits
from rlstack.kinds.quadrotor.identification_battery import battery_estimates
from rlstack.kinds.quadrotor.identification_parameters import quadrotor_parameters
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.sim.physics.battery import Batteries

TRUE = {"internal_resistance_ohm": 0.08, "hover_power_w": 6.7, "capacity_ah": 0.2, "full_speed_voltage_v": 3.9}
FILE = load_quadrotor("crazyflie")
ESTIMATES = {one.name: Estimate(one, one.value, None, "kept") for one in quadrotor_parameters(FILE)}


def flight(seconds: float, *, throttle: bool, gauge: bool = True) -> Recorded:
    """Return what the battery says while the rotors speed up and slow down, with a fuel gauge's noise."""
    assert FILE.battery is not None
    changes: dict[str, Any] = TRUE
    batteries, rng = Batteries([replace(FILE, battery=replace(FILE.battery, **changes))]), np.random.default_rng(0)
    period, hover, top = 0.01, FILE.hover_speed_rad_s, FILE.rotor_model.speed_max_rad_s
    rows, sent, turned = [], [], []
    for k in range(round(seconds / period)):
        at = k * period
        wanted = np.full(4, hover * (1.0 + 0.15 * np.sin(1.3 * at)))
        if throttle and at % 5.0 > 4.0:
            wanted[:] = top
        speed = np.minimum(wanted, batteries.top_speed[0])
        batteries.advance(period, speed[:, None])
        sent.append(wanted)
        turned.append(speed)
        if k % 10 == 0:
            charge = round(float(batteries.charge[0]), 2) if gauge else np.nan
            noisy = [batteries.voltage[0] + 0.005 * rng.normal(), -batteries.current[0] + 0.01 * rng.normal(), charge]
            rows.append([at + period, *noisy])
    told: Any = np.array(rows)
    names = ("battery_voltage", "battery_current", "battery_percentage")
    battery = Track("battery", told[:, 0], {name: told[:, k + 1 : k + 2] for k, name in enumerate(names)})
    at_s: Any = period * (1.0 + np.arange(len(sent)))
    tracks = {
        "battery": battery,
        "cmd/rotors": Track("cmd/rotors", at_s - period, {"rotor_speed": np.array(sent)}),
        "joint_states": Track("joint_states", at_s, {"measured_rotor_speed": np.array(turned)}),
    }
    return Recorded(Path("flight"), tracks)


def test_a_flight_until_the_battery_sags_tells_all_of_it() -> None:
    found = battery_estimates(FILE, [flight(100.0, throttle=True)], ESTIMATES)
    for one in found:
        name = one.parameter.name
        assert one.verdict == "told", one.why
        value = TRUE[str(one.parameter.place[-1])]
        assert one.value == pytest.approx(value, rel=0.05), name
        assert one.interval is not None and one.interval[0] < value < one.interval[1], name
    data = {"battery": {key: 0.0 for key in TRUE}, "sensors": {}}
    edits = sensor_edits(FILE, data, {one.parameter.name: one for one in found}, lambda name: f"evidence of {name}")
    assert {edit.place for edit in edits} == {("battery", key) for key in TRUE}


def test_what_a_short_flight_does_not_tell_of_the_battery_is_named() -> None:
    found = {one.parameter.name: one for one in battery_estimates(FILE, [flight(30.0, throttle=False)], ESTIMATES)}
    assert found["capacity"].value == pytest.approx(TRUE["capacity_ah"], rel=0.02)
    assert found["hover_power"].value == pytest.approx(TRUE["hover_power_w"], rel=0.02)
    assert found["full_speed_voltage"].verdict == "kept" and "full throttle" in found["full_speed_voltage"].why
    blind = battery_estimates(FILE, [flight(60.0, throttle=False, gauge=False)], ESTIMATES)
    assert next(one for one in blind if one.parameter.name == "capacity").verdict == "kept"


def test_without_a_battery_nothing_is_told() -> None:
    recorded = flight(10.0, throttle=False)
    bare = replace(recorded, tracks={name: one for name, one in recorded.tracks.items() if name != "battery"})
    found = battery_estimates(FILE, [bare], ESTIMATES)
    assert found and all(one.verdict == "kept" and "record the topic battery" in one.why for one in found)
    assert battery_estimates(replace(FILE, battery=None), [recorded], ESTIMATES) == []
