from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.errors import UserError
from rlstack.nodes.policy_loop import PolicyLoop
from rlstack.policies import load_policy
from rlstack.robots import load_robot
from tests.support.policies import write_constant_policy, write_counting_policy

MS = 1_000_000
LATCHED = frozenset({"goal"})
HERE = {"position": np.zeros(3)}
ROBOT = load_robot("crazyflie")


@pytest.fixture(scope="module")
def counting_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_counting_policy(tmp_path_factory.mktemp("policies") / "counting.onnx", ROBOT)


@pytest.fixture
def loop(counting_file: Path) -> PolicyLoop:
    """100 Hz; commands 100 rad/s plus the number of steps since the last reset."""
    return PolicyLoop(load_policy(counting_file), latched=LATCHED)


def count(answer: object) -> int:
    return round(float(answer.outputs["rotor_speed"][0])) - 100


def feed(loop: PolicyLoop, stamps_ms: list[float]) -> list[int]:
    """Return the stamps, in ms, that were answered."""
    answers = [loop.on_message("odom", round(t * MS), HERE) for t in stamps_ms]
    return [a.stamp_ns // MS for a in answers if a is not None]


def test_every_observation_at_the_control_rate_is_answered_with_its_stamp(loop: PolicyLoop) -> None:
    assert feed(loop, [0, 10, 20, 30]) == [0, 10, 20, 30]


def test_jitter_makes_no_step_less_and_none_more(loop: PolicyLoop) -> None:
    stamps = [0, 12, 19, 31, 38, 52, 60]
    assert feed(loop, stamps) == stamps


@settings(deadline=None)
@given(rate=st.sampled_from([100.0, 200.0, 250.0, 400.0, 500.0, 1000.0]), jitter=st.floats(0.0, 0.3))
def test_a_faster_sensor_gives_the_control_rate(counting_file: Path, rate: float, jitter: float) -> None:
    loop = PolicyLoop(load_policy(counting_file), latched=LATCHED)
    random = np.random.default_rng(0)
    stamps = [1000.0 * (i + jitter * random.random()) / rate for i in range(int(rate))]
    assert abs(len(feed(loop, stamps)) - 100) <= 2


def test_the_same_observation_is_not_answered_twice(loop: PolicyLoop) -> None:
    assert feed(loop, [0, 0, 10, 10]) == [0, 10]


def test_a_slow_sensor_is_stepped_again_on_ticks_while_it_is_fresh(loop: PolicyLoop) -> None:
    assert feed(loop, [0, 20]) == [0, 20]
    again = loop.on_tick(30 * MS)
    assert again is not None and again.stamp_ns == 20 * MS and count(again) == 2
    assert loop.on_tick(31 * MS) is None  # not yet due
    assert loop.on_tick(45 * MS) is None and loop.counts.stale == 1
    assert "odom is 25 ms old" in loop.counts.warning
    assert feed(loop, [46]) == [46] and loop.counts.warning == ""


def test_a_sensor_that_is_late_by_jitter_is_waited_for(loop: PolicyLoop) -> None:
    assert feed(loop, [0, 10]) == [0, 10]
    assert loop.on_tick(22 * MS) is None
    assert feed(loop, [22]) == [22]
    assert loop.counts.repeated == 0


def test_the_goal_is_needed_once_and_never_stale(tmp_path: Path) -> None:
    path = write_constant_policy(tmp_path / "goal.onnx", ROBOT, 700.0, ("position", "goal_position"))
    loop = PolicyLoop(load_policy(path), latched=LATCHED)
    assert loop.missing == {"odom", "goal"} and feed(loop, [0, 10]) == []
    assert loop.missing == {"goal"}
    assert loop.on_message("goal", 0, {"goal_position": np.zeros(3)}) is None
    assert feed(loop, [20, 30, 5_000, 5_010]) == [20, 30, 5_000, 5_010]


def test_another_sensor_that_stopped_stops_the_commands(tmp_path: Path) -> None:
    path = write_constant_policy(tmp_path / "imu.onnx", ROBOT, 700.0, ("position", "linear_acceleration"))
    loop = PolicyLoop(load_policy(path), latched=LATCHED)
    loop.on_message("imu", 0, {"linear_acceleration": np.zeros(3)})
    assert feed(loop, [0, 10, 20, 30, 40]) == [0, 10, 20]
    assert "imu is 40 ms off" in loop.counts.warning


@pytest.mark.parametrize("jump_ms", [-1000, -1, 501, 10_000])
def test_a_jump_of_the_stamps_starts_the_recurrent_state_afresh(loop: PolicyLoop, jump_ms: int) -> None:
    feed(loop, [2000, 2010, 2020])
    answer = loop.on_message("odom", (2020 + jump_ms) * MS, HERE)
    assert answer is not None and count(answer) == 0


def test_a_gap_of_half_a_second_keeps_the_recurrent_state(loop: PolicyLoop) -> None:
    feed(loop, [0, 10])
    answer = loop.on_message("odom", 510 * MS, HERE)
    assert answer is not None and count(answer) == 2


def test_a_value_that_is_not_finite_gives_no_command_and_keeps_the_state(loop: PolicyLoop) -> None:
    feed(loop, [0])
    assert loop.on_message("odom", 10 * MS, {"position": np.array([0.0, np.nan, 0.0])}) is None
    assert loop.counts.refused == 1 and "not finite" in loop.counts.last_refusal
    answer = loop.on_message("odom", 20 * MS, HERE)
    assert answer is not None and count(answer) == 1


def test_a_policy_without_sensors_is_refused(tmp_path: Path) -> None:
    path = write_constant_policy(tmp_path / "blind.onnx", ROBOT, 700.0, ("goal_position",))
    with pytest.raises(UserError, match="reads no sensor"):
        PolicyLoop(load_policy(path), latched=LATCHED)


class TestLockStep:
    def test_a_repeated_stamp_gets_the_same_answer(self, counting_file: Path) -> None:
        loop = PolicyLoop(load_policy(counting_file), latched=LATCHED, lock_step=True)
        answers = [loop.on_message("odom", t * MS, HERE) for t in (0, 0, 10, 10, 10, 20)]
        assert [(a.stamp_ns // MS, count(a)) for a in answers] == [(0, 0), (0, 0), (10, 1), (10, 1), (10, 1), (20, 2)]

    def test_all_sensors_must_bear_the_same_stamp_in_any_order(self, tmp_path: Path) -> None:
        path = write_constant_policy(tmp_path / "imu.onnx", ROBOT, 700.0, ("position", "linear_acceleration"))
        loop = PolicyLoop(load_policy(path), latched=LATCHED, lock_step=True)
        felt = {"linear_acceleration": np.zeros(3)}
        assert loop.on_message("odom", 0, HERE) is None
        assert loop.on_message("imu", 0, felt) is not None
        assert loop.on_message("imu", 10 * MS, felt) is None
        assert loop.on_message("odom", 10 * MS, HERE) is not None

    def test_a_slower_policy_holds_its_command_so_that_time_goes_on(self, tmp_path: Path) -> None:
        path = write_constant_policy(tmp_path / "slow.onnx", ROBOT, 700.0, rate_hz=50.0)
        loop = PolicyLoop(load_policy(path), latched=LATCHED, lock_step=True)
        assert feed(loop, [0, 10, 20, 30, 40]) == [0, 10, 20, 30, 40]
        assert loop.counts.steps == 3

    def test_ticks_do_nothing(self, counting_file: Path) -> None:
        loop = PolicyLoop(load_policy(counting_file), latched=LATCHED, lock_step=True)
        loop.on_message("odom", 0, HERE)
        assert loop.on_tick(15 * MS) is None
