"""Cameras as videos: what was seen comes back nearly as it was, any part of it, and an episode is there as a whole."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rlstack.data.lerobot import Dataset, DatasetWriter, check_fits, image, tables, vector, video
from rlstack.data.lerobot.copying import copy_episodes
from rlstack.errors import UserError

pytest.importorskip("av")

CAMERA = "observation.images.wrist"
FEATURES = {CAMERA: video(48, 64), "action": vector("x")}
FPS = 20
LENGTHS = (7, 12)


def picture(episode: int, frame: int) -> np.ndarray:
    """A bright spot that moves over a slope of colours."""
    y, x = np.mgrid[:48, :64]
    spot = 120.0 * np.exp(-((x - 5 * frame) ** 2 + (y - 24) ** 2) / 60.0)
    return (
        np.stack([60 + spot, 2.0 * x + 0 * y, 3.0 * y + 40.0 * episode + 0 * x], axis=-1).clip(0, 255).astype(np.uint8)
    )


def record(path: Path, episodes: range = range(2)) -> Dataset:
    with DatasetWriter(path, FPS, "so100", FEATURES) as writer:
        for episode in episodes:
            for frame in range(LENGTHS[episode]):
                writer.add_frame({CAMERA: picture(episode, frame), "action": [frame]})
            assert writer.end_episode("Look.") == episode
    return Dataset(path)


def apart(seen: np.ndarray, episode: int, start: int = 0) -> float:
    wanted = np.stack([picture(episode, start + k) for k in range(len(seen))])
    return float(np.abs(seen.astype(float) - wanted).mean())


def test_pictures_come_back_nearly_as_they_were(tmp_path: Path) -> None:
    dataset = record(tmp_path)
    for episode, length in enumerate(LENGTHS):
        frames = dataset.read(episode)
        assert frames[CAMERA].shape == (length, 48, 64, 3) and frames["action"][:, 0].tolist() == list(range(length))
        assert apart(frames[CAMERA], episode) < 3.0
        assert apart(frames[CAMERA][1:], episode) > 3.0, "each picture is that of its frame"
    for start, stop in ((0, 1), (3, 4), (4, 9), (11, 12), (5, 5)):
        part = dataset.read(1, [CAMERA], start, stop)[CAMERA]
        assert len(part) == stop - start and (not len(part) or apart(part, 1, start) < 3.0)
    means = dataset.statistics()[CAMERA]["mean"][:, 0, 0]
    seen = np.concatenate([dataset.read(k, [CAMERA])[CAMERA] for k in range(2)])
    np.testing.assert_allclose(means, seen.mean(axis=(0, 1, 2)) / 255.0, atol=0.01)
    info = json.loads((tmp_path / "meta/info.json").read_text())
    assert info["video_path"].startswith("videos/{video_key}/") and info["features"][CAMERA]["info"]["video.fps"] == FPS


def test_an_episode_whose_video_is_missing_is_not_there_and_is_recorded_again(tmp_path: Path) -> None:
    record(tmp_path)
    videos = sorted(tmp_path.glob("videos/*/*/*.mp4"))
    assert len(videos) == 2
    videos[1].unlink()
    cut = Dataset(tmp_path)
    assert len(cut) == 1 and "episode 1's video videos/" in cut.cut_off
    again = record(tmp_path, range(1, 2))
    assert len(again) == 2 and not again.cut_off and apart(again.read(1, [CAMERA])[CAMERA], 1) < 3.0
    videos[1].write_bytes(videos[1].read_bytes()[:300])
    with pytest.raises(UserError, match=r"file-001\.mp4 cannot be read as a video"):
        Dataset(tmp_path).read(1)


def test_videos_of_episodes_that_are_listed_no_more_are_found_and_kept(tmp_path: Path) -> None:
    record(tmp_path)
    (listed,) = tmp_path.glob("meta/episodes/*/*.parquet")
    listed.unlink()
    cut = Dataset(tmp_path)
    assert len(cut) == 2 and "2 episodes were found by their frames" in cut.cut_off
    assert all(apart(cut.read(k, [CAMERA])[CAMERA], k) < 3.0 for k in range(2))
    before = cut.statistics()
    with DatasetWriter(tmp_path, FPS, "so100", FEATURES):
        mended = Dataset(tmp_path)
    assert mended.cut_off == "" and apart(mended.read(1, [CAMERA])[CAMERA], 1) < 3.0
    (tmp_path / "meta/stats.json").unlink()
    means = [found.statistics()[CAMERA]["mean"] for found in (cut, mended)]
    np.testing.assert_allclose(means, [before[CAMERA]["mean"]] * 2, atol=0.01)


def test_frames_behind_a_video_that_is_missing_are_set_aside_and_not_lost(tmp_path: Path) -> None:
    record(tmp_path)
    (data,) = tmp_path.glob("data/*/*.parquet")
    whole = data.read_bytes()
    sorted(tmp_path.glob("videos/*/*/*.mp4"))[0].unlink()
    with DatasetWriter(tmp_path, FPS, "so100", FEATURES) as writer:
        assert writer.episodes == 0
    (aside,) = tmp_path.glob("data/*/*.set_aside")
    assert aside.read_bytes() == whole and len(list(tmp_path.rglob("*.mp4.set_aside"))) == 1


def test_videos_go_along_when_demonstrations_are_chosen(tmp_path: Path) -> None:
    record(tmp_path / "all")
    # who learns from pictures does not mind how they are kept
    shown = Dataset(tmp_path / "all")
    wanted = {CAMERA: image(48, 64), "action": vector("x")}
    check_fits((shown.robot_type, shown.fps, shown.features), ("so100", FPS, wanted), "all")
    assert copy_episodes(shown, tmp_path / "some", [1]) == 1
    assert apart(Dataset(tmp_path / "some").read(0)[CAMERA], 1) < 4.0
    with pytest.raises(UserError, match="must have an even height and width, not 64 x 47 pixels"):
        DatasetWriter(tmp_path / "odd", FPS, None, {CAMERA: video(47, 64)})


def test_videos_of_several_episodes_in_another_codec_are_read(tmp_path: Path) -> None:
    # as LeRobot 0.4 writes them: AV1, every second picture by itself, one episode after the other
    av = pytest.importorskip("av")
    dataset = record(tmp_path)
    videos = sorted(tmp_path.glob("videos/*/*/*.mp4"))
    with av.open(str(videos[0]), "w") as container:
        stream = container.add_stream("libsvtav1", rate=FPS, options={"g": "2", "crf": "30"})
        stream.height, stream.width, stream.pix_fmt = 48, 64, "yuv420p"
        for episode, length in enumerate(LENGTHS):
            for frame in range(length):
                seen = av.VideoFrame.from_ndarray(picture(episode, frame), format="rgb24")
                container.mux(stream.encode(seen))
        container.mux(stream.encode(None))
    videos[1].unlink()
    (path,) = tmp_path.glob("meta/episodes/*/*.parquet")
    rows = tables.read_table(path).to_pylist()
    rows[1] |= {f"videos/{CAMERA}/file_index": 0, f"videos/{CAMERA}/from_timestamp": LENGTHS[0] / FPS}
    path.write_bytes(tables.rows_to_bytes(rows))
    for lost in (False, True):
        if lost:
            path.unlink()
        dataset = Dataset(tmp_path)
        for episode in range(2):
            assert apart(dataset.read(episode, [CAMERA])[CAMERA], episode) < 6.0
    assert apart(dataset.read(1, [CAMERA], 5, 6)[CAMERA], 1, 5) < 6.0
