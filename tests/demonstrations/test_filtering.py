"""Demonstrations on a table: who fights what the others do is dropped, who shows something new is not."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from rlstack.data.lerobot import Dataset, DatasetWriter, vector
from rlstack.demonstrations.filtering import filtered, judge
from rlstack.errors import UserError

FEATURES = {"observation.state": vector("x", "y"), "action": vector("vx", "vy")}
SPEED = 0.1

ACROSS_THEN_UP = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0)]
THERE_AND_BACK = [(0.0, 0.0), (0.9, 0.0), (0.0, 0.0)]
BACKWARDS = ACROSS_THEN_UP[::-1]
ELSEWHERE = [(-3.0, 3.0), (-3.0, 4.0), (-2.0, 4.0)]


def record(path: Path, ways: list[list[tuple[float, float]]], seed: int) -> Path:
    """Record a hand that goes from corner to corner, shakily."""
    rng = np.random.default_rng(seed)
    with DatasetWriter(path, 10, "so100", FEATURES) as writer:
        for corners in ways:
            place = np.array(corners[0], float) + rng.normal(scale=0.01, size=2)
            for corner in corners[1:]:
                while np.linalg.norm(corner - place) > SPEED / 2:
                    way = (corner - place) / max(np.linalg.norm(corner - place), SPEED)
                    action = way * SPEED + rng.normal(scale=0.003, size=2)
                    frame = {"observation.state": place.astype(np.float32), "action": action.astype(np.float32)}
                    writer.add_frame(frame)
                    place = place + action
            writer.end_episode("Bring it over.")
    return path


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("base") / "base", [ACROSS_THEN_UP] * 8, seed=0)


def test_who_fights_the_others_is_dropped_and_who_shows_something_new_is_not(tmp_path: Path, base: Path) -> None:
    new = record(tmp_path / "new", [ACROSS_THEN_UP, BACKWARDS, ELSEWHERE, ACROSS_THEN_UP, BACKWARDS], seed=2)
    verdicts = judge(new, base)
    assert [one.kept for one in verdicts] == [True, False, True, True, False]
    assert all(one.why.startswith("it conflicts with the others, most at frame ") for one in verdicts if not one.kept)
    assert verdicts[2].sure == 0.0 and verdicts[2].compatibility == 1.0
    assert verdicts[0].sure > 0.8 and verdicts[0].compatibility > 0.8
    assert filtered(new, tmp_path / "kept", verdicts) == 3
    kept, source = Dataset(tmp_path / "kept"), Dataset(new)
    for index, episode in enumerate((0, 2, 3)):
        for name, values in source.read(episode).items():
            np.testing.assert_array_equal(kept.read(index)[name], values)
        assert kept.episodes[index].tasks == ("Bring it over.",)
    with pytest.raises(UserError, match="being read"):
        filtered(new, new, verdicts)
    with pytest.raises(UserError, match=r"kept holds a dataset already: give a new folder"):
        filtered(new, tmp_path / "kept", verdicts)
    assert len(Dataset(tmp_path / "kept")) == 3


def test_it_is_said_where_it_fights_them_most(tmp_path: Path, base: Path) -> None:
    (verdict,) = judge(record(tmp_path / "new", [THERE_AND_BACK], seed=3), base)
    found = re.search(r"most at frame (\d+) \((.*) s\), where vx is -0\.\d+ and theirs 0\.\d+", verdict.why)
    assert found is not None, verdict.why
    assert int(found[1]) >= 9 and float(found[2]) == int(found[1]) / 10, "on the way there, it does as they do"


def test_it_judges_by_enough_demonstrations_and_a_share(tmp_path: Path, base: Path) -> None:
    few = record(tmp_path / "few", [ACROSS_THEN_UP] * 2, seed=4)
    for arguments in ((few, None), (base, few)):
        with pytest.raises(UserError, match="holds 2 demonstrations, and at least 6 are needed"):
            judge(*arguments)
    with pytest.raises(UserError, match="share between 0 and 1"):
        judge(base, least=80)
    with pytest.raises(UserError, match="holds no complete demonstration"):
        judge(record(tmp_path / "none", [], seed=5))
