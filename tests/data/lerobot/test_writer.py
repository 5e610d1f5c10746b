"""Datasets written and read back: whatever is recorded, wherever the writer is stopped, and what is refused."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.data.lerobot import Dataset, DatasetWriter, Feature, image, number, vector, writer
from rlstack.errors import UserError

FEATURES = {
    "observation.state": vector("shoulder.pos", "elbow.pos", "gripper.pos"),
    "observation.images.wrist": image(6, 8),
    "action": vector("shoulder.pos", "elbow.pos", "gripper.pos"),
    "next.reward": number(),
    "next.success": number("bool"),
    "stage": number("int64"),
}


def frame(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "observation.state": rng.normal(size=3).astype(np.float32),
        "observation.images.wrist": rng.integers(0, 256, (6, 8, 3), dtype=np.uint8),
        "action": rng.normal(size=3).astype(np.float32),
        "next.reward": np.float32(rng.normal()),
        "next.success": bool(rng.integers(2)),
        "stage": int(rng.integers(5)),
    }


def record(path: Path, lengths: list[int], seed: int = 0, **options: Any) -> list[list[dict]]:
    """Record episodes of these lengths; return their frames."""
    rng = np.random.default_rng(seed)
    episodes = []
    given = {"fps": 20, "robot_type": "panda", "features": FEATURES, **options}
    with DatasetWriter(path, **given) as recording:
        for length in lengths:
            episodes.append([frame(rng) for _ in range(length)])
            for one in episodes[-1]:
                recording.add_frame(one)
            recording.end_episode(f"Task {length % 3}.")
    return episodes


def holds(dataset: Dataset, episodes: list[list[dict]]) -> None:
    """The dataset has these frames, in this order, and says so everywhere."""
    starts = [0, *itertools.accumulate(map(len, episodes))]
    assert len(dataset) == len(episodes) == dataset.info.total_episodes
    assert dataset.info.total_frames == starts[-1]
    for index, (episode, frames) in enumerate(zip(dataset.episodes, episodes)):
        places = ["timestamp", "frame_index", "episode_index", "index", "task_index"]
        read = dataset.read(index, [*FEATURES, *places])
        for name in FEATURES:
            expected = np.stack([np.reshape(one[name], FEATURES[name].shape) for one in frames])
            np.testing.assert_array_equal(read[name], expected)
            assert read[name].dtype == ("uint8" if FEATURES[name].is_image else FEATURES[name].dtype)
        count = np.arange(len(frames))
        np.testing.assert_array_equal(read["index"][:, 0], starts[index] + count)
        np.testing.assert_array_equal(read["frame_index"][:, 0], count)
        np.testing.assert_array_equal(read["timestamp"][:, 0], (count / 20).astype(np.float32))
        assert (read["episode_index"] == index).all()
        assert (episode.start, episode.length) == (starts[index], len(frames))
        assert episode.tasks == (f"Task {len(frames) % 3}.",)
        assert {dataset.tasks[number] for number in read["task_index"][:, 0]} == set(episode.tasks)


@settings(deadline=None, max_examples=8)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=7),
    sittings=st.lists(st.integers(1, 3), max_size=6),
    file_bytes=st.sampled_from([1, 4000, 4_000_000]),
    file_rows=st.integers(1, 4),
)
def test_what_is_recorded_is_read_whatever_the_sittings(
    lengths: list[int], sittings: list[int], file_bytes: int, file_rows: int
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "MOST_BYTES", file_bytes)
        patch.setattr(writer, "MOST_ROWS", file_rows)
        left, episodes = list(lengths), []
        for seed, count in enumerate([*sittings, len(lengths)]):
            episodes += record(Path(folder), left[:count], seed)
            left = left[count:]
        dataset = Dataset(folder)
        assert dataset.cut_off == ""
        holds(dataset, episodes)
        statistics_are_right(dataset, episodes)


def statistics_are_right(dataset: Dataset, episodes: list[list[dict]]) -> None:
    found = dataset.statistics()
    for name in ("observation.state", "action", "next.reward", "stage", "next.success"):
        values = np.stack([np.reshape(one[name], -1) for frames in episodes for one in frames]).astype(float)
        np.testing.assert_allclose(found[name]["mean"], values.mean(0), atol=1e-6)
        np.testing.assert_allclose(found[name]["std"], values.std(0), atol=1e-6)
        np.testing.assert_array_equal(found[name]["min"], values.min(0))
        np.testing.assert_array_equal(found[name]["max"], values.max(0))
        assert (found[name]["q01"] <= found[name]["q50"] + 1e-9).all()
        assert found[name]["count"] == [len(values)]
    pixels = np.stack([one["observation.images.wrist"] for frames in episodes for one in frames]) / 255.0
    seen = found["observation.images.wrist"]
    np.testing.assert_allclose(seen["mean"][:, 0, 0], pixels.mean((0, 1, 2)), atol=1e-9)
    np.testing.assert_allclose(seen["std"][:, 0, 0], pixels.std((0, 1, 2)), atol=1e-9)
    np.testing.assert_allclose(seen["min"][:, 0, 0], pixels.min((0, 1, 2)), atol=1e-12)
    assert seen["max"].shape == (3, 1, 1)


def test_quantiles_of_one_episode_are_exact(tmp_path: Path) -> None:
    (frames,) = record(tmp_path, [101])
    found = Dataset(tmp_path).statistics()
    values = np.stack([one["action"] for one in frames]).astype(float)
    np.testing.assert_allclose(found["action"]["q10"], np.quantile(values, 0.1, axis=0))
    pixels = np.stack([one["observation.images.wrist"] for one in frames]).reshape(-1, 3) / 255
    expected = np.quantile(pixels, 0.9, axis=0, method="inverted_cdf")
    np.testing.assert_allclose(found["observation.images.wrist"]["q90"][:, 0, 0], expected)


def test_parts_of_episodes_are_read_alone(tmp_path: Path) -> None:
    (frames,) = record(tmp_path, [700])
    dataset = Dataset(tmp_path)
    for start, stop in ((0, 3), (500, 530), (690, 900), (5, 5)):
        read = dataset.read(0, ["action", "observation.images.wrist"], start, stop)
        expected = np.array([one["action"] for one in frames[start:stop]], np.float32).reshape(-1, 3)
        np.testing.assert_array_equal(read["action"], expected)
        assert set(read) == {"action", "observation.images.wrist"}
        assert len(read["observation.images.wrist"]) == len(expected)


def test_short_episodes_share_files(tmp_path: Path) -> None:
    record(tmp_path, [1] * 70)
    assert len(list(tmp_path.glob("data/*/*"))) == 1
    assert len(list(tmp_path.glob("meta/episodes/*/*"))) == 2


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".writer.lock")


class Stopped(BaseException):
    """What stands in for a kill."""


def stopped_writes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the writer be stopped before its first write, before its second, and so on."""
    real = writer.write_atomically
    for stop in itertools.count():
        done = itertools.count()

        def write(*arguments: Any, done: Iterator[int] = done, stop: int = stop, **options: Any) -> None:
            if next(done) == stop:
                raise Stopped
            real(*arguments, **options)

        monkeypatch.setattr(writer, "write_atomically", write)
        yield
        monkeypatch.setattr(writer, "write_atomically", real)


