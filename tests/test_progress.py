"""Lines that say how far something is: after some seconds, then now and then, with an estimate."""

from __future__ import annotations

import math
import threading
import time

import pytest

from rlstack import progress
from rlstack.progress import StageLines, duration, working


def test_durations_are_for_readers():
    times = {0.2: "0 s", 59.4: "59 s", 60.0: "1:00 min", 199.6: "3:20 min", 5999.0: "99:59 min", 7500.0: "2:05 h"}
    assert [duration(s) for s in times] == list(times.values())


def test_each_stage_says_how_far_it_is_and_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("rlstack.progress.time.monotonic", lambda: now[0])
    said: list[str] = []
    lines = StageLines(said.append)
    for at, stage, done in ((0.0, "learning", 50), (5.0, "learning", 60), (10.0, "learning", 75), (11.0, "trials", 0)):
        now[0] = at
        lines(stage, done, 100)
    assert said == ["learning: 50/100", "learning: 75/100, about 10 s left", "trials: 0/100"]


def test_what_runs_in_part_counts_for_the_estimate_and_the_end_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("rlstack.progress.time.monotonic", lambda: now[0])
    said: list[str] = []
    lines = StageLines(said.append)
    for at, done in ((0.0, 0.0), (10.0, 0.5), (12.0, 0.6), (40.0, 1.9), (42.0, 2.0), (42.1, 2.0), (60.0, 2.0)):
        now[0] = at
        lines("trials", done, 2)
    assert said == [
        "trials: 0/2",
        "trials: 0/2, about 30 s left",
        "trials: 1/2, about 2 s left",
        "trials: 2/2",
    ]


def test_a_stage_that_is_over_soon_is_not_mentioned(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("rlstack.progress.time.monotonic", lambda: now[0])
    said: list[str] = []
    lines = StageLines(said.append, after_s=5.0)
    for at, stage, done in ((0.0, "reading", 0), (4.0, "reading", 100), (4.0, "writing", 0), (9.0, "writing", 50)):
        now[0] = at
        lines(stage, done, 100)
    assert said == ["writing: 50/100, about 5 s left"]


def test_work_without_stages_says_that_it_goes_on_and_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now, said, heard = [0.0], [], threading.Semaphore(0)
    monkeypatch.setattr(progress, "AFTER_S", 0.001)
    monkeypatch.setattr(progress, "EVERY_S", 0.001)
    monkeypatch.setattr(progress, "_stage_said_s", -math.inf)  # other tests' stages, by another clock
    monkeypatch.setattr("rlstack.progress.time.monotonic", lambda: now[0])

    def hear(line: str) -> None:
        said.append(line)
        now[0] = 12.0 if len(said) == 1 else 40.0
        heard.release()

    with working("restoring the run", 22.0, hear):
        for _ in range(3):
            assert heard.acquire(timeout=5.0)
    assert said[:3] == [
        "restoring the run: 0 s so far, about 22 s left",
        "restoring the run: 12 s so far, about 10 s left",
        "restoring the run: 40 s so far",
    ]


def test_work_is_silent_while_a_stage_of_it_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    said, heard = [], threading.Semaphore(0)
    monkeypatch.setattr(progress, "AFTER_S", 0.001)
    monkeypatch.setattr(progress, "EVERY_S", 0.1)

    def hear(line: str) -> None:
        said.append(line)
        heard.release()

    stage = StageLines(hear)
    stage("demonstrations", 0, 2_000)
    with working("setting up", say=hear):
        for _ in range(5):
            time.sleep(0.02)
            stage("demonstrations", 1_000, 2_000)
        assert all(line.startswith("demonstrations") for line in said), said
        assert heard.acquire(timeout=5.0)
        while not said[-1].startswith("setting up"):
            assert heard.acquire(timeout=5.0)
    assert said[0] == "demonstrations: 0/2,000"


def test_short_work_is_not_mentioned() -> None:
    said: list[str] = []
    with working("reading", say=said.append):
        pass
    assert not said
