"""Words that are taken for others by their vectors."""

from __future__ import annotations

import importlib.util
import json
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.tasks.catalog.base_landmark import BaseLandmarkTask
from rlstack.training.language import meanings as module
from rlstack.training.language.meanings import meanings

WORDS = BaseLandmarkTask().text.words
INSTALLED = importlib.util.find_spec("all_minilm_l6_v2") is not None


def test_without_vectors_no_word_is_taken_for_another() -> None:
    assert meanings(WORDS, "none") == {}


@pytest.mark.skipif(not INSTALLED, reason="needs the extra words")
def test_words_of_like_meaning_are_taken_for_those_of_training_and_others_are_not() -> None:
    found = meanings(WORDS, "minilm")
    wanted = {"doorway": "door", "gate": "door", "boxes": "box", "driving": "drive", "scarlet": "red", "azure": "blue"}
    assert {word: found.get(word) for word in wanted} == wanted
    unlike = {"orange", "pink", "wrong", "window", "wall", "please", "stay", "robot", *WORDS}
    assert not unlike & {*found} and {*found.values()} <= {*WORDS}


def package(folder: Path, monkeypatch: pytest.MonkeyPatch, rows: dict[str, list[float]]) -> None:
    """Have an encoder of a few words in a folder instead of the installed one."""
    table = np.array(list(rows.values()), "<f4")
    own = {"shape": table.shape, "data_offsets": [8, 8 + table.nbytes]}
    header = {"first": {"data_offsets": [0, 8]}, module._TABLE: own}
    head = json.dumps(header).encode()
    with zipfile.ZipFile(folder / "model.zip", "w") as packed:
        packed.writestr("tokenizer.json", json.dumps({"model": {"vocab": {word: k for k, word in enumerate(rows)}}}))
        packed.writestr("model.safetensors", len(head).to_bytes(8, "little") + head + bytes(8) + table.tobytes())
    spec = SimpleNamespace(origin=str(folder / "__init__.py"))
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: spec)


def test_the_nearest_word_counts_if_it_is_near(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    rows = {"door": [9.0, 0.0, 0.0], "pillar": [0.0, 9.0, 0.0], "gate": [8.0, 1.0, 0.0], "far": [0.0, 0.0, 9.0]}
    package(tmp_path, monkeypatch, rows)
    found = meanings(("door", "pillar", "the"), "minilm")
    assert found == {"gate": "door"}


def test_a_missing_or_broken_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    package(tmp_path, monkeypatch, {"door": [1.0, 0.0]})
    (tmp_path / "model.zip").write_bytes(b"no archive")
    with pytest.raises(UserError, match=r"is not all-MiniLM-L6-v2.*force-reinstall"):
        meanings(("door",), "minilm")
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'rlstack\[words\]'"):
        meanings(("door",), "minilm")
