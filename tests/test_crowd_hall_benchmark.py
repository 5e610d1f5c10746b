from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import load_robot
from rlstack.sim.batch_wheeled_base.layout import ABSENT_M
from rlstack.tasks.catalog.base_crowd import CrowdTask
from tests.support.benchmarks import load_benchmark


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    return load_benchmark("crowd_hall")


def test_fewer_scenes_are_the_first_of_more(benchmark: ModuleType) -> None:
    robot = load_robot("turtlebot2")
    assert isinstance(robot, WheeledBase)
    few = benchmark.held_out(CrowdTask(), robot, 2, 1, 1.0)
    many = benchmark.held_out(CrowdTask(), robot, 4, 1, 1.0)
    other = benchmark.held_out(CrowdTask(), robot, 2, 2, 1.0)
    assert np.array_equal(few.people, many.people[:2])
    assert all(np.array_equal(a.boxes, b.boxes) for a, b in zip(few.maps, many.maps))
    assert not np.array_equal(few.people, other.people)
    there = (few.people.reshape(2, -1, 5)[..., 0] < 0.5 * ABSENT_M).sum(axis=1)
    assert ((there >= 5) & (there <= 11)).all()


def test_planners_drive_the_halls(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "found.json"
    arguments = ["crowd_hall.py", "--planners", "orca", "--scenes", "2", "--people", "1", "--json", str(path)]
    monkeypatch.setattr(sys, "argv", arguments)
    benchmark.main()
    figures = json.loads(path.read_text())["orca"]["1"]
    shares = [figures[name] for name in ("arrived", "hit_a_person", "hit_a_thing", "timed_out", "gave_up")]
    assert figures["episodes"] == 2 and sum(shares) == pytest.approx(1.0)
    assert "1 x people, orca: arrived" in capsys.readouterr().out
