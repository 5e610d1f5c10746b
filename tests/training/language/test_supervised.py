"""Augmentation of what supervised updates learn from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlstack.errors import UserError
from rlstack.training.language.actor import LanguageActor, Layout, Seen
from rlstack.training.language.network import Network
from rlstack.training.language.network_settings import NetworkSettings
from rlstack.training.language.supervised import Known, Lesson, Supervised, SupervisedSettings, with_strange
from rlstack.training.language.tokeniser import NO_WORD, UNKNOWN

SEES_APART = NetworkSettings(
    channels=(4, 4), points=2, looks=3, width=8, heads=2, layers=0, decoder_layers=0, sees_apart=True
)


def learner(**changed: Any) -> Supervised:
    small = NetworkSettings(channels=(4, 4), points=2, width=8, heads=2, layers=0, decoder_layers=1)
    fixed = SupervisedSettings(network=small, chunk=2, shift=0, brightness=0.0, strange=0.0, learning_rate=1e-9)
    settings = replace(fixed, **changed)
    torch.manual_seed(0)
    actor = LanguageActor(Layout(5, (1, 16, 16, 3), 32), ("push",), 2, settings)
    return Supervised(settings, actor, torch.Generator().manual_seed(0), 3)


@given(st.lists(st.integers(2, 40), max_size=10), st.integers(0, 2**31 - 1))
def test_unknown_words_come_among_the_known_ones_which_keep_their_order(said: list[int], seed: int) -> None:
    tokens = torch.tensor([said + [NO_WORD] * (16 - len(said))] * 8)
    for row in with_strange(tokens, 1.0, torch.Generator().manual_seed(seed)).tolist():
        words = [one for one in row if one != NO_WORD]
        assert row == words + [NO_WORD] * (16 - len(words)), "absent ones are last"
        assert [one for one in words if one != UNKNOWN] == said
        assert words.count(UNKNOWN) <= 3


def test_about_the_given_share_of_sentences_changes() -> None:
    tokens = torch.tensor([[5, 6, 7, NO_WORD]]).expand(400, -1)
    changed = (with_strange(tokens, 0.5, torch.Generator().manual_seed(0)) == UNKNOWN).any(dim=1).float().mean()
    assert 0.35 < changed < 0.55
    assert torch.equal(with_strange(tokens, 0.0, torch.Generator()), tokens)


def test_loose_words_come_and_go_and_all_others_stay_in_their_order() -> None:
    loose = torch.tensor([5, 9])
    tokens = torch.tensor([[5.0, 6.0, 7.0, 0.0, 0.0, 0.0, 0.0]]).expand(400, -1)
    rows = with_strange(tokens, 1.0, torch.Generator().manual_seed(0), loose).tolist()
    assert all([one for one in row if one not in (NO_WORD, UNKNOWN, 5, 9)] == [6.0, 7.0] for row in rows)
    assert 0.3 < sum(9 in row for row in rows) / 400 < 0.6 and 0.2 < sum(5 not in row for row in rows) / 400 < 0.5
    assert torch.equal(with_strange(tokens, 0.0, torch.Generator(), loose), tokens)


def test_refuses_a_loose_word_that_is_not_known() -> None:
    with pytest.raises(UserError, match="loose: 'grasp'"):
        learner(loose=("push", "grasp"))


def test_a_new_guess_of_labels_is_as_good_as_the_network_allows() -> None:
    one = learner()
    actor = one.actor
    images = torch.randint(256, (64, 1, 16, 16, 3)).to(torch.uint8)
    seen = Seen(torch.randn(64, 5), torch.full((64, 16), 2), images)
    assert isinstance(actor.network, Network)
    with torch.no_grad():
        offsets = torch.relu(actor.network.place(*seen).feature) @ torch.randn(8, 3) + 0.7
    nowhere = torch.full((64, 1, 1, 2), 2.0)
    lesson = Lesson(seen, torch.zeros(64, 2, 2), torch.ones(64, 2), Known(offsets, nowhere))
    assert one.update(iter([lesson]), 0.5)["labels"] > 0.1
    one.guess_by(lesson)
    assert one.update(iter([lesson]), 0.5)["labels"] < 1e-3
    assert one.update(iter([lesson]), 0.5, stills=True).keys() == {"labels", "places"}


def test_who_sees_apart_learns_to_see_and_to_act_from_lessons_of_their_own() -> None:
    one = learner(network=SEES_APART, learning_rate=1e-2, distance=1.0, told=2, looking=0.0, weight_decay=0.1)
    assert one.sees_alone and isinstance(one.actor.network, Network)
    eyes = one.actor.network.eyesight()
    plans = [one for one in one.actor.parameters() if not any(one is eye for eye in eyes)]
    seen = Seen(torch.randn(16, 5), torch.full((16, 16), 2), torch.randint(256, (16, 1, 16, 16, 3)).to(torch.uint8))
    known = Known(torch.randn(16, 3), torch.rand(16, 1, 2, 5) - 0.5)
    lesson = Lesson(seen, torch.randn(16, 2, 2), torch.ones(16, 2), known)

    def changed(learns: list[torch.nn.Parameter], lesson: Lesson, **how: bool) -> set[str]:
        before = [parameter.clone() for parameter in learns]
        losses = one.update(iter([lesson]), 0.5, **how)
        unchanged = [torch.equal(*pair) for pair in zip(before, learns)]
        assert all(unchanged) or not all(unchanged[1:])
        return set() if all(unchanged) else set(losses)

    told = lesson.told(0.01, torch.Generator().manual_seed(0))
    assert changed(eyes, lesson, stills=True) == {"places", "distance", "looks"}
    assert changed(plans, told, told=True) == {"actions", "labels"}
    assert not changed(plans, lesson, stills=True) and not changed(eyes, told, told=True)
    assert changed(plans, lesson) and changed(eyes, lesson) >= {"actions", "labels", "places"}


def test_where_what_is_seen_is_fixed_lessons_teach_the_rest_alone() -> None:
    other = learner(network=SEES_APART, told=1, looking=0.0)
    other.actor.fix_eyes()
    one = Supervised(other.settings, other.actor, torch.Generator().manual_seed(0), 3)
    seen = Seen(torch.randn(16, 5), torch.full((16, 16), 2), torch.randint(256, (16, 1, 16, 16, 3)).to(torch.uint8))
    lesson = Lesson(seen, torch.randn(16, 2, 2), torch.ones(16, 2), Known(torch.randn(16, 3), torch.rand(16, 1, 2, 5)))
    assert not one.sees_alone
    assert one.update(iter([lesson]), 0.5, stills=True).keys() == {"labels"}
    assert one.update(iter([lesson]), 0.5).keys() == {"actions", "labels"}


def test_a_network_that_acts_by_offsets_guesses_labels_itself() -> None:
    one = learner(network=replace(SEES_APART, offsets=3), told=1, looking=0.0, learning_rate=1e-2)
    assert isinstance(one.actor.network, Network) and one.actor.network.offsets is not None
    seen = Seen(torch.randn(16, 5), torch.full((16, 16), 2), torch.zeros(0))
    known = Known(torch.full((16, 3), 2.0), torch.rand(16, 1, 2, 5) - 0.5)
    lesson = Lesson(seen, torch.randn(16, 2, 2), torch.ones(16, 2), known)
    told = lesson.told(0.0, torch.Generator().manual_seed(0))
    before = one.actor.network.offsets.bias.clone()
    losses = [one.update(iter([told]), 0.5, told=True)["labels"] for _ in range(30)]
    assert losses[-1] < 0.5 * losses[0] and not torch.equal(one.actor.network.offsets.bias, before)
    bias = one.actor.network.offsets.bias.clone()
    one.guess_by(told)
    assert torch.equal(one.actor.network.offsets.bias, bias), "it came with what was learned before"
