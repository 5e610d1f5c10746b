"""Chunks of own trials on disk, with what an expert would have done, and batches of them beside demonstrations."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from rlstack.tasks.core.pipeline import TermInfo
from rlstack.training.language.actor import LanguageActor, Layout, PolicySettings
from rlstack.training.language.corrections import Corrections, mixed
from rlstack.training.language.network_settings import NetworkSettings

SMALL = NetworkSettings(channels=(4, 4), points=2, width=8, heads=2, layers=0, decoder_layers=1)
LAYOUT = Layout(3, (1, 16, 16, 3), 8)
COUNT, CHUNK, ACTIONS = 4, 2, 5


class Robots(SimpleNamespace):
    """What is known of N robots: their numbers."""

    count = COUNT

    def privileged_table(self) -> list[TermInfo]:
        return [TermInfo("age", 0, 1, "", ""), TermInfo("object_offset", 1, 3, "", "")]

    def privileged(self) -> Tensor:
        return torch.arange(float(COUNT))[:, None].expand(-1, 4)

    def image_places(self) -> Tensor:
        return torch.arange(float(COUNT))[:, None, None, None].expand(-1, 1, 1, 2) / COUNT


def kept(folder: Path | None, capacity: int = 1000) -> tuple[Corrections, LanguageActor]:
    actor = LanguageActor(LAYOUT, ("push",), ACTIONS, PolicySettings(network=SMALL, chunk=CHUNK))
    return Corrections(Robots(), actor, capacity, folder), actor


def seen(time: float) -> Tensor:
    observation = torch.zeros(COUNT, LAYOUT.state + LAYOUT.length + 16 * 16 * 3)
    observation[:, 0], observation[:, 1], observation[:, -1] = torch.arange(float(COUNT)), time, 200.0
    return observation


def tried(own: Corrections, steps: int, going: Tensor) -> None:
    own.begin(seen(0.0))
    for k in range(steps):
        robots = torch.arange(float(COUNT))[:, None, None].expand(-1, CHUNK, ACTIONS)
        own.add(going, robots + 10.0 * k, torch.ones(COUNT, CHUNK), seen(k + 1.0))


def test_each_chunk_has_what_was_seen_before_it_and_only_robots_that_go_on_are_kept(tmp_path: Path) -> None:
    own, _ = kept(tmp_path)
    tried(own, 3, torch.tensor([True, False, True, True]))
    assert len(own) == 9
    lesson: Any = own.draw(64, torch.Generator().manual_seed(0))
    assert set(lesson.seen.state[:, 0].tolist()) == {0.0, 2.0, 3.0}
    torch.testing.assert_close(lesson.action[:, 0, 0], lesson.seen.state[:, 0] + 10.0 * lesson.seen.state[:, 1])
    torch.testing.assert_close(lesson.known.offsets, lesson.seen.state[:, :1].expand(-1, 3))
    torch.testing.assert_close(lesson.known.places[:, 0, 0, 0], lesson.seen.state[:, 0] / COUNT)
    assert lesson.seen.images.dtype == torch.uint8 and (lesson.seen.images[:, 0, -1, -1, -1] == 200).all()
    own.close()
    again, _ = kept(tmp_path)
    assert len(again) == 9, "they stay in the run's folder"
    again.close()


def test_the_oldest_are_overwritten() -> None:
    own, _ = kept(None)
    for _ in range(3):
        tried(own, 200, torch.ones(COUNT, dtype=torch.bool))
    assert 900 <= len(own) < 1000
    own.close()


def test_a_share_of_each_batch_is_of_demonstrations() -> None:
    own, _ = kept(None)
    tried(own, 2, torch.ones(COUNT, dtype=torch.bool))
    draw = torch.Generator().manual_seed(0)
    shown: Any = SimpleNamespace(
        lesson=lambda size, generator: own.draw(size, generator)._replace(
            action=torch.full((size, CHUNK, ACTIONS), -1.0)
        )
    )
    for share, wanted in ((0.25, 2), (1.0, 8), (0.0, 0)):
        lesson = next(mixed(shown, share, own, 8, draw))
        assert (lesson.action < 0.0).all(dim=-1).all(dim=-1).sum() == wanted
        assert len(lesson.seen.tokens) == len(lesson.inside) == len(lesson.known.places) == 8  # type: ignore[union-attr, arg-type]
    assert (next(mixed(None, 0.5, own, 8, draw)).action >= 0.0).all()
    own.close()
