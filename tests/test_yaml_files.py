"""YAML from anyone: read, or refused in a sentence, soon and in little memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.errors import UserError
from rlstack.robots import load_robot
from rlstack.sim.world import load_world
from rlstack.training.recipe import load_recipe
from rlstack.yaml_files import MAX_BYTES, MAX_DEPTH, parse_yaml, read_yaml


def bomb(levels: int, each: int, merge: bool = False) -> str:
    """Return text whose aliases stand for ``each`` to the power of ``levels`` values."""
    lines = ["a0: &a0 {k: x}" if merge else "a0: &a0 [x]"]
    for level in range(1, levels):
        aliases = ", ".join([f"*a{level - 1}"] * each)
        lines.append(f"a{level}: &a{level} {{<<: [{aliases}]}}" if merge else f"a{level}: &a{level} [{aliases}]")
    return "\n".join(lines)


def chain(levels: int) -> str:
    """Return text in which each alias is 40 levels above the one before."""
    lines = ["a0: &a0 [x]"]
    lines += [f"a{k}: &a{k} {'[' * 40}*a{k - 1}{']' * 40}" for k in range(1, levels)]
    return "\n".join(lines)


HOSTILE = {
    "alias bomb": (bomb(9, 9), "line 6: more than 50,000 values, those of aliases counted every time"),
    "alias bomb of merges": (bomb(9, 9, merge=True), "more than 50,000 values"),
    "deep lists": ("[" * 5000, f"line 1: more than {MAX_DEPTH} lists and mappings are within each other"),
    "deep mappings": ("{a: " * 5000, f"more than {MAX_DEPTH} lists and mappings"),
    "deep indentation": ("".join(" " * k + "a:\n" for k in range(400)), f"more than {MAX_DEPTH} lists and mappings"),
    "deep by aliases": (chain(100), f"more than {MAX_DEPTH} lists and mappings"),
    "alias of itself": ("&a [*a]", "line 1: an alias stands within what it refers to"),
    "unknown alias": ("a: *b", "undefined alias"),
    "a 13th month": ("a: 2026-13-45", "a number, date or tag in it cannot be read"),
    "no date": ("a: !!timestamp tomorrow", "a number, date or tag in it cannot be read"),
    "no number": ("a: !!int ''", "a number, date or tag in it cannot be read"),
    "a number of 10,000 digits": (f"a: {'9' * 10_000}", "a number, date or tag in it cannot be read"),
    "code": ("a: !!python/object/apply:os.system ['true']", "could not determine a constructor"),
    "control characters": ("a: \x00", "special characters are not allowed"),
    "two documents": ("a: 1\n---\nb: 2", "expected a single document"),
    "list as key": ("? [a]\n: b", "unhashable key"),
    "too many values": ("[" + "1," * 60_000 + "]", "more than 50,000 values"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_refused_soon(name: str, tmp_path: Path) -> None:
    text, said = HOSTILE[name]
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    started = time.monotonic()
    with pytest.raises(UserError) as caught:
        read_yaml(path, "the robot file")
    assert time.monotonic() - started < 10.0
    assert said in str(caught.value) and str(caught.value).startswith(f"The robot file {path} is not valid YAML: ")
    assert "\n" not in str(caught.value)


READERS: dict[str, Callable[[str], Any]] = {"robot": load_robot, "recipe": load_recipe, "world": load_world}


@pytest.mark.parametrize("reader", READERS)
def test_every_file_of_a_user_is_read_so(reader: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    for content in (
        bomb(9, 9).encode(),
        b"\xff\xfea",
        b"a: 2026-13-45",
        b"[" * 5000,
        b"- " * 3000,
        b"x" * (MAX_BYTES + 1),
    ):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"mine\.yaml"):
            READERS[reader](str(path))
    os.remove(path)
    os.mkfifo(path)  # opening it would wait for ever
    with pytest.raises(UserError, match="it is not a regular file"):
        READERS[reader](str(path))


def test_what_is_no_text_says_in_which_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(b"a: 1\nb: \xe9t\xe9\n")
    with pytest.raises(UserError, match=r"Cannot read the world .*mine.yaml: line 2 is not UTF-8 text. Save it"):
        read_yaml(path, "the world")


def test_ordinary_aliases_and_merges_are_read() -> None:
    text = "base: &b {x: 1, y: [1.5, yes]}\nother: {<<: *b, x: 2}\nlist: [*b, *b]\nday: 2026-11-24"
    assert parse_yaml(text, "it") == yaml.safe_load(text)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_what_yaml_writes_is_read_as_it_was(value: Any) -> None:
    assert parse_yaml(yaml.safe_dump(value), "it") == yaml.safe_load(yaml.safe_dump(value))


@settings(max_examples=200)
@given(st.text(alphabet="ab:-&*<[]{}|>!?,#'\"\n 1.0-~%@`\t", max_size=60) | st.text(max_size=40))
def test_any_text_is_read_or_refused_in_a_sentence(text: str) -> None:
    try:
        parse_yaml(text, "it")
    except UserError as error:
        assert str(error).startswith("It is not valid YAML: ")
