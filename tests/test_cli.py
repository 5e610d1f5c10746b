"""The command line: help, exit statuses, and sentences instead of tracebacks."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import fields

import pytest

from rlstack import cli
from rlstack.errors import UserError


def fails(*words):
    """Run and return what argparse-like parsing exits with."""
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    return ended.value.code


def test_help_lists_every_verb(capsys):
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    for name, verb in cli.VERBS.items():
        assert f"  {name}" in shown
        assert verb.summary in shown


def test_nothing_to_do_is_a_mistake_that_shows_the_help(capsys):
    assert cli.main([]) == 2
    assert "usage: rlstack" in capsys.readouterr().err


def test_a_group_shows_its_verbs(capsys):
    assert cli.main(["up", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "up deploy" in shown and "doctor" not in shown
    assert cli.main(["up"]) == 2


@pytest.mark.parametrize("verb", [name for name, v in cli.VERBS.items() if isinstance(v.action, type)])
def test_help_of_every_verb_explains_every_option(verb, capsys):
    assert fails(*verb.split(), "--help") == 0
    shown = capsys.readouterr().out
    for field in (option.name for option in fields(cli.VERBS[verb].action)):
        described = f"--{field.replace('_', '-')}"
        assert (
            described in shown
            or field in ("policy", "recipe")
            or (verb.startswith("demo ") and field in ("task", "dataset", "bags"))
            or (verb, field) in (("rviz", "robot"), ("model", "robot"), ("world", "name"), ("goto", "position"))
            or (verb, field) == ("bringup", "name")
            or (verb == "import" and field in ("source", "from_"))
            or (verb in ("arm", "disarm", "status") and field == "robot")
            or (verb, field) == ("agent", "sentence")
            or (verb in ("play", "info", "explain") and field in ("bag", "start"))
            or (verb, field) == ("completion", "shell")
            or (verb.startswith("runs ") and field == "folders")
            or (verb, field) == ("identify", "bags")
            or (verb.startswith(("init", "new ")) and field in ("name", "folder", "from_"))
        )


VIEWED = [name for name, v in cli.VERBS.items() if "view" in getattr(v.action, "__dataclass_fields__", ())]


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("verb", VIEWED)
def test_the_view_can_be_asked_for_and_refused_wherever_the_output_goes(verb, terminal, capsys, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    assert fails(*verb.split(), "--help") == 0
    shown = capsys.readouterr().out
    assert "--view" in shown and "--no-view" in shown


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("rlstack ")


@pytest.mark.parametrize(
    ("words", "nearest"),
    [(["verfy"], "Nearest: verify"), (["up", "deplo"], "Nearest: up deploy"), (["doctr", "--json"], "Nearest: doctor")],
)
def test_unknown_verbs_name_the_nearest(words, nearest, capsys):
    assert cli.main(words) == 2
    assert nearest in capsys.readouterr().err


def test_unknown_options_are_refused(capsys):
    assert fails("doctor", "--nosuch") == 2
    assert "nosuch" in capsys.readouterr().err


def test_bad_input_is_one_sentence_and_status_2(tmp_path, capsys):
    assert cli.main(["show", str(tmp_path / "none.onnx")]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("rlstack: ") and "does not exist" in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (UserError("The thing is wrong."), 2, "rlstack: The thing is wrong.\n"),
        (KeyboardInterrupt(), 130, ""),
        (ModuleNotFoundError("x", name="torch"), 2, "This needs 'torch', which is not installed: `rlstack doctor`"),
    ],
)
def test_exit_statuses(monkeypatch, capsys, error, status, said):
    def raises(words):
        raise error

    monkeypatch.setattr("rlstack.bringup.train_commands.train", raises)
    assert cli.main(["train"]) == status
    shown = capsys.readouterr().err
    assert said in shown and bool(shown) == bool(said)


def test_a_bug_in_rlstack_is_not_hidden(monkeypatch):
    def raises(words):
        raise ModuleNotFoundError("x", name="rlstack.nosuch")

    monkeypatch.setattr("rlstack.bringup.train_commands.train", raises)
    with pytest.raises(ModuleNotFoundError):
        cli.main(["train"])


def test_importing_the_command_line_loads_nothing_heavy():
    code = (
        "import sys, rlstack.cli; rlstack.cli.main(['--help']);"
        "heavy = {'torch', 'mujoco', 'rclpy', 'onnx', 'onnxruntime', 'warp', 'llvmlite', 'matplotlib'};"
        "heavy |= {'numpy', 'tyro'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_closed_pipe_ends_quietly():
    command = f"{sys.executable} -m rlstack --help | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""


INTERRUPTED = """
import atexit, os, signal, sys, time
from rlstack import cli
def interrupted(words):
    raise KeyboardInterrupt
def end():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)
atexit.register(end)
cli._dispatch = interrupted
sys.exit(cli.main())
"""


def test_a_second_interrupt_ends_it_without_a_traceback():
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGINT and done.stderr == ""
