"""The tokeniser of tensors, beside one of Python strings."""

from __future__ import annotations

import re

import numpy as np
import onnxruntime
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rlstack.interfaces.signals import INSTRUCTION_BYTES
from rlstack.policies.operators import ALLOWED
from rlstack.tasks.core.onnx_tracing import trace_to_onnx
from rlstack.training.language.tokeniser import NO_WORD, UNKNOWN, Tokeniser

WORDS = ("push", "the", "red", "block", "to", "left", "right", "of", "größe", "3", "a", "aa", "x" * 60)
TOKENISER = Tokeniser(WORDS)


def plain(text: str, words_max: int = 16) -> list[int]:
    """Return the tokens of a text without tensors."""
    found = re.findall(r"[a-z0-9\x80-\U0010ffff]+", re.sub("[A-Z]", lambda letter: letter[0].lower(), text))
    tokens = [WORDS.index(word) + 2 if word in WORDS else UNKNOWN for word in found][:words_max]
    return tokens + [NO_WORD] * (words_max - len(tokens))


def encode(text: str) -> np.ndarray:
    return np.frombuffer(text.encode().ljust(INSTRUCTION_BYTES, b"\0"), dtype=np.uint8)


def tokens(texts: list[str]) -> list[list[int]]:
    given = torch.from_numpy(np.stack([encode(text) for text in texts])).float()
    return TOKENISER(given).int().tolist()


spoken = st.lists(
    st.one_of(st.sampled_from(WORDS), st.sampled_from([" ", ", ", "-", "\t", ""]), st.text(max_size=6)), max_size=24
).map("".join)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.lists(
        spoken.filter(lambda text: len(text.encode()) <= INSTRUCTION_BYTES and "\0" not in text), min_size=1, max_size=8
    )
)
@example(
    [
        "",
        "a",
        " a",
        "aa a aaa",
        "Push THE red, block: to the left!",
        "a" * INSTRUCTION_BYTES,
        " ".join("a" * 40),
        "GRÖSSE größe",
    ]
)
def test_equals_a_tokeniser_of_strings(texts: list[str]) -> None:
    assert tokens(texts) == [plain(text) for text in texts]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=12))
def test_a_word_has_one_code_wherever_it_stands_and_another_word_has_another(word: str) -> None:
    codes, there = TOKENISER._codes(torch.from_numpy(np.stack([encode(word), encode(f"we, the {word}")])).float())
    assert torch.equal(codes[0, 0], codes[1, 2]) and there[1, 2] == 1.0
    assert (word in WORDS) == bool((codes[0, 0] == TOKENISER.codes).all(dim=-1).any())


def test_graph_has_a_policys_operators_and_gives_the_same_tokens() -> None:
    model = trace_to_onnx(TOKENISER, {"instruction": (INSTRUCTION_BYTES,)}, {"tokens": (16,)})
    assert {node.op_type for node in model.graph.node} <= ALLOWED
    texts = ["push the red block", "Größe 3, AA a", "nothing known here"]
    given = np.stack([encode(text) for text in texts]).astype(np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    assert session.run(None, {"instruction": given})[0].astype(int).tolist() == [plain(text) for text in texts]


@pytest.mark.parametrize("words", [(), ("red", "red"), ("Red",), ("red block",)])
def test_refuses_a_vocabulary_that_is_not_one(words: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="vocabulary"):
        Tokeniser(words)


MEANINGS = {"crimson": "red", "shove": "push", "größer": "größe"}
TAKING = Tokeniser(WORDS, meanings=MEANINGS)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from([*WORDS, *MEANINGS, "unheard"]), min_size=1, max_size=16))
def test_another_word_has_the_token_of_the_one_that_it_means(said: list[str]) -> None:
    text = " ".join(said)
    if len(text.encode()) > INSTRUCTION_BYTES:
        return
    meant = TAKING(torch.from_numpy(encode(text)[None].copy()).float())
    assert meant[0].int().tolist() == plain(" ".join(MEANINGS.get(word, word) for word in said))


def test_the_graph_takes_words_for_others_as_well_and_a_checkpoint_without_them_fits_as_before() -> None:
    model = trace_to_onnx(TAKING, {"instruction": (INSTRUCTION_BYTES,)}, {"tokens": (16,)})
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    given = encode("Shove the crimson block").astype(np.float32)[None]
    assert session.run(None, {"instruction": given})[0][0].astype(int).tolist() == plain("push the red block")
    Tokeniser(WORDS).load_state_dict(TOKENISER.state_dict())
    assert {*TAKING.state_dict()} - {*TOKENISER.state_dict()} == {"other_codes", "other_tokens"}
