"""`rlstack bench vla`: numbers that are not allowed."""

from __future__ import annotations

import pytest

from rlstack import cli


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--trials", "0"), "--trials 0 is not allowed"),
        (("--minutes", "-1"), "--minutes -1 is not allowed"),
        (("--suite", "libero-goal"), "--suite libero-goal needs --policy, a checkpoint's folder"),
        (("--policy", "smolvla"), "--suite metaworld-mt10 takes no --policy"),
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
