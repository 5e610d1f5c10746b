"""How one base moves: against what the formulas say, and the fused kernel against plain numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rlstack.fused import GRADIENT, Kernel, zeros
from rlstack.sim.batch_wheeled_base.dynamics import WheeledBaseModel, advance, heading
from rlstack.sim.batch_wheeled_base.layout import PARAMETER_WIDTH, PARAMETERS, STATE, STATE_WIDTH

PERIOD = 0.1


def parameters(**changes: Any) -> np.ndarray[Any, Any]:
    """Return one robot's rows (PARAMETER_WIDTH, 1): quick and without any limit that matters, but for the changes."""
    rows = np.zeros((PARAMETER_WIDTH, 1))
    plain = {
        "limits": [-2.0, 2.0, 2.0, 5.0],
        "acceleration": [1e3, 1e3],
        "jerk": [1e7, 1e7],
        "lag": [1e-4, 1e-4],
        "gain": [1.0, 1.0],
        "steering": [2.0, 0.3, 100.0],
        "grip": [1e6],
    }
    for name, numbers in {**plain, **changes}.items():
        rows[PARAMETERS[name], 0] = numbers
    return rows


def at_rest() -> np.ndarray[Any, Any]:
    state = np.zeros((STATE_WIDTH, 1))
    state[STATE["turn"].stop - 1] = 1.0
    return state


def driven(
    model: WheeledBaseModel, rows: np.ndarray[Any, Any], commands: list[list[float]]
) -> list[np.ndarray[Any, Any]]:
    """Return the states after each command, given one a period."""
    state, past, states = at_rest(), [np.zeros((model.command_width, 1))] * model.past_commands, []
    for command in commands:
        newest = np.array(command, dtype=float)[:, None]
        state = advance(state, rows, [newest, *past], model)
        past = [newest, *past][: model.past_commands]
        states.append(state)
    return states


def test_a_circle_closes() -> None:
    speed, turning = 0.5, 0.6
    steps = round(2.0 * np.pi / turning / PERIOD)
    model = WheeledBaseModel(PERIOD)
    states = driven(model, parameters(), [[speed, turning]] * steps)
    far = max(float(np.hypot(*s[STATE["position"], 0])) for s in states)
    assert far == pytest.approx(2.0 * speed / turning, rel=0.02)
    assert np.hypot(*states[-1][STATE["position"], 0]) < 0.08
    for state in states:
        assert np.hypot(*state[STATE["turn"], 0]) == pytest.approx(1.0, abs=1e-12)


def test_a_command_acts_after_its_delay() -> None:
    model = WheeledBaseModel(PERIOD, max_delay_s=0.25)
    states = driven(model, parameters(delay=0.25), [[1.0, 0.0]] * 5)
    gone = [float(s[0, 0]) for s in states]
    assert gone[0] == gone[1] == 0.0
    assert 0.0 < gone[2] < 0.06  # half of the third period
    assert gone[4] - gone[3] == pytest.approx(0.1, rel=1e-3)


def test_acceleration_and_jerk_stay_inside_their_limits() -> None:
    model, most, jerk = WheeledBaseModel(PERIOD), 0.8, 2.0
    rows = parameters(acceleration=[most, most], jerk=[jerk, jerk])
    states = driven(model, rows, [[1.0, 0.0]] * 25 + [[-1.0, 0.0]] * 40)
    speed = np.array([s[STATE["setpoint"].start, 0] for s in states])
    rate = np.array([s[STATE["ramp"].start, 0] for s in states])
    assert np.abs(np.diff(speed)).max() <= most * PERIOD + 1e-9
    assert np.abs(np.diff(rate)).max() <= jerk * PERIOD + 1e-9
    assert speed[24] == pytest.approx(1.0, abs=1e-3) and speed[-1] == pytest.approx(-1.0, abs=1e-3)
    assert speed.max() < 1.01  # it does not overshoot


