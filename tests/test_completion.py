"""`rlstack completion`: what a real bash completes with the script."""

from __future__ import annotations

import subprocess

import pytest

from rlstack import cli


@pytest.fixture(scope="module")
def script() -> str:
    with pytest.MonkeyPatch.context() as patch:
        printed: list[str] = []
        patch.setattr("builtins.print", printed.append)
        assert cli.main(["completion", "bash"]) == 0
    return "\n".join(printed)


def completed(script: str, line: str) -> list[str]:
    """Return what bash completes at the end of a line."""
    words = line.split(" ")
    given = " ".join(f"'{word}'" for word in words)
    ask = f'COMP_WORDS=({given}); COMP_CWORD={len(words) - 1}; _rlstack; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(
        ["bash", "--norc", "-c", f"{script}\n{ask}"], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_verbs(script: str) -> None:
    assert completed(script, "rlstack ver") == ["verify"]
    assert completed(script, "rlstack up d") == ["deploy"]
    assert set(completed(script, "rlstack runs ")) == {"list", "compare", "plot", "export"}
    assert {verb.partition(" ")[0] for verb in cli.VERBS} <= set(completed(script, "rlstack "))


def test_names_of_recipes_robots_and_policies(script: str) -> None:
    assert {"quadrotor_hover", "quadrotor_tracking"} <= set(completed(script, "rlstack train quad"))
    assert completed(script, "rlstack model craz")[0] == "crazyflie"
    assert completed(script, "rlstack verify x.onnx --robot husk") == ["husky"]
    assert "quadrotor_hover" in completed(script, "rlstack up deploy --policy quad")


def test_options(script: str) -> None:
    assert {"--policy", "--robot", "--help"} <= set(completed(script, "rlstack up deploy --"))
    assert completed(script, "rlstack new robot mine --fr") == ["--from"]


def test_every_shell_gets_a_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", "fish"]) == 0
    assert "complete -c rlstack -n __fish_use_subcommand -f -a 'fly train" in capsys.readouterr().out
    assert cli.main(["completion", "zsh"]) == 0
    assert "bashcompinit" in capsys.readouterr().out