@pytest.mark.parametrize("file_bytes", [1, 4_000_000])
@pytest.mark.parametrize("file_rows", [1, 64])
def test_a_writer_stopped_between_any_two_files_leaves_the_episodes_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file_bytes: int, file_rows: int
) -> None:
    monkeypatch.setattr(writer, "MOST_BYTES", file_bytes)
    monkeypatch.setattr(writer, "MOST_ROWS", file_rows)
    before = record(tmp_path / "0", [4, 2])
    stops = 0
    for _ in stopped_writes(monkeypatch):
        folder = tmp_path / "stopped"
        shutil.copytree(tmp_path / "0", folder)
        try:
            record(folder, [3], seed=5)
        except Stopped:
            stops += 1
        else:
            break
        dataset = Dataset(folder)
        assert dataset.cut_off == ""
        holds(dataset, before)
        statistics_are_right(dataset, before)
        monkeypatch.undo()
        monkeypatch.setattr(writer, "MOST_BYTES", file_bytes)
        monkeypatch.setattr(writer, "MOST_ROWS", file_rows)
        again = record(folder, [1, 5], seed=6)
        whole = Dataset(folder)
        holds(whole, before + again)
        statistics_are_right(whole, before + again)
        rows = sum(len(whole.read(n, ["action"])["action"]) for n in range(len(whole)))
        assert rows == sum(count_rows(path) for path in folder.glob("data/*/*.parquet")), "rows that are no episode's"
        assert len(whole) == sum(count_rows(path) for path in folder.glob("meta/episodes/*/*.parquet"))
        shutil.rmtree(folder)
    assert stops == 5  # frames, where they are, the new task, statistics, info


def count_rows(path: Path) -> int:
    from pyarrow import parquet

    return parquet.read_metadata(path).num_rows