def test_lag_and_slip_are_as_said() -> None:
    states = driven(WheeledBaseModel(PERIOD), parameters(lag=[0.2, 1e-4], gain=[0.9, 0.5]), [[1.0, 1.0]] * 3)
    speeds = [s[STATE["velocity"].start, 0] for s in states]
    assert speeds == pytest.approx([0.9 * (1.0 - np.exp(-0.5 * k)) for k in (1, 2, 3)], rel=1e-6)
    assert states[-1][STATE["yaw_rate"].start, 0] == pytest.approx(0.5)


def test_an_ackermann_base_turns_no_tighter_than_it_can_and_goes_wide_without_grip() -> None:
    model = WheeledBaseModel(PERIOD, drive="ackermann")
    tight = driven(model, parameters(steering=[1.5, 0.3, 100.0]), [[0.5, 5.0]] * 20)[-1]
    assert tight[STATE["yaw_rate"].start, 0] == pytest.approx(0.5 * 1.5, rel=1e-3)
    slow = driven(model, parameters(steering=[1.5, 0.3, 0.2]), [[0.5, 5.0]] * 2)[-1]
    assert slow[STATE["curvature"].start, 0] == pytest.approx(0.2 / 0.3 * 0.2, rel=0.05)  # it steers at a limited rate
    slippery = driven(model, parameters(grip=[1.0]), [[2.0, 4.0]] * 20)[-1]
    assert slippery[STATE["yaw_rate"].start, 0] * 2.0 < 1.0  # speed times turning: m/s^2 to the side


def braking(grip: float, turning: float) -> list[np.ndarray[Any, Any]]:
    """Return the states of a car that takes 4 m/s and its turning speed, and then brakes at 5 m/s^2 in that bend."""
    model = WheeledBaseModel(PERIOD / 2.0, drive="ackermann")
    limits = {"limits": [0.0, 5.0, 0.0, 9.0], "acceleration": [5.0, 1e3], "lag": [0.02, 0.02]}
    slower = [[4.0 - 0.25 * k, turning * (4.0 - 0.25 * k) / 4.0] for k in range(1, 9)]
    return driven(model, parameters(grip=[grip], **limits), [[4.0, turning]] * 40 + slower)


@given(grip=st.floats(2.0, 30.0), turning=st.floats(0.0, 6.0))
@settings(deadline=None, max_examples=20)
def test_a_car_brakes_and_turns_with_one_grip(grip: float, turning: float) -> None:
    states = braking(grip, turning)
    speed = np.array([s[STATE["velocity"].start, 0] for s in states])
    rate = np.array([s[STATE["yaw_rate"].start, 0] for s in states])
    pushed = np.diff(speed)[40:] / (PERIOD / 2.0)
    # a speed and a turning speed that follow by 20 ms are of one moment only roughly
    asked = np.hypot(pushed, (speed * rate)[41:])
    assert (asked < 1.1 * grip + 0.05).all()


def test_a_car_with_grip_to_spare_brakes_as_it_is_told_and_one_without_comes_later() -> None:
    def lost(grip: float, turning: float) -> float:
        """Return the speed that is lost in 0.2 s of braking, m/s."""
        speed = [s[STATE["velocity"].start, 0] for s in braking(grip, turning)]
        return float(speed[39] - speed[43])

    assert lost(1e6, 3.0) == pytest.approx(lost(1e6, 0.0), rel=1e-3)
    assert lost(9.81, 0.0) == pytest.approx(lost(1e6, 0.0), rel=0.02)
    # 4 m/s and 3 rad/s are 12 m/s^2 to the side: that alone is more than tyres of 1 g have
    assert 0.6 * lost(1e6, 0.0) < lost(9.81, 3.0) < 0.9 * lost(1e6, 0.0)


