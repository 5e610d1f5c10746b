"""Every command of the documentation's shell blocks is read by what it calls, or has a reason why it is not.

Those of `rlstack` itself are read in test_docs.py; cheap ones run here.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlstack import cli
from tests.support import docs

NOT_READ = {
    "sudo": "installs system packages",
    "source": "another installation's environment",
    ".": "an environment's activation",
    "cd": "the shell's own",
    "export": "the shell's own",
    "for": "the shell's own; what it repeats is read",
    "done": "the shell's own",
    "git": "needs the repository's address",
    "rosdep": "needs a system ROS 2",
    "touch": "the shell's own",
    "kill": "ends a process of the reader's",
    "tensorboard": "a server; the package's own test is that training writes its files",
    "rviz2": "needs a system ROS 2 and a display",
    "hf": "downloads a checkpoint of gigabytes",
    "arm-none-eabi-gcc": "a cross compiler: tests/policies/c99 run it where it is installed",
    "qemu-system-arm": "an emulator: likewise",
    "lerobot_env/bin/python": "LeRobot's own environment, with other versions of torch",
    "python3": "makes an environment",
    "python3.11": "makes an environment for Isaac Sim",
    "python3.12": "makes an environment for LeRobot",
    "pytest": "the tests themselves",
}
"""Programs whose commands are not read, and why."""

FOREIGN = {"diagnostic_aggregator", "tf2_ros", "teleop_twist_keyboard"}
"""ROS packages of others, that `ros2 run` starts."""

ABSENT_TYPES = {"rlstack_msgs/action/Train"}
"""Types that are generated where ROS 2 is installed."""


def simple_commands() -> Iterator[tuple[str, str]]:
    """Yield page and text of each simple command in the pages' shell blocks."""
    for page in (str(path.relative_to(docs.ROOT)) for path in docs.PAGES):
        for language in ("sh", "bash", "console"):
            for block in docs.blocks(page, language):
                if language == "console":
                    lines = [line[2:] for line in block.split("\n") if line.startswith("$ ")]
                    block = "\n".join(lines)
                for line in _logical_lines(block):
                    for part in re.split(r"\s&&\s|;\s(?=do\b|done\b)|\bdo\b", line):
                        part = re.sub(r"^(\w+=\S*\s*)+", "", part.strip().rstrip("&").strip())
                        if part and not part.startswith("#"):
                            yield page, part


def _logical_lines(block: str) -> Iterator[str]:
    """Yield lines without comments, joined where a backslash or an open quote continues them."""
    held = ""
    for line in block.replace("\\\n", " ").split("\n"):
        line = re.sub(r"(^|\s+)#\s.*$", "", line)
        held = f"{held}\n{line}" if held else line
        if held.count("'") % 2 == 0:
            yield held
            held = ""
    assert not held, f"an open quote: {held}"


def _extras(command: str, words: list[str]) -> None:
    text = (docs.ROOT / "setup.py").read_text(encoding="utf-8")
    for extras in re.findall(r"(?:rlstack|\.)\[([\w,]+)\]", command):
        for extra in extras.split(","):
            assert f'    "{extra}": [' in text or f'EXTRAS["{extra}"]' in text, f"there is no extra {extra}"


def _make(command: str, words: list[str]) -> None:
    text = (docs.ROOT / "Makefile").read_text(encoding="utf-8")
    for word in words[1:]:
        name, given, _ = word.partition("=")
        variable = rf"^{re.escape(name)}\s*[?:]?=|\$\({re.escape(name)}\)"
        expected = variable if given else rf"^{re.escape(name)}\b[^=\n]*:"
        assert re.search(expected, text, re.MULTILINE), f"the Makefile has no {name}"


def _python(command: str, words: list[str]) -> None:
    if words[1] == "-m":
        module = words[2]
        assert find_spec(module) is not None or module in ("colcon", "venv"), module
        if module.startswith("rlstack.nodes."):
            _parameters(module.rpartition(".")[2], words)
        return
    if words[1].startswith("$("):
        _ros2(command, ["ros2", *command.partition(") ")[2].split()])
        return
    program = docs.ROOT / words[1]
    assert program.is_file(), f"there is no {words[1]}"
    folder = program.parent / program.stem
    sources = [program, *folder.glob("*.py")]
    text = "\n".join(source.read_text(encoding="utf-8") for source in sources)
    for option in re.findall(r"--[a-z][\w-]*", command):
        assert re.search(rf'"{option}"|\b{option[2:].replace("-", "_")}\b', text), f"{words[1]} has no {option}"


