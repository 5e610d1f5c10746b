from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from rclpy.serialization import deserialize_message, serialize_message

from rlstack.bringup.explain.command import Explain
from rlstack.bringup.explain.explanation import Explanation, explain
from rlstack.bringup.explain.page import render
from rlstack.bringup.explain.recorded_run import read_run
from rlstack.bringup.explain.rerun import Taken
from rlstack.bringup.explain.steps import Step, match
from rlstack.bringup.explain.text import text_of
from rlstack.bringup.explain.training_range import Normaliser
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.step_messages import PolicyFile, file_text
from rlstack.policies import find_policy, load_policy
from tests.bringup.explain.flights import PERIOD_NS, ROBOT, START_NS, Flight
from tests.support.policies import write_counting_policy, write_hover_policy

pytest.importorskip("mcap")


@pytest.fixture(scope="module")
def hover(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its rotors' speeds are its recurrent state."""
    return write_hover_policy(tmp_path_factory.mktemp("policies") / "hover.onnx", ROBOT)


def explained(flight: Flight, folder: Path, without: tuple[str, ...] = ()) -> Explanation:
    return explain(read_run(flight.write(folder, without=without), policy=flight.policy))


def test_a_rerun_gives_the_recorded_commands_to_the_last_bit(hover: Path, tmp_path: Path) -> None:
    flight = Flight(hover, reset_at=(20,))
    found = explained(flight, tmp_path / "bag")
    assert found.rerun.told and found.rerun.compared == found.rerun.identical == 60
    assert found.rerun.largest == 0.0 and found.rerun.uncertain == 0 and found.is_faithful
    assert found.conclusion.startswith("All 60 commands that can be compared are those of the policy file, the same to")
    assert (
        found.verdict == "good" and found.guard.limited is None and not found.silences and not found.timings[0].faults
    )


def test_a_changed_input_is_named_with_the_command_that_does_not_fit_it(hover: Path, tmp_path: Path) -> None:
    flight = Flight(hover)
    at = flight.place_of(topics.ODOM, 30)
    received, topic, kind, data = flight.messages[at]
    odometry = deserialize_message(data, topics.type_of(topics.ODOM))
    odometry.pose.pose.position.x += 0.2
    flight.messages[at] = (received, topic, kind, serialize_message(odometry))
    found = explained(flight, tmp_path / "bag")
    first = found.rerun.differences[0]
    assert (first.topic, first.number, first.stamp_ns) == (
        "/crazyflie/policy/cmd/rotors",
        31,
        START_NS + 30 * PERIOD_NS,
    )
    assert first.element in ("m1", "m2", "m3", "m4") and abs(first.recorded - first.again) > 1.0
    assert (
        "message 31 (stamp 1700000000.300000000 s" in found.conclusion
        and "a fault of the deployment" in found.conclusion
    )
    assert found.rerun.identical >= 30


def test_a_changed_command_is_a_fault_of_that_command_alone(hover: Path, tmp_path: Path) -> None:
    flight = Flight(hover)
    at = flight.place_of("policy/cmd/rotors", 12)
    received, topic, kind, data = flight.messages[at]
    command = deserialize_message(data, topics.type_of(topics.ROTOR_COMMAND))
    command.velocity[2] += 5.0
    flight.messages[at] = (received, topic, kind, serialize_message(command))
    (one,) = explained(flight, tmp_path / "bag").rerun.differences
    assert (one.number, one.element) == (13, "m3") and one.recorded - one.again == pytest.approx(5.0)


def test_messages_that_are_missing_or_out_of_order_are_named_and_no_fault_of_the_policy(
    hover: Path, tmp_path: Path
) -> None:
    flight = Flight(hover, reset_at=(40,))
    places = [flight.place_of(topics.ODOM, number) for number in (10, 20, 21)]
    one, two = flight.messages[places[1]], flight.messages[places[2]]
    flight.messages[places[1]], flight.messages[places[2]] = (one[0], *two[1:]), (two[0], *one[1:])
    del flight.messages[places[0]]
    found = explained(flight, tmp_path / "bag")
    assert found.rerun.missing == {"odom": 1} and found.is_faithful
    assert found.rerun.uncertain == 30 and found.rerun.compared == 30  # its state is known again after the reset
    assert "odom: message 21 is out of order" in found.timings[0].faults[0].text


def test_without_the_nodes_word_the_messages_are_inferred_from_their_receipt(hover: Path, tmp_path: Path) -> None:
    found = explained(Flight(hover), tmp_path / "bag", without=(topics.POLICY_STEPS, topics.POLICY_HELD))
    assert not found.rerun.told and found.rerun.identical == found.rerun.compared == 60
    assert "inferred" in text_of(found)


def test_a_reset_is_part_of_the_rerun(tmp_path: Path) -> None:
    counting = write_counting_policy(tmp_path / "counting.onnx", ROBOT)
    found = explained(Flight(counting, reset_at=(7, 9)), tmp_path / "bag")
    assert found.rerun.identical == 60


def test_an_intervention_has_its_reason_its_cause_and_the_input_that_mattered(tmp_path: Path) -> None:
    flight = Flight(
        find_policy("quadrotor_hover"), place=lambda t: [7.0 if t > 0.4 else 0.3 * np.sin(9.0 * t), 0.0, 1.2]
    )
    flight.say(0.05, "policy", "armed")
    flight.say(0.5, "hover", "outside of the geofence")
    found = explained(flight, tmp_path / "bag")
    assert [(stay.mode, stay.role, stay.intervened) for stay in found.guard.stays] == [
        ("policy", "normal", False),
        ("hover", "intervention", True),
    ]
    assert "took over once, at 0.50 s (hover: outside of the geofence)" in found.conclusion
    assert "The robot was outside of the policy's training just before: position from goal_position" in found.conclusion
    assert found.verdict == "doubtful"
    (window,) = found.influences
    assert window.ranked[0][0] == "position" and window.ranked[0][1] > 0.01
    assert "orientation" not in window.change  # it never changed
    away = next(one for one in found.outside if one.bound.quantity == "position from goal_position")
    assert away.share == pytest.approx(19 / 60) and away.events[0].start_s == pytest.approx(0.41, abs=0.01)
    data = json.loads(json.dumps(found.to_json()))
    assert data["guard"]["interventions"] == 1 and data["rerun"]["compared"] == 60


def test_late_messages_and_silences_are_told(hover: Path, tmp_path: Path) -> None:
    flight = Flight(hover)
    for number in range(30, 36):
        at = flight.place_of(topics.ODOM, number)
        flight.messages[at] = (flight.messages[at][0] + 200_000_000, *flight.messages[at][1:])
    gone = [flight.place_of("policy/cmd/rotors", number) for number in range(45, 50)]
    flight.messages = [one for k, one in enumerate(flight.messages) if k not in gone]
    found = explained(flight, tmp_path / "bag")
    timing = found.timings[0]
    assert (
        timing.delay_s is not None and timing.delay_s[0] == pytest.approx(0.001, abs=1e-4) and timing.delay_s[1] > 0.19
    )
    assert any("ms old when the recorder received it, proven up to" in event.text for event in timing.faults)
    assert any("no command for 0.060 s" in e.text and "5 messages of odom were there" in e.text for e in found.silences)


def test_the_policy_must_be_the_one_that_ran(hover: Path, tmp_path: Path) -> None:
    bag = Flight(hover, count=5).write(tmp_path / "bag")
    other = write_counting_policy(tmp_path / "other.onnx", ROBOT)
    with pytest.raises(UserError, match=r"other\.onnx is not the policy that ran in .*: its SHA-256 is"):
        read_run(bag, policy=other)
    with pytest.raises(UserError, match=r"neither a released one nor in runs/ here: give its file with --policy"):
        read_run(bag)
    with pytest.raises(UserError, match="panda"):
        read_run(bag, robot="panda", policy=hover)


def test_a_bag_without_a_policy_or_with_several_is_refused(hover: Path, tmp_path: Path) -> None:
    flight = Flight(hover, count=5)
    two = flight.write(tmp_path / "two", spaces={"/other/policy_sha256": "abc"})
    with pytest.raises(UserError, match="2 robots with policies, /crazyflie, /other: choose with --robot"):
        read_run(two, policy=hover)
    assert read_run(two, robot="crazyflie", policy=hover).namespace == "/crazyflie"
    silent = flight.write(tmp_path / "silent", without=("policy/cmd/rotors",))
    with pytest.raises(UserError, match="no command of the policy"):
        read_run(silent, policy=hover)


def test_the_page_has_the_conclusion_the_replay_and_its_timeline_and_needs_nothing(hover: Path, tmp_path: Path) -> None:
    flight = Flight(hover, count=12)
    flight.say(0.02, "policy", "armed <b>")
    page = render(explained(flight, tmp_path / "bag"))
    assert "__VISER_EMBED_DATA__" in page and "armed &lt;b&gt;" in page and "replayed_s" in page
    assert 'src="http' not in page and 'href="http' not in page
    assert "All 12 commands that can be compared" in page


def test_the_command_prints_json_and_says_by_its_status_whether_the_deployment_is_faithful(
    hover: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bag = Flight(hover, count=5).write(tmp_path / "bag")
    assert Explain(bag, policy=hover, no_page=True, json=True).run() == 0
    assert json.loads(capsys.readouterr().out)["faithful"] is True


def test_commands_are_matched_by_their_stamps_and_not_guessed() -> None:
    stamps = np.array([1, 2, 2, 3, 4])
    assert match(stamps, np.array([1, 2, 2, 4])) == [0, 1, 2, None, 3]
    assert match(stamps, np.array([1, 2, 3, 4])) == [0, None, None, 2, 3]


def test_the_statistics_in_a_policys_graph_tell_how_far_observations_are_from_training() -> None:
    policy = load_policy("arm_reach")
    normaliser = Normaliser(policy)
    rest = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8, 0.02, 0.02])
    inputs = {"joint_position": rest, "joint_velocity": np.zeros(9), "goal_position": np.array([0.5, 0.0, 0.3])}
    state = {name: value[0] for name, value in policy.state.items()}
    near = normaliser.distances(Taken(Step(1, 1, 0, {}, None, None, 0), inputs, state, {}, True))
    far = normaliser.distances(
        Taken(Step(1, 1, 0, {}, None, None, 0), {**inputs, "goal_position": np.array([9.0, 0.0, 0.3])}, state, {}, True)
    )
    assert "goal_offset" in near and max(near.values()) < 5.0 < far["goal_offset"]
    assert not Normaliser(load_policy("quadrotor_hover")).exists


def test_what_another_policy_file_flew_is_not_run_again(hover: Path, tmp_path: Path) -> None:
    flight = Flight(hover)
    for file in (PolicyFile(str(hover), load_policy(hover).sha256, 0), PolicyFile("next.onnx", "0" * 64, 40)):
        flight.add(START_NS, topics.POLICY_FILE, topics.type_of(topics.POLICY_FILE)(data=file_text(file)))
    found = explained(flight, tmp_path / "bag")
    assert found.rerun.compared == found.rerun.identical == 40
    assert "After step 40 next.onnx (0000000000000000...) took the policy's place" in text_of(found)