def test_a_holonomic_base_goes_sideways() -> None:
    state = driven(WheeledBaseModel(PERIOD, drive="holonomic"), parameters(), [[0.0, 1.0, 0.0]] * 10)[-1]
    assert state[STATE["position"], 0] == pytest.approx([0.0, 1.0], abs=0.03)


@settings(deadline=None, max_examples=20)
@example(speed=0.0, turning=2.00001, lag=1.0, drive="differential")
@given(
    speed=st.floats(-3.0, 3.0),
    turning=st.floats(-6.0, 6.0),
    lag=st.floats(0.01, 1.0),
    drive=st.sampled_from(["differential", "ackermann"]),
)
def test_the_fused_kernel_is_the_plain_function(speed: float, turning: float, lag: float, drive: Any) -> None:
    model = WheeledBaseModel(PERIOD, drive=drive, max_delay_s=0.1)
    kernel = Kernel(
        lambda state, parameters, now, before: {"next": advance(state, parameters, [now, before], model)},
        {"state": STATE_WIDTH, "parameters": PARAMETER_WIDTH, "now": 2, "before": 2},
    )
    plain = parameters(lag=[lag, lag], delay=0.06, acceleration=[2.0, 5.0])
    rows, now, before = zeros(PARAMETER_WIDTH, 1), zeros(2, 1), zeros(2, 1)
    rows[:], now[:, 0] = plain, [speed, turning]
    mine, theirs = zeros(STATE_WIDTH, 1), at_rest()
    mine[:] = theirs
    for _ in range(5):
        after = zeros(STATE_WIDTH, 1)
        kernel({"state": mine, "parameters": rows, "now": now, "before": before, "next": after})
        theirs = advance(theirs, plain, [now.astype(float), before.astype(float)], model)
        mine, before[:] = after, now
    exact = theirs.copy()
    exact[STATE["ramp"]] = mine[STATE["ramp"]]  # a rate: what is left of the way over a substep
    assert mine == pytest.approx(exact, abs=2e-4)
    assert mine[STATE["ramp"]] == pytest.approx(theirs[STATE["ramp"]], abs=2e-4 / PERIOD)
    assert np.hypot(*heading(mine)) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("drive", ["differential", "ackermann", "holonomic"])
@pytest.mark.parametrize("share", [0.0, 0.25])
def test_at_its_setpoint_a_base_follows_the_command_and_forgets_where_it_was(drive: Any, share: float) -> None:
    model = WheeledBaseModel(PERIOD, drive=drive)
    width = model.command_width
    kernel = Kernel(
        lambda state, parameters, command: {"next": advance(state, parameters, [command], model)},
        {"state": STATE_WIDTH, "parameters": PARAMETER_WIDTH, "command": width},
        ("state", "command"),
    )
    rows, command = zeros(PARAMETER_WIDTH, 1), zeros(width, 1)
    rows[:], command[:] = parameters(), share
    state = at_rest().astype(np.float32)
    for axis, wanted in ((0, share), (1, share if drive == "holonomic" else 0.0), (2, share)):
        state[STATE["setpoint"].start + axis] = wanted
    for axis, along in ((0, 0), (1, 1 if drive == "holonomic" else None), (2, width - 1)):
        seed = zeros(STATE_WIDTH, 1)
        seed[STATE["setpoint"].start + axis] = 1.0
        back = {GRADIENT + "state": zeros(STATE_WIDTH, 1), GRADIENT + "command": zeros(width, 1)}
        arrays = {"state": zeros(STATE_WIDTH, 1), "parameters": rows, "command": command, GRADIENT + "next": seed}
        arrays["state"][:] = state
        kernel({**arrays, **back})
        assert back[GRADIENT + "state"][STATE["setpoint"], 0] == pytest.approx([0.0, 0.0, 0.0], abs=1e-5)
        expected = [1.0 if k == along else 0.0 for k in range(width)]
        assert back[GRADIENT + "command"][:, 0] == pytest.approx(expected, abs=1e-5)