def _parameters(node: str, words: list[str]) -> None:
    known = {one.name for one in importlib.import_module(f"rlstack.nodes.{node}").PARAMETERS}
    given = {word.partition(":=")[0] for flag, word in pairwise(words) if flag == "-p"}
    assert given <= known, f"the {node} node has no {given - known}"


def _ros2(command: str, words: list[str]) -> None:
    what = words[1:3]
    if what[0] == "launch" and words[2] == "rlstack":
        assert (docs.ROOT / "launch" / words[3]).is_file()  # its arguments: test_docs.py
    elif what[0] == "run" and words[2] not in FOREIGN:
        assert words[2] == "rlstack"
        if words[3] == "rlstack":
            assert words[4] in cli.VERBS
        else:
            _parameters(words[3].removeprefix("rlstack_"), words)
    elif what in (["topic", "pub"], ["service", "call"], ["action", "send_goal"]):
        found = re.search(r"\b(\w+/(msg|srv|action)/\w+)\s+(['\"])(.*)\3", command, re.DOTALL)
        assert found is not None, "it has no type and content"
        content = yaml.safe_load(found[4])
        if found[1] not in ABSENT_TYPES:
            package, kind, name = found[1].split("/")
            made = getattr(importlib.import_module(f"{package}.{kind}"), name)
            _fill(made.Request() if kind == "srv" else made(), content)


def _fill(message: Any, content: dict[str, Any]) -> None:
    """Set the fields of a message as `ros2 topic pub` does."""
    for name, value in content.items():
        assert hasattr(message, name), f"{type(message).__name__} has no {name}"
        if isinstance(value, dict):
            _fill(getattr(message, name), value)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            kind = message.get_fields_and_field_types()[name].removeprefix("sequence<").removesuffix(">")
            package, _, what = kind.partition("/")
            for one in value:
                _fill(getattr(importlib.import_module(f"{package}.msg"), what)(), one)
        else:
            setattr(message, name, type(getattr(message, name))(value))


READERS: dict[str, Callable[[str, list[str]], None]] = {
    "make": _make,
    "pip": _extras,
    "lerobot_env/bin/pip": _extras,
    "python": _python,
    "ros2": _ros2,
    "rlstack": lambda command, words: None,  # test_docs.py
}


def test_every_command_is_read_by_what_it_calls() -> None:
    pytest.importorskip("rclpy")
    seen = set()
    for page, command in simple_commands():
        words = command.split()
        seen.add(words[0])
        if words[0] in NOT_READ:
            continue
        assert words[0] in READERS, f"{page}: nothing reads `{command}`: add a reader, or a reason to NOT_READ"
        try:
            READERS[words[0]](command, words)
        except (AssertionError, AttributeError, TypeError, ValueError) as error:
            raise AssertionError(f"{page}: `{command}`: {error}") from error
    assert not set(NOT_READ) - seen, "a reason for a program that no page calls"


CHEAP = ("new ", "init ", "model ", "world ", "policies", "show ", "completion ", "rviz ", "--version")
"""Commands of `rlstack` that take milliseconds; their files are made, or are those of the pages."""


def test_cheap_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the pages of tutorials and of one's own files, in the order in which a reader types them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))  # a task's folder is added, and other tests have their own
    pages = ["docs/workspace.md", *(f"docs/tutorials/my-{what}.md" for what in ("drone", "arm", "base"))]
    ran = 0
    for page in pages:
        for name, content in docs.files(page).items():
            (tmp_path / name).write_text(content)
        for line in (line for block in docs.blocks(page, "sh") for line in block.split("\n")):
            words = line.partition("#")[0].split()
            if words[:1] == ["rlstack"] and " ".join(words[1:]).startswith(CHEAP):
                monkeypatch.delitem(sys.modules, "my_hover", raising=False)
                assert cli.main(words[1:]) == 0, f"{page}: {line}"
                ran += 1
                for made in (*tmp_path.glob("my_*.yaml"),) if page == pages[0] and words[1] == "init" else ():
                    made.unlink()  # the tutorials have their own
    for path in tmp_path.glob("*.py"):  # what was imported of them is forgotten
        sys.modules.pop(path.stem, None)
    assert ran >= 10
