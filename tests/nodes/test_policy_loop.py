from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.errors import UserError
from rlstack.interfaces.path_messages import GoalPath
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.nodes.policy_loop import PolicyLoop
from rlstack.policies import Envelope, contract_for, load_policy, write_policy
from rlstack.robots import load_robot
from tests.policies.graphs import path_contract, path_model
from tests.support.policies import write_constant_policy, write_counting_policy

MS = 1_000_000
LATCHED = frozenset({"goal"})
HERE = {"position": np.zeros(3)}
ROBOT = load_quadrotor("crazyflie")


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
    answer = loop.on_message("odom", (2020 + jump_ms) * MS, HERE, restarted=True)
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

    def test_a_restart_takes_effect_from_the_next_stamp_on(self, counting_file: Path) -> None:
        loop = PolicyLoop(load_policy(counting_file), latched=LATCHED, lock_step=True)
        assert feed(loop, [0, 10]) == [0, 10]
        loop.restart()
        answers = [loop.on_message("odom", t * MS, HERE) for t in (10, 20, 30)]
        assert [(a.stamp_ns // MS, count(a)) for a in answers] == [(10, 1), (20, 0), (30, 1)]

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


class TestPath:
    """The policy commands 1000 rad/s plus 100 for each metre to where the path is due."""

    @pytest.fixture
    def loop(self, tmp_path: Path) -> PolicyLoop:
        write_policy(path_model(), path_contract(state={"calls": (4,)}), tmp_path / "path.onnx")
        return PolicyLoop(load_policy(tmp_path / "path.onnx"), latched=frozenset({"goal_path"}))

    @staticmethod
    def path(begin_ms: int, far: float = 1.0) -> GoalPath:
        """From the origin to ``far`` m along x in a second."""
        stamps = np.array([begin_ms, begin_ms + 1000]) * MS
        return GoalPath(stamps, np.array([[0.0, 0.0, 0.0], [far, 0.0, 0.0]]), np.tile([0.0, 0.0, 0.0, 1.0], (2, 1)))

    @staticmethod
    def due(loop: PolicyLoop, stamp_ms: int) -> float:
        """Return how far along x the policy was told to be."""
        steps = loop.counts.steps
        answer = loop.on_message("odom", stamp_ms * MS, HERE)
        assert answer is not None and answer.stamp_ns == stamp_ms * MS
        loop.reset()  # its count of calls
        return (float(answer.outputs["rotor_speed"][0]) - 1000.0) / 100.0 if loop.counts.steps > steps else np.nan

    def test_it_is_needed_once_and_never_stale(self, loop: PolicyLoop) -> None:
        assert loop.missing == {"odom", "goal_path"} and loop.sensors == ("odom",)
        assert feed(loop, [0]) == [] and loop.missing == {"goal_path"}
        loop.on_path(self.path(1000))
        assert loop.missing == frozenset()
        assert self.due(loop, 100_000) == pytest.approx(1.0)

    def test_times_are_seen_from_the_observation_that_is_answered(self, loop: PolicyLoop) -> None:
        loop.on_path(self.path(1000))
        for stamp, wanted in ((500, 0.0), (1000, 0.0), (1250, 0.25), (1900, 0.9), (2000, 1.0), (2400, 1.0)):
            assert self.due(loop, stamp) == pytest.approx(wanted, abs=1e-5)

    def test_a_step_on_a_repeated_observation_answers_that_one(self, loop: PolicyLoop) -> None:
        loop.on_path(self.path(0))
        assert feed(loop, [0, 20]) == [0, 20]
        loop.reset()
        feed(loop, [40])
        again = loop.on_tick(50 * MS)
        assert again is not None and again.stamp_ns == 40 * MS
        assert float(again.outputs["rotor_speed"][0]) == pytest.approx(1000.0 + 100.0 * 0.04 + 10.0, abs=1e-2)

    def test_the_newest_path_counts_whatever_its_number_of_poses(self, loop: PolicyLoop) -> None:
        loop.on_path(self.path(0))
        assert self.due(loop, 500) == pytest.approx(0.5)
        stamps, line = np.arange(5) * 250 * MS, np.zeros((5, 3))
        line[:, 0] = np.linspace(0.0, 2.0, 5)
        loop.on_path(GoalPath(stamps, line, np.tile([0.0, 0.0, 0.0, 1.0], (5, 1))))
        assert self.due(loop, 510) == pytest.approx(1.02)

    @pytest.mark.parametrize("before", [True, False])
    def test_from_now_is_from_the_newest_observation_or_else_the_first(self, loop: PolicyLoop, before: bool) -> None:
        if before:
            feed(loop, [70_000])
        loop.on_path(self.path(500), from_now=True)
        for stamp, wanted in ((70_000, 0.0), (70_500, 0.0), (70_750, 0.25), (72_000, 1.0)):
            if not (before and stamp == 70_000):
                assert self.due(loop, stamp) == pytest.approx(wanted, abs=1e-5)


class Driving:
    """A policy on odometry and scans that says how often it was stepped."""

    def __init__(self) -> None:
        self.path, self.steps = Path("driving"), 0
        self.contract = contract_for(
            load_robot("turtlebot3_burger"), ("scan", "position"), ("twist",), name="d", task="t", rate_hz=10.0
        )

    def reset(self, batch: int = 1) -> None:
        self.steps = 0

    def step(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        self.steps += 1
        return {"twist": np.array([inputs["scan"][0], self.steps])}


def scan(value: float) -> dict[str, np.ndarray]:
    return {"scan": np.full(360, value)}


def test_odometry_makes_a_base_step_whatever_the_contract_names_first_and_bears_the_answer() -> None:
    loop = PolicyLoop(Driving(), latched=LATCHED)  # type: ignore[arg-type]
    assert loop.trigger == "odom"
    assert loop.on_message("scan", 5 * MS, scan(1.0)) is None
    answer = loop.on_message("odom", 20 * MS, HERE)
    assert answer is not None and answer.stamp_ns == 20 * MS


def test_in_lock_step_a_slower_lidar_is_waited_for_where_its_next_scan_is_due_and_only_there() -> None:
    loop = PolicyLoop(Driving(), latched=LATCHED, lock_step=True, every_ns={"scan": 100 * MS})  # type: ignore[arg-type]
    assert loop.on_message("odom", 0, HERE) is None
    assert loop.on_message("scan", 0, scan(1.0)) is not None
    assert loop.on_message("odom", 50 * MS, HERE) is not None  # between two scans
    assert loop.on_message("odom", 100 * MS, HERE) is None
    answer = loop.on_message("scan", 100 * MS, scan(2.0))
    assert answer is not None and answer.outputs["twist"][0] == 2.0
    assert loop.on_message("scan", 200 * MS, scan(3.0)) is None  # it has overtaken its odometry
    answer = loop.on_message("odom", 200 * MS, HERE)
    assert answer is not None and answer.outputs["twist"][0] == 3.0


def test_a_scan_is_stale_by_its_own_rate() -> None:
    loop = PolicyLoop(Driving(), latched=LATCHED, every_ns={"scan": 200 * MS})  # type: ignore[arg-type]
    loop.on_message("scan", 0, scan(1.0))
    answered = [t for t in range(0, 800, 100) if loop.on_message("odom", t * MS, HERE) is not None]
    assert answered == [0, 100, 200, 300, 400]
    assert "scan is 700 ms off" in loop.counts.warning


class Looking:
    """A policy for a Panda that says how old the picture is and what it shows."""

    path = "looking.onnx"

    def __init__(self, inputs: tuple[str, ...] = ("wrist_image", "wrist_image_age", "joint_position")) -> None:
        self.contract = contract_for(
            load_robot("panda"), inputs, ["joint_target"], name="looking", task="t", rate_hz=20.0
        )

    def reset(self) -> None:
        pass

    def step(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"joint_target": np.array([inputs["wrist_image_age"][0], float(inputs["wrist_image"][0, 0, 0])])}


WRIST = "wrist/image_raw"
POSED = {"joint_position": np.zeros(9)}


def looking(**options: object) -> PolicyLoop:
    return PolicyLoop(Looking(), latched=LATCHED, cameras={WRIST: (15.0, 30 * MS)}, **options)  # type: ignore[arg-type]


def shown(value: int) -> dict[str, np.ndarray]:
    return {"wrist_image": np.full((84, 84, 3), value, dtype=np.uint8)}


def test_joint_states_make_the_policy_step_on_the_newest_picture_with_its_age() -> None:
    loop = looking()
    assert loop.trigger == "joint_states" and loop.on_message("joint_states", 1000 * MS, POSED) is None
    assert loop.on_message(WRIST, 990 * MS, shown(1)) is None
    assert loop.on_message(WRIST, 920 * MS, shown(9)) is None  # older: the newest is kept
    for stamp_ms, age_s in ((1010, 0.02), (1060, 0.07), (1110, 0.12)):
        answer = loop.on_message("joint_states", stamp_ms * MS, POSED)
        assert answer is not None and answer.outputs["joint_target"] == pytest.approx([age_s, 1.0])
    loop.on_message(WRIST, 1161 * MS, shown(2))  # newer than the joint states: of now
    answer = loop.on_message("joint_states", 1160 * MS, POSED)
    assert answer is not None and answer.outputs["joint_target"] == pytest.approx([0.0, 2.0])


@pytest.mark.parametrize(("given_s", "last_ms"), [(0.0, 250), (0.12, 100)])
def test_a_picture_that_is_too_old_stops_the_commands_until_another_comes(given_s: float, last_ms: int) -> None:
    loop = looking(picture_max_age_s=given_s)
    loop.on_message(WRIST, 0, shown(1))
    answered = [t for t in range(0, 500, 50) if loop.on_message("joint_states", t * MS, POSED) is not None]
    assert answered == list(range(0, last_ms + 1, 50))
    assert "wrist/image_raw is 450 ms off: no command" in loop.counts.warning
    loop.on_message(WRIST, 480 * MS, shown(2))
    assert loop.on_message("joint_states", 500 * MS, POSED) is not None and loop.counts.warning == ""
    loop.on_message(WRIST, 9000 * MS, shown(3))  # of another clock
    assert loop.on_message("joint_states", 550 * MS, POSED) is None


def test_in_lock_step_a_picture_is_waited_for_where_one_is_to_come() -> None:
    loop = looking(lock_step=True)
    assert loop.on_message("joint_states", 7000 * MS, POSED, restarted=True) is None
    assert loop.on_message(WRIST, 7000 * MS, shown(0)) is not None
    answered = [t for t in range(10, 100, 10) if loop.on_message("joint_states", (7000 + t) * MS, POSED) is not None]
    assert answered == list(range(10, 100, 10))  # taken 70 ms after the first, there 30 ms later
    assert loop.on_message("joint_states", 7100 * MS, POSED) is None
    answer = loop.on_message(WRIST, 7070 * MS, shown(1))
    assert answer is not None and answer.outputs["joint_target"] == pytest.approx([0.03, 1.0])
    assert (
        loop.on_message("joint_states", 9000 * MS, POSED, restarted=True) is None
    )  # another flight: that picture is of the last one
    assert loop.on_message(WRIST, 9000 * MS, shown(2)) is not None


def test_pictures_alone_make_nothing_step() -> None:
    with pytest.raises(UserError, match="reads pictures alone"):
        PolicyLoop(Looking(("wrist_image",)), latched=LATCHED)  # type: ignore[arg-type]


def test_the_file_s_own_greatest_ages_hold(counting_file: Path, tmp_path: Path) -> None:
    policy = load_policy(counting_file)
    envelope = Envelope(version=1, max_age_s={"position": 0.05})
    policy.contract = replace(policy.contract, envelope=envelope)
    loop = PolicyLoop(policy, latched=LATCHED)
    assert feed(loop, [0, 20]) == [0, 20]
    assert loop.on_tick(65 * MS) is not None and loop.on_tick(75 * MS) is None
    assert "odom is 55 ms old" in loop.counts.warning
    strict = PolicyLoop(policy, latched=LATCHED, stale_after_periods=2.0)  # an operator asks for less
    assert strict.greatest_age_ns("odom") == 20 * MS and loop.greatest_age_ns("odom") == 50 * MS


def test_late_people_are_where_they_walked_to(tmp_path: Path) -> None:
    """The policy's command is the people's mean position along x."""
    robot = load_robot("turtlebot3_burger")
    inputs = ("position", "people_position", "people_velocity")
    graph = """
        <ir_version: 8, opset_import: ["" : 18]>
        g (float[batch, 3] position, float[batch, people, 3] people_position, float[batch, people, 3] people_velocity)
          => (float[batch, 2] twist) {
            axis = Constant <value: tensor = int64[1] {1}> ()
            low = Constant <value: tensor = float[1] {-0.2}> ()
            high = Constant <value: tensor = float[1] {0.2}> ()
            place = ReduceMean <keepdims = 0> (people_position, axis)
            two = Constant <value: tensor = int64[1] {2}> ()
            begin = Constant <value: tensor = int64[1] {0}> ()
            both = Slice (place, begin, two, axis)
            nothing = Constant <value: tensor = float[1] {0.0}> ()
            moving = ReduceMean <keepdims = 0> (people_velocity, axis)
            few = Slice (moving, begin, two, axis)
            none = Mul (few, nothing)
            sum = Add (both, none)
            rest = Slice (position, begin, two, axis)
            gone = Mul (rest, nothing)
            total = Add (sum, gone)
            twist = Clip (total, low, high)
        }
    """
    model = onnx.parser.parse_model(graph)
    contract = contract_for(robot, inputs, ["twist"], name="people", task="base_crowd", rate_hz=10.0)
    write_policy(model, contract, tmp_path / "people.onnx")
    loop = PolicyLoop(load_policy(tmp_path / "people.onnx"), latched=LATCHED, stale_after_periods=5.0)
    seen = {"people_position": np.zeros((1, 3)), "people_velocity": np.array([[0.5, -0.25, 0.0]])}
    loop.on_message("people", 0, seen)
    for late_ms in (0, 100, 300):
        answer = loop.on_message("odom", late_ms * MS, HERE)
        assert answer is not None
        expected = np.clip([0.5e-3 * late_ms, -0.25e-3 * late_ms], -0.2, 0.2)
        assert answer.outputs["twist"] == pytest.approx(expected, abs=1e-6)
    assert loop.on_message("odom", 600 * MS, HERE) is None and "people is 600 ms off" in loop.counts.warning


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"position": np.array([0.0, np.nan, 0.0])}, "position: holds a value that is not finite"),
        ({"orientation": np.zeros(4)}, "orientation: a quaternion of length 0 is not allowed"),
    ],
)
def test_what_is_not_finite_is_refused_with_a_sentence(tmp_path: Path, wrong: dict[str, np.ndarray], said: str) -> None:
    path = write_constant_policy(tmp_path / "pose.onnx", ROBOT, 700.0, ("position", "orientation"))
    loop = PolicyLoop(load_policy(path), latched=LATCHED)
    good = {"position": np.zeros(3), "orientation": np.array([0.0, 0.0, 0.0, 1.0])}
    assert loop.on_message("odom", 0, good) is not None
    assert loop.on_message("odom", 10 * MS, {**good, **wrong}) is None
    assert loop.counts.refused == 1 and said in loop.counts.last_refusal
    assert loop.on_message("odom", 20 * MS, good) is not None


def test_another_policy_steps_on_without_a_pause_and_takes_over_the_recurrent_state(
    loop: PolicyLoop, counting_file: Path, tmp_path: Path
) -> None:
    assert feed(loop, [0, 10]) == [0, 10]
    loop.swap(load_policy(counting_file))
    answer = loop.on_message("odom", 20 * MS, HERE)
    assert answer is not None and count(answer) == 2 and loop.counts.resets == 0
    loop.swap(load_policy(write_constant_policy(tmp_path / "constant.onnx", ROBOT, 500.0)))
    answer = loop.on_message("odom", 30 * MS, HERE)
    assert answer is not None and count(answer) == 400 and loop.counts.resets == 1
