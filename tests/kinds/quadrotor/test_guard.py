"""The guard's rules, one event at a time."""

from __future__ import annotations

import numpy as np
import pytest

from rlstack.guard import CommonMode, Decision
from rlstack.kinds.quadrotor.guard import QuadrotorGuard, QuadrotorMode
from rlstack.kinds.quadrotor.guard_config import QuadrotorGuardConfig
from rlstack.robots import frames
from tests.support import robots

ROBOT = robots.crazyflie()
HOVER = np.full(4, ROBOT.hover_speed_rad_s)
PERIOD = 0.01


def signals(
    position: tuple[float, float, float] = (0.0, 0.0, 1.0),
    tilt: float = 0.0,
    velocity: tuple[float, float, float] = (0.0, 0.0, 0.0),
    rate: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> dict[str, np.ndarray]:
    return {
        "position": np.array(position),
        "orientation": frames.from_rotation_vector([tilt, 0.0, 0.0]),
        "linear_velocity": np.array(velocity),
        "angular_velocity": np.array(rate),
    }


STILL = QuadrotorGuardConfig.from_robot(ROBOT, frozen_observations=0)
"""Takes an observation that equals the one before."""


def flying(config: QuadrotorGuardConfig | None = None) -> QuadrotorGuard:
    """Return a guard in POLICY at time 0 that has passed on one hover command."""
    guard = QuadrotorGuard(ROBOT, config or STILL)
    guard.on_observation(0.0, 0.0, signals())
    assert guard.arm(0.0) == (True, "armed in the air")
    assert guard.on_policy_command(0.0, 0.0, HOVER).command is not None
    return guard


def test_a_good_command_passes_unchanged_with_its_own_stamp() -> None:
    guard = flying()
    guard.on_observation(0.010, 0.009, signals())
    decision = guard.on_policy_command(0.011, 0.009, HOVER * 1.01)
    np.testing.assert_array_equal(decision.command, HOVER * 1.01)
    assert (decision.stamp_s, decision.mode, decision.clipped, decision.changed) == (
        0.009,
        CommonMode.POLICY,
        False,
        False,
    )


def test_observations_are_left_to_the_policy_within_the_limits() -> None:
    assert flying().on_observation(0.01, 0.01, signals()).command is None


TELEPORTING = QuadrotorGuardConfig.from_robot(ROBOT, jump_m=1e3, jump_rad=10.0, jump_m_s=1e3, frozen_observations=0)
"""Takes any state as plausible after any other."""


def observe(guard: QuadrotorGuard, first: int, last: int, seen: dict[str, np.ndarray]) -> Decision:
    """Observe the same state, which the policy answers by hovering, over some periods."""
    for k in range(first, last):
        decision = guard.on_observation(k * PERIOD, k * PERIOD, seen)
        guard.on_policy_command(k * PERIOD, k * PERIOD, HOVER)
    return decision


@pytest.mark.parametrize(
    ("seen", "word"),
    [
        (signals(tilt=1.6), "tilt"),
        (signals(velocity=(3.0, 3.0, 0.0)), "speed"),
        (signals(rate=(0.0, 20.0, 20.0)), "angular velocity"),
        (signals(position=(3.1, 0.0, 1.0)), "geofence"),
        (signals(position=(0.0, 0.0, -0.3)), "geofence"),
    ],
)
def test_a_limit_broken_by_far_is_answered_at_once_and_for_good(seen: dict[str, np.ndarray], word: str) -> None:
    guard = flying(TELEPORTING)
    decision = guard.on_observation(0.01, 0.01, seen)
    assert decision.mode is QuadrotorMode.HOVER
    assert decision.changed
    assert word in decision.reason
    assert "arm again" in guard.advice
    assert decision.command is not None
    assert decision.stamp_s == 0.01
    assert guard.interventions == 1
    observe(guard, 2, 300, signals())
    assert guard.mode is QuadrotorMode.HOVER


NEAR = [
    (signals(tilt=1.15), "tilt"),
    (signals(velocity=(2.9, 0.0, 0.0)), "speed"),
    (signals(rate=(0.0, 15.0, 14.0)), "angular velocity"),
    (signals(position=(0.0, -2.9, 1.0), velocity=(0.0, -1.0, 0.0)), "geofence"),
    (signals(position=(0.0, 0.0, 2.9), velocity=(0.0, 0.0, 0.6)), "geofence"),
]


@pytest.mark.parametrize(("seen", "word"), NEAR)
def test_near_a_limit_the_guard_turns_the_robot_back_and_then_lets_the_policy_go_on(
    seen: dict[str, np.ndarray], word: str
) -> None:
    guard = flying(TELEPORTING)
    decision = guard.on_observation(0.01, 0.01, seen)
    assert decision.mode is QuadrotorMode.RETURN and decision.command is not None
    assert word in decision.reason
    assert observe(guard, 2, 40, seen).mode is QuadrotorMode.RETURN  # as long as it is near
    observe(guard, 40, 45, signals())
    assert guard.mode is CommonMode.POLICY and guard.interventions == 1


def test_a_robot_that_stays_near_a_limit_is_taken_for_good() -> None:
    guard = flying(TELEPORTING)
    observe(guard, 1, 504, NEAR[1][0])
    assert guard.mode is QuadrotorMode.HOVER
    assert "not back inside in time" in guard.reason and "goal farther inside" in guard.advice


def test_a_policy_that_is_turned_back_too_often_loses_the_robot_with_advice() -> None:
    guard, modes = flying(TELEPORTING), []
    for k in range(4):
        modes.append(observe(guard, 1 + 20 * k, 2 + 20 * k, NEAR[3][0]).mode)
        observe(guard, 2 + 20 * k, 21 + 20 * k, signals())
    assert modes == [QuadrotorMode.RETURN] * 3 + [QuadrotorMode.HOVER]
    assert "3 turn-backs" in guard.reason and "goal farther inside" in guard.advice
    guard.disarm("landed")  # the next flight begins at once, and has its own turn-backs
    assert guard.arm(0.8)[0]
    observe(guard, 81, 82, signals())
    assert observe(guard, 82, 83, NEAR[3][0]).mode is QuadrotorMode.RETURN
    rare = flying(TELEPORTING)
    for k in range(6):
        start = 1 + 700 * k
        observe(rare, start, start + 1, NEAR[3][0])
        observe(rare, start + 1, start + 700, signals())
        assert rare.mode is CommonMode.POLICY


def test_a_policy_that_falls_silent_while_turned_back_is_waited_for_in_hover() -> None:
    guard = flying(TELEPORTING)
    observe(guard, 1, 10, NEAR[1][0])
    for k in range(10, 14):
        guard.on_observation(k * PERIOD, k * PERIOD, signals())
    assert guard.mode is QuadrotorMode.HOVER
    observe(guard, 14, 120, signals())
    assert guard.mode is CommonMode.POLICY


@pytest.mark.parametrize(
    ("seen", "word"),
    [
        (signals(position=(1.0, 0.0, 1.0)), "position moved by 1.00 m"),
        (signals(velocity=(0.0, 2.5, 0.0)), "velocity changed by 2.50 m/s"),
        (signals(tilt=1.1), "attitude turned by 1.10 rad"),
    ],
)
def test_odometry_that_jumps_is_refused_once_and_a_fault_when_it_lasts(seen: dict[str, np.ndarray], word: str) -> None:
    guard = flying()
    decision = guard.on_observation(0.01, 0.01, seen)
    assert decision.mode is CommonMode.POLICY and word in decision.reason
    observe(guard, 2, 20, signals())
    assert guard.mode is CommonMode.POLICY and guard.interventions == 0
    for k in range(20, 23):
        decision = guard.on_observation(k * PERIOD, k * PERIOD, seen)
    assert decision.mode is QuadrotorMode.HOVER
    assert word in decision.reason and "estimates" in guard.advice
    observe(guard, 23, 200, seen)
    assert guard.mode is QuadrotorMode.HOVER


def test_a_clock_that_jumps_in_flight_is_answered_by_hovering_on_what_is_seen_then_landing() -> None:
    guard = flying()
    observe(guard, 1, 50, signals())
    decision = guard.on_observation(1000.0, 1000.0, signals(), restarted=True)
    assert decision.mode is QuadrotorMode.HOVER and decision.command is not None
    assert "clock" in decision.reason and "arm again" in guard.advice
    for k in range(1, 300):
        decision = guard.on_observation(1000.0 + k * PERIOD, 1000.0 + k * PERIOD, signals())
        guard.on_policy_command(1000.0 + k * PERIOD, 1000.0 + k * PERIOD, HOVER)
        assert decision.mode is QuadrotorMode.HOVER and decision.command is not None
    for k in range(300, 510):
        decision = guard.on_observation(1000.0 + k * PERIOD, 1000.0 + k * PERIOD, signals())
    assert decision.mode is QuadrotorMode.LAND


def test_a_clock_that_jumps_with_an_invalid_observation_counts_at_the_next_valid_one() -> None:
    guard = flying()
    guard.on_observation(-5.0, -5.0, {**signals(), "position": np.full(3, np.nan)}, restarted=True)
    assert guard.on_observation(-4.99, -4.99, signals()).mode is QuadrotorMode.HOVER


def test_a_robot_that_is_put_on_the_ground_by_a_reset_is_disarmed_and_stays_there() -> None:
    guard = flying()
    grounded = signals((0.0, 0.0, 0.01))
    decision = guard.on_observation(5.0, 5.0, grounded, restarted=True)
    assert decision.mode is CommonMode.DISARMED and np.all(decision.command == 0.0)
    for k in range(1, 200):
        guard.on_observation(5.0 + k * PERIOD, 5.0 + k * PERIOD, grounded)
        assert guard.on_policy_command(5.0 + k * PERIOD, 5.0 + k * PERIOD, HOVER).command is None
    assert guard.mode is CommonMode.DISARMED


def test_low_and_descending_is_no_broken_fence() -> None:
    guard = flying()
    assert (
        guard.on_observation(0.01, 0.01, signals((0.0, 0.0, 0.05), velocity=(0.0, 0.0, -1.5))).mode is CommonMode.POLICY
    )


@pytest.mark.parametrize(
    ("command", "word"),
    [
        (np.array([np.nan, 1.0, 1.0, 1.0]), "not finite"),
        (np.array([1.0, np.inf, 1.0, -np.inf]), "not finite"),
        (np.ones(3), "shape"),
        (np.ones((1, 4)), "shape"),
        (1500.0, "shape"),
        (["fast"] * 4, "not numbers"),
        (None, "shape"),
    ],
)
def test_a_malformed_command_hands_the_robot_to_the_guard_for_good(command: object, word: str) -> None:
    guard = flying()
    guard.on_observation(0.01, 0.01, signals())
    decision = guard.on_policy_command(0.01, 0.01, command)  # type: ignore[arg-type]
    assert decision.mode is QuadrotorMode.HOVER
    assert word in decision.reason
    assert np.all(np.isfinite(decision.command))
    assert guard.interventions == 1
    for k in range(2, 200):
        guard.on_observation(k * PERIOD, k * PERIOD, signals())
        guard.on_policy_command(k * PERIOD, k * PERIOD, HOVER)
    assert guard.mode is QuadrotorMode.HOVER


def test_a_malformed_command_while_hovering_for_lateness_takes_away_the_way_back() -> None:
    guard = flying()
    guard.policy_missing(0.01)
    guard.on_policy_command(0.01, 0.01, np.full(4, np.nan))
    for k in range(2, 200):
        guard.on_observation(k * PERIOD, k * PERIOD, signals())
        guard.on_policy_command(k * PERIOD, k * PERIOD, HOVER)
    assert guard.mode is QuadrotorMode.HOVER
    assert "not finite" in guard.reason


def test_commands_are_held_to_the_rotors_limits_and_to_the_rate_limit() -> None:
    guard = flying(QuadrotorGuardConfig.from_robot(ROBOT, rotor_acceleration_rad_s2=5000.0))
    guard.on_observation(0.01, 0.01, signals())
    decision = guard.on_policy_command(0.01, 0.01, np.add(HOVER, [100.0, -100.0, 20.0, 1e6]))
    np.testing.assert_allclose(decision.command, np.add(HOVER, [50.0, -50.0, 20.0, 50.0]))
    assert decision.clipped
    guard = flying()
    guard.on_observation(0.01, 0.01, signals())
    decision = guard.on_policy_command(0.01, 0.01, np.array([-5.0, 1e5, 1500.0, 1500.0]))
    assert decision.command[0] >= 0.0
    assert decision.command[1] == ROBOT.rotor_model.speed_max_rad_s
    assert decision.clipped


@pytest.mark.parametrize(
    ("time_s", "stamp_s", "word"),
    [
        (0.035, 0.010, "stale"),
        (0.010, -0.005, "goes back"),
        (0.010, 0.030, "ahead"),
        (0.010, np.nan, "goes back"),
    ],
)
def test_a_command_for_another_time_is_dropped(time_s: float, stamp_s: float, word: str) -> None:
    guard = flying()
    guard.on_observation(time_s, 0.010, signals())
    before = guard.mode
    decision = guard.on_policy_command(time_s, stamp_s, HOVER)
    assert decision.command is None
    assert decision.mode is before
    assert word in decision.reason


def test_a_policy_faster_than_its_odometry_may_answer_an_observation_again_until_it_is_stale() -> None:
    guard = flying()
    guard.on_observation(0.010, 0.010, signals())
    assert guard.on_policy_command(0.010, 0.010, HOVER).command is not None
    assert guard.on_policy_command(0.020, 0.010, HOVER).command is not None
    late = guard.on_policy_command(0.035, 0.010, HOVER)
    assert late.command is None and "stale" in late.reason


def test_a_command_within_two_periods_is_not_stale() -> None:
    guard = flying()
    guard.on_observation(0.010, 0.010, signals())
    assert guard.on_policy_command(0.0299, 0.010, HOVER).command is not None


def test_silence_is_found_by_the_tick_within_two_periods() -> None:
    guard = flying()
    guard.on_observation(0.01, 0.01, signals())
    assert guard.on_tick(0.0199).mode is CommonMode.POLICY
    decision = guard.on_tick(0.0205)
    assert decision.mode is QuadrotorMode.HOVER
    assert decision.command is not None
    assert decision.stamp_s == 0.01
    assert "late" in decision.reason


def test_silence_is_found_by_observations_without_any_tick() -> None:
    guard = flying()
    modes = [guard.on_observation(k * PERIOD, k * PERIOD, signals()).mode for k in range(1, 5)]
    assert modes == [CommonMode.POLICY, CommonMode.POLICY, QuadrotorMode.HOVER, QuadrotorMode.HOVER]


def test_lock_step_takes_over_when_the_policy_gives_no_answer_and_repeats_itself() -> None:
    guard = flying()
    guard.on_observation(0.01, 0.01, signals())
    first = guard.policy_missing(0.01)
    assert (first.mode, first.stamp_s, guard.interventions) == (QuadrotorMode.HOVER, 0.01, 1)
    again = guard.policy_missing(0.01)
    np.testing.assert_array_equal(again.command, first.command)
    assert guard.interventions == 1
    assert QuadrotorGuard(ROBOT).policy_missing(0.0).command is None


def test_hover_holds_where_it_took_over_but_inside_the_fence_and_off_the_floor() -> None:
    guard = flying(TELEPORTING)
    guard.on_observation(0.01, 0.01, signals((3.2, 0.5, 0.02), velocity=(0.0, 0.0, 0.0)))
    assert guard.mode is QuadrotorMode.HOVER
    assert guard._fallback.goal == pytest.approx([2.9, 0.5, guard.config.airborne_height_m])


@pytest.mark.parametrize(
    "spoil",
    [
        {"position": np.array([np.nan, 0.0, 0.0])},
        {"linear_velocity": np.array([np.inf, 0.0, 0.0])},
        {"angular_velocity": np.array([1e300, 1e300, 0.0])},
        {"orientation": np.zeros(4)},
        {"orientation": np.array([0.0, 0.0, 0.0, 2.0])},
        {"orientation": np.array([0.0, 0.0, 1.0])},
        {"position": "here"},
    ],
)
def test_an_invalid_observation_is_no_observation(spoil: dict[str, object]) -> None:
    guard = flying()
    bad = {**signals(), **spoil}
    for k in range(1, 35):
        decision = guard.on_observation(k * PERIOD, k * PERIOD, bad)  # type: ignore[arg-type]
        guard.on_policy_command(k * PERIOD, k * PERIOD, HOVER)
    assert decision.mode is CommonMode.DISARMED
    assert "no valid observation" in decision.reason
    assert guard.arm(0.35)[0] is False


def test_a_missing_signal_is_named() -> None:
    guard = QuadrotorGuard(ROBOT)
    guard.on_observation(0.0, 0.0, {"position": np.zeros(3)})
    armed, why = guard.arm(0.0)
    assert not armed
    assert "orientation is missing" in why


def test_a_frozen_estimator_counts_as_silent() -> None:
    guard = flying()
    for k in range(1, 35):
        guard.on_observation(k * PERIOD, 0.0, signals())  # the same stamp again and again
    assert guard.mode is CommonMode.DISARMED
    assert "no valid observation" in guard.reason


@pytest.mark.parametrize(
    ("seen", "word"),
    [(signals(tilt=1.3), "tilt"), (signals((0.0, 0.0, 3.5)), "geofence"), (signals(velocity=(4.0, 0.0, 0.0)), "speed")],
)
def test_arming_outside_the_limits_is_refused_with_the_reason(seen: dict[str, np.ndarray], word: str) -> None:
    guard = QuadrotorGuard(ROBOT)
    guard.on_observation(0.0, 0.0, seen)
    armed, why = guard.arm(0.0)
    assert not armed
    assert word in why
    assert guard.mode is CommonMode.DISARMED


def test_arming_without_or_with_an_old_observation_is_refused() -> None:
    guard = QuadrotorGuard(ROBOT)
    assert guard.arm(0.0)[0] is False
    guard.on_observation(0.0, 0.0, signals())
    assert guard.arm(0.3)[0] is False
    guard.on_observation(0.31, 0.31, signals())
    assert guard.arm(0.32)[0] is True
    assert guard.arm(0.33) == (True, "armed already, mode policy")


def test_a_start_beyond_the_flight_limit_needs_the_wider_guard() -> None:
    seen = signals(tilt=1.5)
    wide = QuadrotorGuardConfig.from_robot(ROBOT, allow_wider=True, tilt_rad=np.pi)
    guard = QuadrotorGuard(ROBOT, wide)
    guard.on_observation(0.0, 0.0, seen)
    assert guard.arm(0.0)[0]
    assert guard.on_policy_command(0.0, 0.0, HOVER).command is not None


def test_disarmed_says_zero_once_then_nothing() -> None:
    guard = flying()
    decision = guard.disarm("operator")
    assert np.all(decision.command == 0.0)
    assert (decision.mode, decision.reason, decision.changed) == (CommonMode.DISARMED, "operator", True)
    assert guard.on_tick(0.01).command is None
    assert guard.on_observation(0.02, 0.02, signals()).command is None
    assert guard.on_policy_command(0.02, 0.02, HOVER).command is None


def test_emergency_stop_holds_until_cleared_and_refuses_arming() -> None:
    guard = flying()
    decision = guard.estop("hand on the button")
    assert np.all(decision.command == 0.0)
    assert decision.changed
    for k in range(1, 60):
        for d in (
            guard.on_observation(k * PERIOD, k * PERIOD, signals()),
            guard.on_policy_command(k * PERIOD, k * PERIOD, HOVER),
            guard.on_tick(k * PERIOD),
            guard.disarm("also"),
        ):
            assert d.mode is CommonMode.ESTOP
            assert d.command is None or np.all(d.command == 0.0)
    assert guard.on_tick(0.6).command is not None  # said again and again, in case one was lost
    armed, why = guard.arm(0.6)
    assert not armed
    assert "hand on the button" in why
    assert guard.clear_estop()[0]
    assert guard.clear_estop()[0] is False
    guard.on_observation(0.61, 0.61, signals())
    assert guard.arm(0.61)[0]


def test_hands_over_after_recovery_only_within_the_limits() -> None:
    guard = flying(TELEPORTING)
    guard.policy_missing(0.01)
    for k in range(2, 130):
        seen = signals(velocity=(2.9, 2.9, 0.0)) if k < 120 else signals()
        guard.on_observation(k * PERIOD, k * PERIOD, seen)
        guard.on_policy_command(k * PERIOD, k * PERIOD, HOVER)
        assert (guard.mode is CommonMode.POLICY) == (k >= 120)


def test_a_gap_restarts_the_recovery_time() -> None:
    guard = flying()
    guard.policy_missing(0.01)
    for k in range(2, 160):
        guard.on_observation(k * PERIOD, k * PERIOD, signals())
        if not 80 <= k < 84:
            guard.on_policy_command(k * PERIOD, k * PERIOD, HOVER)
    assert guard.mode is QuadrotorMode.HOVER


def test_clock_that_restarts_earlier_does_not_drop_the_robot() -> None:
    guard = flying()
    for k in range(1, 50):
        guard.on_observation(k * PERIOD, k * PERIOD, signals())
        guard.on_policy_command(k * PERIOD, k * PERIOD, HOVER)
    decisions: list[Decision] = []
    for k in range(50):
        time_s = k * PERIOD - 100.0
        guard.on_observation(time_s, time_s, signals())
        decisions.append(guard.on_policy_command(time_s, time_s, HOVER))
    assert all(d.mode is CommonMode.POLICY and d.command is not None for d in decisions)


def test_observations_are_counted_from_the_last_gap_on() -> None:
    guard = QuadrotorGuard(ROBOT, STILL)
    for k in range(5):
        guard.on_observation(k * PERIOD, k * PERIOD, signals())
    assert guard.in_a_row == 5
    guard.on_tick(0.2)
    assert guard.in_a_row == 5  # 0.16 s after the last one
    guard.on_tick(0.5)
    assert guard.in_a_row == 0
    guard.on_observation(0.5, 0.5, signals())
    guard.on_observation(0.9, 0.9, signals())  # nobody has ticked in between
    assert guard.in_a_row == 1


@pytest.mark.parametrize(("climbed_m", "unseen"), [(0.0, True), (0.5, False)])
def test_a_robot_out_of_sight_may_begin_again_only_from_the_ground(climbed_m: float, unseen: bool) -> None:
    guard = QuadrotorGuard(ROBOT, TELEPORTING)
    guard.on_observation(0.0, 0.0, signals((0.0, 0.0, 0.02)))
    assert guard.arm(0.0)[0]
    assert guard.mode is QuadrotorMode.TAKEOFF
    guard.on_observation(0.01, 0.01, signals((0.0, 0.0, 0.02 + climbed_m)))
    assert guard.on_tick(0.4).mode is CommonMode.DISARMED
    assert guard.stopped_unseen is unseen
    guard.on_observation(0.4, 0.4, signals((0.0, 0.0, 0.02)))
    assert guard.arm(0.4)[0]
    assert not guard.stopped_unseen


def test_who_stops_a_robot_by_hand_does_not_see_it_begin_again() -> None:
    for stop in (lambda guard: guard.disarm("asked to"), lambda guard: guard.estop("asked to")):
        guard = QuadrotorGuard(ROBOT)
        guard.on_observation(0.0, 0.0, signals((0.0, 0.0, 0.02)))
        assert guard.arm(0.0)[0]
        guard.on_tick(0.3)
        assert guard.stopped_unseen
        stop(guard)
        assert not guard.stopped_unseen


def test_a_fault_from_outside_takes_control_for_good_and_says_what_to_do() -> None:
    guard = flying()
    decision = guard.on_fault(0.01, "two publishers on policy/cmd/rotors: /a and /b", "Stop one of them.")
    assert decision.mode is QuadrotorMode.HOVER and decision.command is not None
    assert "/a and /b" in guard.reason and guard.advice == "Stop one of them."
    for k in range(2, 200):
        guard.on_observation(k * PERIOD, k * PERIOD, signals())
        guard.on_policy_command(k * PERIOD, k * PERIOD, HOVER)
    assert guard.mode is QuadrotorMode.HOVER


def test_a_fault_while_the_guard_acts_bars_the_policy_and_while_off_does_nothing() -> None:
    guard = flying()
    guard.policy_missing(0.01)
    assert guard.on_fault(0.02, "the battery is empty").command is None
    for k in range(3, 200):
        guard.on_observation(k * PERIOD, k * PERIOD, signals())
        guard.on_policy_command(k * PERIOD, k * PERIOD, HOVER)
    assert guard.mode is QuadrotorMode.HOVER and "battery" in guard.reason
    guard.disarm("done")
    assert guard.on_fault(2.1, "again").mode is CommonMode.DISARMED


def test_a_policy_that_is_late_now_and_then_is_waited_for_longer_than_one_that_is_gone() -> None:
    guard = flying()
    guard.policy_missing(0.01)
    for k in range(2, 2000):  # a gap of 30 ms every half a second: never on time for a second
        guard.on_observation(k * PERIOD, k * PERIOD, signals())
        if k % 50 > 2:
            guard.on_policy_command(k * PERIOD, k * PERIOD, HOVER)
        assert guard.mode is QuadrotorMode.HOVER
    for k in range(2000, 2110):  # a quiet second
        guard.on_observation(k * PERIOD, k * PERIOD, signals())
        guard.on_policy_command(k * PERIOD, k * PERIOD, HOVER)
    assert guard.mode is CommonMode.POLICY


def test_odometry_whose_values_stand_still_in_flight_counts_as_missing() -> None:
    guard, same = flying(QuadrotorGuardConfig.from_robot(ROBOT)), signals()
    for k in range(1, 5):
        guard.on_observation(k * PERIOD, k * PERIOD, same)
        guard.on_policy_command(k * PERIOD, k * PERIOD, HOVER)
    assert guard.mode is CommonMode.POLICY
    for k in range(5, 45):
        decision = guard.on_observation(k * PERIOD, k * PERIOD, same)
        guard.on_policy_command(k * PERIOD, k * PERIOD, HOVER)
    assert decision.mode is CommonMode.DISARMED
    assert "has not changed in 5 observations" in decision.reason


def test_a_robot_that_stands_on_the_ground_may_be_observed_without_any_noise() -> None:
    guard, same = QuadrotorGuard(ROBOT), signals((0.0, 0.0, 0.02))
    for k in range(100):
        guard.on_observation(k * PERIOD, k * PERIOD, same)
    assert guard.in_a_row == 100


def test_what_to_do_about_one_stop_is_not_said_of_the_next() -> None:
    guard = flying(TELEPORTING)
    observe(guard, 1, 2, signals(position=(3.5, 0.0, 1.0)))
    assert guard.advice
    guard.estop("asked")
    assert guard.advice == ""
    guard = flying()
    for t in (0.01, 2.02):
        guard.on_battery(t, 0.05, np.nan)
        guard.on_observation(t, t, signals())
        guard.on_policy_command(t, t, HOVER)
        if t < 1.0:
            observe(guard, 2, 202, signals())
    assert guard.mode is QuadrotorMode.LAND and "battery" in guard.reason and "Charge" in guard.advice
