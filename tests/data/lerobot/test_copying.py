"""A dataset fits a policy or is refused by name, and episodes are copied into another dataset."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlstack.data.lerobot import Dataset, DatasetWriter, Feature, check_fits, image, number, vector
from rlstack.data.lerobot.copying import copy_episodes
from rlstack.errors import UserError

FEATURES = {
    "observation.state": vector("x", "y"),
    "action": vector("vx", "vy"),
    "next.success": number("bool"),
}


def record(path: Path, features: dict[str, Feature]) -> Path:
    rng = np.random.default_rng(0)
    with DatasetWriter(path, 10, "so100", features) as writer:
        for episode in range(3):
            for step in range(4 + episode):
                frame = {"observation.state": rng.normal(size=2).astype(np.float32), "action": [step, episode]}
                seen = {name: np.zeros((4, 4, 3), np.uint8) for name in features if features[name].is_image}
                writer.add_frame({**frame, **seen, "next.success": step == 3 + episode})
            writer.end_episode(f"Bring {episode}.")
    return path


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("base") / "base", FEATURES)


@pytest.mark.parametrize(
    ("robot", "rate", "change", "message"),
    [
        ("panda", 10, {}, "recorded with the robot 'so100', not 'panda'"),
        ("so100", 20, {}, "recorded at 10 Hz, not 20 Hz"),
        ("so100", 10, {"observation.images.wrist": image(4, 4)}, "no camera 'observation.images.wrist'"),
        ("so100", 10, {"action": vector("vy", "vx")}, "elements vx, vy, not vy, vx"),
        ("so100", 10, {"observation.effort": number()}, "no feature 'observation.effort'"),
    ],
)
def test_demonstrations_of_something_else_are_refused_by_name(
    base: Path, robot: str, rate: float, change: dict, message: str
) -> None:
    held = Dataset(base)
    with pytest.raises(UserError, match=message):
        check_fits((held.robot_type, held.fps, held.features), (robot, rate, {**FEATURES, **change}), str(base))


def test_a_dataset_may_hold_more_than_is_needed(tmp_path: Path) -> None:
    path = record(tmp_path, {**FEATURES, "observation.images.wrist": image(4, 4)})
    held = Dataset(path)
    check_fits((held.robot_type, held.fps, held.features), ("so100", 10, FEATURES), str(path))
    assert [len(held.read(episode, ["action"])["action"]) for episode in range(len(held))] == [4, 5, 6]


def test_some_are_copied_as_they_are(tmp_path: Path, base: Path) -> None:
    source = Dataset(base)
    assert copy_episodes(source, tmp_path / "some", [2, 0]) == 2
    copied = Dataset(tmp_path / "some")
    for index, episode in enumerate((2, 0)):
        for name, values in source.read(episode).items():
            np.testing.assert_array_equal(copied.read(index)[name], values)
        assert copied.episodes[index].tasks == (f"Bring {episode}.",)
    with pytest.raises(UserError, match="being read"):
        copy_episodes(source, base, [0])


def test_the_copy_of_an_episode_with_several_tasks_has_them_frame_by_frame(tmp_path: Path) -> None:
    said = ["Lift it.", "Lift it.", "Put it down.", "Lift it."]
    with DatasetWriter(tmp_path / "held", 10, "so100", {"action": vector("a")}) as writer:
        for task in (["Wait."], said):
            for _ in task:
                writer.add_frame({"action": [0.0]})
            writer.end_episode(task)
        writer.add_frame({"action": [0.0]})
        with pytest.raises(UserError, match="An episode of 1 frames cannot have 4 tasks"):
            writer.end_episode(said)
    held = Dataset(tmp_path / "held")
    assert held.episodes[1].tasks == ("Lift it.", "Put it down.") and held.tasks == ("Wait.", *held.episodes[1].tasks)
    copy_episodes(held, tmp_path / "some", [1, 0])
    some = Dataset(tmp_path / "some")
    assert some.words(0) == said and some.words(1) == ["Wait."]
    assert some.tasks == ("Lift it.", "Put it down.", "Wait.")


def test_who_learns_from_what_is_cut_off_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = record(tmp_path, FEATURES)
    (listed,) = path.glob("meta/episodes/*/*.parquet")
    listed.write_bytes(listed.read_bytes()[:-50])
    assert len(Dataset(path)) == 3
    assert len(caplog.messages) == 1 and f"{path} is cut off: meta/episodes/" in caplog.messages[0]
