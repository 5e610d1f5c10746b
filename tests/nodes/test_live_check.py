from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.interfaces.messages import NANOSECONDS
from rlstack.nodes.live_check import ArrivalClock, LiveCheck, noise_of
from rlstack.policies import contract_for, envelope_for
from rlstack.policies.proven import Proven
from rlstack.robots import frames, load_robot

ROBOT = load_robot("crazyflie")
INPUTS = ("position", "orientation", "linear_velocity", "angular_velocity")
NOW = 1_700_000_000 * NANOSECONDS
VERIFIED = Proven(margins={"observation_delay_s": 0.02, "control_rate_hz": 50.0, "noise_scale": 3.0})


def heard(
    proven: Proven = VERIFIED,
    *,
    rate_hz: float = 100.0,
    age_s: float = 0.001,
    sigma_m: float = 0.0005,
    offset_ns: int = 0,
) -> list[str]:
    """What two seconds of odometry are found to be."""
    contract = contract_for(ROBOT, INPUTS, ["rotor_speed"], name="p", task="t")
    noise = {"position": 0.001, "orientation": 0.001, "linear_velocity": 0.002, "angular_velocity": 0.002}
    contract = replace(contract, envelope=envelope_for(ROBOT, contract.inputs, 100.0, noise=noise))
    check, rng = LiveCheck(contract, proven, ROBOT), np.random.default_rng(0)
    for k in range(int(2.0 * rate_hz) + 1):
        stamp = NOW + round(k * NANOSECONDS / rate_hz)
        values = {name: np.zeros(3) for name in INPUTS}
        values["position"] = rng.normal(0.0, sigma_m, 3)
        values["orientation"] = np.array([0.0, 0.0, 0.0, 1.0])
        check.add("odom", stamp, stamp + offset_ns + round(age_s * NANOSECONDS), values)
    assert check.measured_for_s(NOW + offset_ns + 3 * NANOSECONDS) > 2.0
    return check.findings()


def test_a_robot_inside_the_envelope_has_no_findings() -> None:
    assert heard() == [] and heard(age_s=0.02) == [] and heard(rate_hz=50.0) == []


def test_what_is_outside_is_named_with_the_measured_and_the_proven_figure() -> None:
    (late,) = heard(age_s=0.045)
    assert late == "odom: messages are 45 ms old on arrival, proven up to 25 ms (verified)"
    (slow,) = heard(rate_hz=33.0)
    assert slow == "odom: comes at 33 Hz, proven down to 50 Hz (verified)"
    (noisy,) = heard(sigma_m=0.008)
    assert noisy.startswith("position: its noise is 0.00") and noisy.endswith("proven up to 0.003 m (verified)")


def test_without_a_record_training_counts_and_without_either_the_nominal_value() -> None:
    trained = Proven(trained={"observation_delay_s": (0.0, 0.03)})
    assert heard(trained, age_s=0.034) == []
    assert "proven up to 35 ms (trained)" in heard(trained, age_s=0.04)[0]
    assert "proven up to 5 ms (nominal)" in heard(Proven(), age_s=0.01)[0]
    assert "proven down to 80 Hz (nominal)" in heard(Proven(), rate_hz=60.0)[0]


def test_a_topic_s_own_delay_counts_before_that_of_all() -> None:
    both = Proven(margins={"observation_delay_s": 0.02}, trained={"odometry_delay_s": (0.0, 0.1)})
    assert "proven up to 25 ms (verified)" in heard(both, age_s=0.05)[0]  # what was measured counts before training
    assert heard(Proven(margins={"observation_delay_s": 0.02, "odometry_delay_s": 0.06}), age_s=0.05) == []


@pytest.mark.parametrize(
    ("offset_s", "said"),
    [
        (-0.3, "its stamps are 299 ms ahead of this machine's clock, so its delay is not known: synchronise"),
        (3600.0, "its stamps are 3600.0 s behind this machine's clock"),
        (-3600.0, "its stamps are 3600.0 s ahead of this machine's clock"),
    ],
)
def test_clocks_that_disagree_are_said_as_such(offset_s: float, said: str) -> None:
    (found,) = heard(offset_ns=round(offset_s * NANOSECONDS))
    assert re.search(said, found), found


def test_a_topic_that_stops_is_told_and_measuring_starts_again() -> None:
    contract = contract_for(ROBOT, INPUTS, ["rotor_speed"], name="p", task="t")
    check = LiveCheck(contract, VERIFIED, ROBOT)
    check.add("odom", NOW, NOW, {})
    assert check.findings() == ["odom: 1 messages came within 2 s"]
    check.restart()
    assert check.measured_for_s(NOW + NANOSECONDS) == 0.0
    with pytest.raises(ValueError, match="nothing was measured"):
        check.findings()


@settings(max_examples=40, deadline=None)
@given(sigma=st.floats(1e-4, 0.1), speed=st.floats(-2.0, 2.0), seed=st.integers(0, 1000))
def test_noise_is_found_on_a_drifting_signal(sigma: float, speed: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    steady = np.arange(400)[:, None] * np.array([speed, -speed, 0.0]) * 0.01
    found = noise_of(list(steady + rng.normal(0.0, sigma, (400, 3))))
    assert 0.8 * sigma < found < 1.35 * sigma  # the largest of three


@settings(max_examples=40, deadline=None)
@given(sigma=st.floats(1e-4, 0.05), seed=st.integers(0, 1000))
def test_noise_of_turns_is_in_rad_about_each_axis(sigma: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    around = frames.normalise(rng.normal(size=4))
    half = rng.normal(0.0, 0.5 * sigma, (400, 3))
    small = frames.normalise(np.concatenate([half, np.ones((400, 1))], axis=1))
    turns = frames.multiply(np.tile(around, (400, 1)), small) * rng.choice([-1.0, 1.0], (400, 1))  # q and -q are one
    assert noise_of(list(turns), is_turn=True) == pytest.approx(sigma, rel=0.15)


def test_stamps_of_simulated_time_arrive_on_its_clock_and_others_on_this_machine_s() -> None:
    clock, ms = ArrivalClock(), NANOSECONDS // 1000
    assert not clock.applies_to(5 * ms, 0, NOW) and clock.arrived_ns(5 * ms, 0, NOW) == NOW, "there is no /clock yet"
    for k in range(200):
        clock.observe(k * 10 * ms, k * 20 * ms, NOW + k * 20 * ms)  # at half of real time
    now = 199 * 20 * ms, NOW + 199 * 20 * ms
    assert clock.applies_to(1950 * ms, *now) and not clock.applies_to(1960 * ms, *now)
    assert clock.arrived_ns(1940 * ms, *now) == 1990 * ms
    assert clock.arrived_ns(1995 * ms, *now) == 1995 * ms, "a simulator's messages are not from the future"
    assert clock.arrived_ns(0, now[0] + 10 * ms, now[1] + 10 * ms) == pytest.approx(1995 * ms, abs=ms)
    assert clock.applies_to(NOW + 3 * NANOSECONDS, *now) and clock.arrived_ns(NOW, *now) == now[1]