@pytest.mark.parametrize("file_rows", [writer.MOST_ROWS, 1])
def test_a_list_of_episodes_that_is_gone_is_written_anew_where_it_was(
    file_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # as a user says it: a folder from here
    monkeypatch.setattr(writer, "MOST_ROWS", file_rows)
    folder = Path("demos/shown")
    episodes = record(folder, [4, 2])
    shutil.rmtree(folder / "meta/episodes")
    episodes += record(folder, [3], seed=5)
    holds(Dataset(folder), episodes)
    assert not (folder / "demos").exists()


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    frames = [frame(rng) for _ in range(4)]
    real = writer.write_atomically

    def full(path: Path, *arguments: Any, **options: Any) -> None:
        if "episodes" in str(path):
            raise UserError("Cannot write: No space left on device.")
        real(path, *arguments, **options)

    with DatasetWriter(tmp_path, 20, "panda", FEATURES) as recording:
        for one in frames:
            recording.add_frame(one)
        monkeypatch.setattr(writer, "write_atomically", full)
        with pytest.raises(UserError, match="No space"):
            recording.end_episode("Task 1.")
        monkeypatch.setattr(writer, "write_atomically", real)
        assert (recording.frames, recording.episodes) == (4, 0)
        recording.end_episode("Task 1.")
    holds(Dataset(tmp_path), [frames])


RECORDER = """
import sys
from pathlib import Path
from tests.data.lerobot.test_writer import record

seed = int(sys.argv[2])
while True:
    record(Path(sys.argv[1]), [seed % 5 + 1], seed)
    print(seed, flush=True)
    seed += 1
"""


@pytest.mark.integration
def test_a_recorder_that_is_killed_leaves_every_whole_episode(tmp_path: Path) -> None:
    chance = random.Random(2)
    told = -1
    for _ in range(3):
        command = [sys.executable, "-c", RECORDER, str(tmp_path), str(told + 1)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0)  # communicate() sees no buffer of ours
        try:
            said = process.stdout.readline()
            time.sleep(chance.uniform(0.0, 0.1))
        finally:
            process.send_signal(signal.SIGKILL)
            said += process.communicate(timeout=60)[0]
        last = int(said.split()[-1])
        dataset = Dataset(tmp_path)
        assert dataset.cut_off == ""
        assert len(dataset) in (last + 1, last + 2)
        told = len(dataset) - 1
        expected = []
        for seed in range(len(dataset)):
            rng = np.random.default_rng(seed)
            expected.append([frame(rng) for _ in range(seed % 5 + 1)])
        holds(dataset, expected)


@settings(deadline=None, max_examples=15)
@given(data=st.data())
def test_a_copy_that_was_cut_off_opens_up_to_its_last_whole_episode(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "MOST_BYTES", data.draw(st.sampled_from([1, 6000])))
        patch.setattr(writer, "MOST_ROWS", data.draw(st.sampled_from([2, writer.MOST_ROWS])))
        root = Path(folder)
        episodes = record(root, [3, 1, 2, 4, 2])
        path = root / data.draw(st.sampled_from([str(p.relative_to(root)) for p in files(root)]))
        keep = data.draw(st.integers(-1, path.stat().st_size - 1))
        if keep < 0:
            path.unlink()
        else:
            os.truncate(path, keep)
        try:
            dataset = Dataset(root)
        except UserError as error:
            assert path.name == "info.json", error
            return
        holds(dataset, episodes[: len(dataset)])
        if len(dataset):
            statistics_are_right(dataset, episodes[: len(dataset)])
        assert len(dataset) == 5 or "data" in path.parts, "what is listed nowhere is found by its frames"
        if path.name == "stats.json" or (path.name == "info.json" and dataset.cut_off == ""):  # its last line's end
            assert dataset.cut_off == "" and len(dataset) == 5
        elif path.name == "tasks.parquet":
            assert "tasks.parquet" in dataset.cut_off
        else:
            # a list of episodes that is gone is missed where the next one begins
            gone = keep < 0 and "meta/episodes" in str(path)
            assert ("meta/episodes" if gone else str(path.relative_to(root))) in dataset.cut_off
            assert f"{len(dataset)} of its 5 episodes" in dataset.cut_off

        more = record(root, [2, 3], seed=9)
        again = Dataset(root)
        assert again.cut_off == ""
        holds(again, episodes[: len(dataset)] + more)
        statistics_are_right(again, episodes[: len(dataset)] + more)
        assert sum(count_rows(path) for path in root.glob("meta/episodes/*/*.parquet")) == len(again)
        if keep >= 0 and path.suffix == ".parquet" and path.name != "tasks.parquet":
            assert list(root.rglob("*.set_aside")), "what is left of the others was not thrown away"


def test_a_mending_writer_that_is_stopped_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MOST_ROWS", 2)
    before = record(tmp_path / "0", [4, 2, 1, 3, 2])
    os.truncate(tmp_path / "0/meta/episodes/chunk-000/file-001.parquet", 100)
    monkeypatch.setattr(writer, "MOST_ROWS", 3)  # all are listed elsewhere than before
    stops = 0
    for _ in stopped_writes(monkeypatch):
        folder = tmp_path / "stopped"
        shutil.copytree(tmp_path / "0", folder)
        try:
            record(folder, [])
        except Stopped:
            stops += 1
        else:
            break
        holds(Dataset(folder), before)
        monkeypatch.undo()
        again = record(folder, [1, 5], seed=6)
        whole = Dataset(folder)
        assert whole.cut_off == ""
        holds(whole, before + again)
        statistics_are_right(whole, before + again)
        assert sum(count_rows(path) for path in folder.glob("meta/episodes/*/*.parquet")) == len(whole)
        shutil.rmtree(folder)
        monkeypatch.setattr(writer, "MOST_ROWS", 3)
    assert stops == 5  # tasks, statistics, two lists, info


def test_lists_of_episodes_and_tasks_that_are_both_gone_leave_the_tasks_numbers(tmp_path: Path) -> None:
    record(tmp_path, [3, 1, 3])
    for name in ("meta/episodes", "meta/tasks.parquet"):
        path = tmp_path / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    dataset = Dataset(tmp_path)
    assert len(dataset) == 3 and dataset.tasks == ("task 0", "task 1")
    assert [episode.tasks for episode in dataset.episodes] == [("task 0",), ("task 1",), ("task 0",)]
    record(tmp_path, [2], seed=1)
    again = Dataset(tmp_path)
    assert again.tasks == ("task 0", "task 1", "Task 2.") and again.read(3, ["task_index"])["task_index"][0, 0] == 2


def test_files_that_are_set_aside_twice_are_both_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MOST_BYTES", 1)
    for _ in range(2):
        record(tmp_path, [2, 2])
        os.truncate(sorted(tmp_path.glob("data/*/*.parquet"))[0], 500)
    record(tmp_path, [1])
    names = sorted(path.name for path in tmp_path.rglob("data/*/*.set_aside*"))
    assert names == [f"file-00{n}.parquet.set_aside{end}" for n in (0, 1) for end in ("", ".2")]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"robot_type": "so100"}, "recorded with the robot 'panda', not 'so100'"),
        ({"fps": 30}, "recorded at 20 Hz, not 30 Hz"),
        (
            {"features": {**FEATURES, "observation.images.scene": image(6, 8)}},
            "has no camera 'observation.images.scene'",
        ),
        (
            {"features": {**FEATURES, "observation.images.wrist": image(12, 8)}},
            "'observation.images.wrist' is 8 x 6 pixels, not 8 x 12",
        ),
        (
            {"features": {k: v for k, v in FEATURES.items() if "images" not in k}},
            "has the camera 'observation.images.wrist' too",
        ),
        ({"features": {**FEATURES, "observation.effort": vector("a")}}, "has no feature 'observation.effort'"),
        (
            {"features": {**FEATURES, "action": vector("elbow.pos", "shoulder.pos", "gripper.pos")}},
            "'action' has the elements shoulder.pos, elbow.pos, gripper.pos, not elbow.pos, shoulder.pos",
        ),
        ({"features": {**FEATURES, "stage": number("float32")}}, "'stage' is int64, not float32"),
    ],
)
def test_adding_what_does_not_fit_is_refused_by_name(tmp_path: Path, change: dict, message: str) -> None:
    episodes = record(tmp_path, [3])
    before = {path: path.read_bytes() for path in files(tmp_path)}
    with pytest.raises(UserError, match=message):
        record(tmp_path, [1], **change)
    assert {path: path.read_bytes() for path in files(tmp_path)} == before
    holds(Dataset(tmp_path), episodes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"action": [1.0, 2.0]}, r"Frame 1: 'action' has the shape \(2,\), the dataset's \(3,\)"),
        ({"action": [1.0, 2.0, np.nan]}, "Frame 1: 'action' is not finite"),
        ({"stage": 1.5}, "'stage' is float64, which the dataset's int64 cannot hold"),
        ({"observation.images.wrist": np.zeros((6, 8, 3))}, "'observation.images.wrist' is float64"),
        ({"speed": 1.0}, "Frame 1 has speed, which the dataset lacks"),
    ],
)
def test_a_frame_that_does_not_fit_is_refused(tmp_path: Path, change: dict, message: str) -> None:
    rng = np.random.default_rng(0)
    frames = [frame(rng), frame(rng)]
    with DatasetWriter(tmp_path, 20, "panda", FEATURES) as recording:
        recording.add_frame(frames[0])
        with pytest.raises(UserError, match=message):
            recording.add_frame({**frames[1], **change})
        with pytest.raises(UserError, match="lacks action, stage"):
            recording.add_frame({k: v for k, v in frames[1].items() if k not in ("stage", "action")})
        recording.add_frame(frames[1])
        recording.end_episode("Task 2.")
    holds(Dataset(tmp_path), [frames])


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({}, "at least one feature"),
        ({"a/b": number()}, "'a/b' cannot be a feature's name"),
        ({"timestamp": number()}, "LeRobot's own feature has it"),
        ({"depth": Feature("image", (4, 5, 1))}, r"image 'depth' must have the shape \(height, width, 3\)"),
        ({"note": Feature("string", (1,))}, "'note' cannot be 'string'"),
        ({"pose": Feature("float32", (4, 4))}, "'pose' must be a vector"),
        ({"action": Feature("float32", (2,), ("a",))}, "2 elements but 1 names"),
        ({"action": vector("a", "b", "a")}, "two elements the same name"),
    ],
)
def test_features_that_cannot_be_are_refused(tmp_path: Path, features: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        DatasetWriter(tmp_path, 20, "panda", features)
    assert not list(tmp_path.iterdir())


def test_there_is_one_writer_and_it_writes_episodes_with_frames(tmp_path: Path) -> None:
    with DatasetWriter(tmp_path, 20, "panda", FEATURES) as recording:
        with pytest.raises(UserError, match="one writer at a time"):
            DatasetWriter(tmp_path, 20, "panda", FEATURES)
        recording.add_frame(frame(np.random.default_rng(0)))
        recording.discard()
        with pytest.raises(UserError, match="without frames"):
            recording.end_episode("Nothing.")
    for call in (lambda: recording.end_episode("Late."), lambda: recording.add_frame({})):
        with pytest.raises(UserError, match="closed"):
            call()
    assert len(Dataset(tmp_path)) == 0


def test_a_folder_of_something_else_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match=r"has thesis\.tex in it and is not a dataset"):
        DatasetWriter(tmp_path, 20, "panda", FEATURES)
    with pytest.raises(UserError, match="must be above 0"):
        DatasetWriter(tmp_path / "new", 0, "panda", FEATURES)


