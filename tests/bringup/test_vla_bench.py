"""`rlstack bench vla`: numbers that are not allowed, and lines of progress."""

from __future__ import annotations

import pytest

from rlstack import cli
from rlstack.bringup.vla_bench import StageLines


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--trials", "0"), "--trials 0 is not allowed"),
        (("--minutes", "-1"), "--minutes -1 is not allowed"),
        (("--stray", "-0.1"), "--stray -0.1 is not allowed: give 0 or more"),
    ],
)
def test_numbers_are_checked_before_anything_runs(
    option: tuple[str, str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["bench", "vla", *option]) == 2
    assert said in capsys.readouterr().err


def test_an_environment_without_metaworld_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: object) -> None:
    assert cli.main(["bench", "vla", "--out", f"{tmp_path}/run", "--python", f"{tmp_path}/none"]) == 2
    assert "there is no interpreter" in capsys.readouterr().err


def test_each_stage_says_how_far_it_is_and_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("rlstack.bringup.vla_bench.time.monotonic", lambda: now[0])
    said: list[str] = []
    lines = StageLines(said.append)
    for at, stage, done in ((0.0, "learning", 50), (5.0, "learning", 60), (10.0, "learning", 75), (11.0, "trials", 0)):
        now[0] = at
        lines(stage, done, 100)
    assert said == ["learning: 50/100", "learning: 75/100, about 10 s left", "trials: 0/100"]
