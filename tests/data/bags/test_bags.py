"""Bags become episodes and episodes bags, and nothing is lost on the way there and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlstack import cli
from rlstack.data.lerobot import Dataset, DatasetWriter, image, number, vector
from rlstack.errors import UserError

pytest.importorskip("rosbags")

from rlstack.data.bags import add_bag, features_of, moments, open_bag, write_bag
from rlstack.data.bags.writing import _Bag

JOINTS = ("shoulder", "elbow")
FEATURES = {
    "observation.state": vector("shoulder.pos", "elbow.pos", "shoulder.vel", "elbow.vel"),
    "observation.images.wrist": image(6, 8),
    "action": vector("shoulder.pos", "elbow.pos"),
    "intervention": number("bool"),
}


def frames(count: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    return [
        {
            "observation.state": rng.normal(size=4).astype(np.float32),
            "observation.images.wrist": rng.integers(0, 256, (6, 8, 3)).astype(np.uint8),
            "action": rng.normal(size=2).astype(np.float32),
            "intervention": k in (0, 2, 3),
        }
        for k in range(count)
    ]


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    with DatasetWriter(tmp_path / "shown", 30, "so100", FEATURES) as writer:
        for number in (4, 13):
            for frame in frames(number):
                writer.add_frame(frame)
            writer.end_episode("Put it there.")
    return Dataset(tmp_path / "shown")


def test_a_dataset_becomes_bags_and_a_dataset_again(dataset: Dataset, tmp_path: Path) -> None:
    again = tmp_path / "again"
    for episode in range(len(dataset)):
        bag = tmp_path / "bags" / str(episode)
        write_bag(bag, dataset, episode)
        recording = open_bag(bag, JOINTS)
        features = features_of(recording, JOINTS)
        assert features == FEATURES and recording.namespace == "/so100"
        with DatasetWriter(again, dataset.fps, "so100", features) as writer:
            add_bag(writer, recording, dataset.fps, "Put it there.")
    for before, after in zip(dataset, Dataset(again), strict=True):
        assert before.keys() == after.keys()
        for name in before:
            np.testing.assert_array_equal(before[name], after[name])
    with pytest.raises(UserError, match="exists already: give a new folder"):
        write_bag(bag, dataset, 0)


def bag_of(
    path: Path,
    states: dict[float, float],
    commands: dict[float, float],
    *,
    robots: tuple[str, ...] = ("",),
    led: dict[float, bool] | None = None,
    stops: tuple[float, ...] = (),
    begin_s: float = 1.0,
) -> Path:
    """Write a bag in which the elbow is where it is said to be at these times, s."""
    with _Bag(path) as bag:
        for robot in robots:
            said = [(at, place, "state") for at, place in states.items()]
            said += [(at, place, "command") for at, place in commands.items()]
            said += [(at, 0.0, "stop") for at in stops]
            said += [(at, float(on), "who leads") for at, on in (led or {}).items()]
            for at, place, kind in sorted(said, key=lambda row: (row[0], row[2] != "state")):
                stamp = round(1e9 * (begin_s + at))
                both = np.array([place, 0.0])  # the other order than the robot's
                if kind == "stop":
                    kind, nothing = "trajectory_msgs/msg/JointTrajectory", {"joint_names": [], "points": []}
                    bag.say(f"{robot}/cmd/joints", kind, stamp, header=bag.header(stamp), **nothing)
                elif kind == "who leads":
                    bag.say(f"{robot}/teleop/intervene", "std_msgs/msg/Bool", stamp, data=bool(place))
                elif kind == "command":
                    bag.trajectory(f"{robot}/cmd/joints", stamp, ["elbow", "shoulder"], both)
                else:
                    header, none = bag.header(stamp), np.empty(0)
                    given = {"name": ["elbow", "shoulder"], "position": both, "velocity": none, "effort": none}
                    bag.say(f"{robot}/joint_states", "sensor_msgs/msg/JointState", stamp, header=header, **given)
    return path


def add(path: Path, out: Path, fps: float, **more: Any) -> dict[str, np.ndarray]:
    recording = open_bag(path, JOINTS, **more)
    with DatasetWriter(out, fps, "so100", features_of(recording, JOINTS)) as writer:
        add_bag(writer, recording, fps, "")
    return Dataset(out).read(0)


def test_a_frame_holds_what_was_known_then_and_the_answer_to_it(tmp_path: Path) -> None:
    # states at 100 Hz, answers to each fifth of them that are logged when they come: 20 Hz, from 0.1 s on
    states = {k / 100: k / 100 for k in range(101)}
    commands = {k / 20: 10.0 + k for k in range(2, 19)}
    bag = bag_of(tmp_path / "bag", states, commands)
    held = add(bag, tmp_path / "out", 20)
    assert held["observation.state"].shape == (17, 2)
    np.testing.assert_allclose(held["observation.state"][:, 1], np.arange(2, 19) / 20, atol=1e-6)
    assert held["action"][:, 1].tolist() == [10.0 + k for k in range(2, 19)]
    assert "intervention" not in held, "nobody could"
    slow = add(bag, tmp_path / "slow", 7)
    assert slow["action"][:, 1].tolist() == [10.0 + int(20 * (0.1 + k / 7) + 1e-9) for k in range(6)]


def test_images_keep_their_ages_on_the_way_through_a_bag(tmp_path: Path) -> None:
    """A camera at 15 Hz, 30 ms late, seen at 20 Hz: some frames show the last image again, which is older then."""
    rng, features = np.random.default_rng(1), {**FEATURES, "observation.wrist_image_age": vector("s")}
    del features["intervention"]
    pictures = rng.integers(0, 256, (40, 6, 8, 3)).astype(np.uint8)
    newest = [int(np.floor((k / 20 + 0.0334 - 0.03) * 15 + 1e-9)) for k in range(25)]  # begun before the first frame
    ages = [round(k / 20 - (number / 15 - 0.0334), 6) for k, number in enumerate(newest)]
    assert len(set(newest)) < 25 and min(ages) >= 0.03 and max(ages) < 0.1
    with DatasetWriter(tmp_path / "shown", 20, "so100", features) as writer:
        for number, age in zip(newest, ages):
            state, action = (rng.normal(size=n).astype(np.float32) for n in (4, 2))
            shown = {"observation.images.wrist": pictures[number], "observation.wrist_image_age": np.float32([age])}
            writer.add_frame({"observation.state": state, "action": action, **shown})
        writer.end_episode("")
    write_bag(tmp_path / "bag", Dataset(tmp_path / "shown"), 0)
    recording = open_bag(tmp_path / "bag", JOINTS)
    assert len(recording.cameras["wrist"][0]) == len(set(newest))  # an image that is shown again is written once
    known = moments(recording, 20, cameras=("wrist",))
    np.testing.assert_allclose(known.ages["wrist"], ages, atol=2e-6)
    for k, number in enumerate(newest):
        np.testing.assert_array_equal(known.images["wrist"].take(k), pictures[number])


def test_who_led_is_kept_frame_by_frame(tmp_path: Path) -> None:
    states, commands = {k / 100: 0.0 for k in range(101)}, {k / 20: 0.0 for k in range(21)}
    bag = bag_of(
        tmp_path / "bag", states, commands, led={0.0: False, 0.3: True, 0.7: False}, stops=(0.0, 0.99), begin_s=0.0
    )
    led = add(bag, tmp_path / "out", 20)["intervention"]
    assert led.ravel().tolist() == [6 < k <= 14 for k in range(21)], "the frames after the state that it was said after"


def posed(path: Path, frame: str = "odom") -> Path:
    """Write a bag with a goal, later another one, and an object that is tracked at 50 Hz."""
    with _Bag(path) as bag:
        types, none = bag._store.types, np.empty(0)

        def say(topic: str, place: float, logged_ns: int, stamp_ns: int) -> None:
            pose = types["geometry_msgs/msg/Pose"](
                position=types["geometry_msgs/msg/Point"](x=place, y=0.0, z=0.0),
                orientation=types["geometry_msgs/msg/Quaternion"](x=0.0, y=0.0, z=1.0, w=0.0),
            )
            header = bag.header(stamp_ns, frame)
            bag.say(topic, "geometry_msgs/msg/PoseStamped", logged_ns, header=header, pose=pose)

        for k in range(101):
            stamp = 1_000_000_000 + k * 10_000_000
            if k in (3, 60):
                say("/goal", float(k), stamp - 1_000_000, 77)  # by a clock of its own
            if k % 2 == 0:
                say("/object", float(k), stamp, stamp)
            given = {"name": list(JOINTS), "position": np.zeros(2), "velocity": none, "effort": none}
            bag.say("/joint_states", "sensor_msgs/msg/JointState", stamp, header=bag.header(stamp), **given)
            if k % 5 == 0:
                bag.trajectory("/cmd/joints", stamp, list(JOINTS), np.full(2, float(k)))
    return path


def test_a_goal_holds_until_another_is_said_and_an_object_is_tracked(tmp_path: Path) -> None:
    recording = open_bag(posed(tmp_path / "bag"), JOINTS)
    known = moments(recording, 10, poses=("goal", "object"), until_next=True)
    assert known.poses["goal"][:, 0].tolist() == [3.0] * 6 + [60.0] * 5, "from the frame after it was said"
    assert known.poses["object"][:, 0].tolist() == [10.0 * k for k in range(11)]
    assert known.poses["object"][0, 3:].tolist() == [0.0, 0.0, 1.0, 0.0]
    assert known.command[:, 0].tolist() == [10.0 * k + 5.0 for k in range(10)] + [100.0], "the last before the next"
    assert moments(recording, 10).command[:, 0].tolist() == [10.0 * k for k in range(11)]
    with pytest.raises(UserError, match=r"/object is in the frame 'camera_link', not in odom"):
        open_bag(posed(tmp_path / "eye", "camera_link"), JOINTS)


def test_bags_that_do_not_fit_are_refused_by_name(tmp_path: Path) -> None:
    states, commands = {k / 100: 0.0 for k in range(201)}, {k / 20: 0.0 for k in range(41)}
    bag = bag_of(tmp_path / "bag", states, commands)
    with pytest.raises(UserError, match=r"does not fit the robot: .*missing: wrist"):
        open_bag(bag, ("shoulder", "elbow", "wrist"))
    with pytest.raises(UserError, match=r"has no topic /joint_states|has no topic /arm/joint_states"):
        open_bag(bag, JOINTS, namespace="arm")
    with pytest.raises(UserError, match=r"has no topic /cmd/arm\. It has: /cmd/joints, /joint_states"):
        open_bag(bag, JOINTS, command="cmd/arm")
    two = bag_of(tmp_path / "two", states, commands, robots=("/left", "/right"))
    with pytest.raises(UserError, match="has 2 robots, /left, /right: choose one with --namespace"):
        open_bag(two, JOINTS)
    assert len(open_bag(two, JOINTS, namespace="right").command) == 41
    with pytest.raises(UserError, match=r"joint_states at 100 Hz, .* give --fps 100 or less"):
        add(bag, tmp_path / "fast", 500)
    silent = bag_of(tmp_path / "silent", states, {at: 0.0 for at in commands if not 0.5 < at < 1.5})
    with pytest.raises(UserError, match=r"the commands were silent for more than 0\.5 s, 0\.5 s after the beginning"):
        add(silent, tmp_path / "gap", 20)
    assert len(Dataset(tmp_path / "gap")) == 0
    with pytest.raises(UserError, match="There is no bag"):
        open_bag(tmp_path / "none", JOINTS)
    (tmp_path / "torn.mcap").write_bytes(next(bag.glob("*.mcap")).read_bytes()[:200])
    with pytest.raises(UserError, match="cannot be read as a bag"):
        open_bag(tmp_path / "torn.mcap", JOINTS)


def test_by_the_commands_that_users_type(dataset: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bag, out = tmp_path / "bag", tmp_path / "panda"
    assert cli.main(["demo", "export", str(dataset.path), "--episode", "1", "--out", str(bag)]) == 0
    words = ["demo", "import", str(bag), "--robot", "panda", "--fps", "30", "--out", str(out)]
    assert cli.main(words) == 2 and not out.exists()
    assert "does not fit the robot" in capsys.readouterr().err
