"""Text as bytes, and the words that a policy knows."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlstack import schema
from rlstack.interfaces.instruction import TextInput, decoded, edits, encoded, split_words, understood
from rlstack.interfaces.signals import INSTRUCTION_BYTES, SENSED

KNOWN = ("push", "the", "red", "blue", "block", "left", "right", "forward", "to")


def test_an_instruction_is_its_bytes_and_zeros() -> None:
    signal = encoded("Push the réd block!")
    assert signal.shape == SENSED["instruction"].shape and signal.dtype == np.uint8
    assert decoded(signal) == "Push the réd block!" and decoded(signal.astype(np.float32)) == "Push the réd block!"
    assert not signal[len("Push the réd block!".encode()) :].any()
    assert decoded(np.zeros(INSTRUCTION_BYTES)) == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "without words"),
        (" ?! ", "without words"),
        ("é" * 65, "130 bytes"),
        ("a\0b", "zero byte"),
        ("a\ud800", "UTF-8"),
    ],
)
def test_what_is_no_instruction_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        encoded(text)


def test_words_end_at_spaces_and_punctuation() -> None:
    assert split_words("Push THE red-block, please; Übung_2") == ["push", "the", "red", "block", "please", "Übung", "2"]


def test_a_misspelt_word_is_corrected_and_an_unknown_one_is_named() -> None:
    said, told = understood("Psuh the rde  blok leftward!", KNOWN)
    assert said == "push the red  block leftward!"
    assert told[0] == "the policy does not know the word 'Psuh', and takes it for 'push'"
    assert "'leftward', and ignores it; the nearest that it knows are 'forward', 'left'" in told[3] and len(told) == 4
    assert understood("Push the Red block", KNOWN) == ("Push the Red block", [])


def test_a_word_that_the_graph_takes_for_another_stays_and_is_named() -> None:
    said, told = understood("push the Crimson block", KNOWN, (("crimson", "red"),))
    assert said == "push the Crimson block"
    assert told == ["the policy does not know the word 'Crimson', and takes it for 'red'"]
    text = TextInput(words=("red",), meanings=(("crimson", "red"),))
    assert schema.load(TextInput, json.loads(json.dumps(schema.to_data(text))), "text") == text
    with pytest.raises(ValueError, match="meanings: 'red' is not allowed"):
        TextInput(words=("blue",), meanings=(("crimson", "red"),))


@given(st.text("abc", max_size=6), st.text("abc", max_size=6))
def test_edits_are_a_distance(one: str, other: str) -> None:
    assert edits(one, other) == edits(other, one)
    assert (edits(one, other) == 0) == (one == other)
    assert abs(len(one) - len(other)) <= edits(one, other) <= max(len(one), len(other))


def test_edits_count_swapped_neighbours_once() -> None:
    assert [edits("red", other) for other in ("red", "rde", "bed", "re", "read", "green")] == [0, 1, 1, 1, 1, 3]


def test_words_of_a_policy_are_words() -> None:
    for words in ((), ("Red",), ("red block",)):
        with pytest.raises(ValueError, match="words"):
            TextInput(words=words)