def test_what_is_no_dataset_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a LeRobot dataset"):
        Dataset(tmp_path)
    record(tmp_path, [2])
    path = tmp_path / "meta" / "info.json"
    info = json.loads(path.read_text())
    for change, message in (
        ({"codebase_version": "v2.1"}, "version v2.1, and only version 3"),
        ({"fps": "fast"}, "not of LeRobot's version 3"),
        ({"features": {"a": {}}}, "not of LeRobot's version 3"),
        ({"total_frames": -1}, "no total below"),
    ):
        path.write_text(json.dumps({**info, **change}))
        with pytest.raises(UserError, match=message):
            Dataset(tmp_path)


def test_what_is_asked_for_must_be_there(tmp_path: Path) -> None:
    record(tmp_path, [2, 2])
    dataset = Dataset(tmp_path)
    with pytest.raises(UserError, match="episodes 0 to 1, but not 2"):
        dataset.read(2)
    with pytest.raises(UserError, match=r"no feature 'acton'\. It has: observation\.state"):
        dataset.read(0, ["acton"])


def test_damage_within_a_file_is_said_when_it_is_read(tmp_path: Path) -> None:
    from pyarrow import parquet

    record(tmp_path, [30])
    (path,) = tmp_path.glob("data/*/*")
    whole, rows = path.read_bytes(), parquet.read_metadata(path).row_group(0)
    (images,) = (c for c in map(rows.column, range(rows.num_columns)) if c.path_in_schema.endswith("wrist.bytes"))
    begin, size = images.dictionary_page_offset or images.data_page_offset, images.total_compressed_size
    for share in (0.3, 0.6, 0.9):  # where the PNG files are
        at = begin + int(share * size)
        path.write_bytes(whole[:at] + bytes(40) + whole[at + 40 :])
        dataset = Dataset(tmp_path)
        assert len(dataset.read(0, ["action"])["action"]) == 30
        with pytest.raises(UserError, match="damaged"):
            dataset.read(0)
