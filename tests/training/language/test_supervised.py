"""Augmentation of what supervised updates learn from."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from rlstack.training.language.supervised import with_unknown
from rlstack.training.language.tokeniser import NO_WORD, UNKNOWN


@given(st.lists(st.integers(2, 40), max_size=10), st.integers(0, 2**31 - 1))
def test_unknown_words_come_among_the_known_ones_which_keep_their_order(said: list[int], seed: int) -> None:
    tokens = torch.tensor([said + [NO_WORD] * (16 - len(said))] * 8)
    for row in with_unknown(tokens, 1.0, torch.Generator().manual_seed(seed)).tolist():
        words = [one for one in row if one != NO_WORD]
        assert row == words + [NO_WORD] * (16 - len(words)), "absent ones are last"
        assert [one for one in words if one != UNKNOWN] == said
        assert words.count(UNKNOWN) <= 3


def test_about_the_given_share_of_sentences_changes() -> None:
    tokens = torch.tensor([[5, 6, 7, NO_WORD]]).expand(400, -1)
    changed = (with_unknown(tokens, 0.5, torch.Generator().manual_seed(0)) == UNKNOWN).any(dim=1).float().mean()
    assert 0.35 < changed < 0.55
    assert torch.equal(with_unknown(tokens, 0.0, torch.Generator()), tokens)
