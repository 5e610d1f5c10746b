"""The supervised stage of the Meta-World benchmark: one policy for all tasks, by the network of our own tasks."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from rlstack.files import write_atomically
from rlstack.interfaces.signals import INSTRUCTION_BYTES
from rlstack.training.language.actor import LanguageActor, Layout
from rlstack.training.language.network_settings import NetworkSettings
from rlstack.training.language.supervised import Lesson, Supervised, SupervisedSettings
from rlstack.training.metaworld.demonstrations import AXES, LABELS, Demonstrations
from rlstack.training.metaworld.suite import Suite
from rlstack.training.metaworld.worker import SIZE
from rlstack.training.run_folder import save_state

CHECKPOINT, POLICY = "checkpoint.pt", "policy.pt"
CHUNK, STATE = 8, 4
"""Actions of a chunk; columns of the state."""

_EVERY_S = 60.0
"""Between two checkpoints."""
_STATISTICS = 512
"""Pictures from which the standardisation of pixels is computed."""
_LOGGED = 100
"""Updates that a line of the curve averages."""

SETTINGS = SupervisedSettings(
    network=NetworkSettings(channels=(16, 32, 48), layers=0, decoder_layers=1, points=24),
    head="regression",
    chunk=CHUNK,
    batch=64,
    precision="bfloat16",
    labels=1.0,
    looking=0.08,
    brightness=0.0,
    strange=0.0,
    shift=0,
)
"""Settings of policy and updates. Camera and light are always the same, and so are the words."""

OnProgress = Callable[[int, int], None]


@dataclass
class Learned:
    """How far learning is.

    Args:
        updates: Updates so far.
        cpu_s, wall_s: Spent so far.
        curve: Mean losses of every hundred updates, with the CPU time until then.
        done: Whether learning has ended.
    """

    updates: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    curve: list[dict[str, float]] | None = None
    done: bool = False


def make_policy(suite: Suite) -> LanguageActor:
    """Return an untrained policy for a suite."""
    layout = Layout(STATE, (1, SIZE, SIZE, 3), INSTRUCTION_BYTES)
    return LanguageActor(layout, suite.words, AXES, SETTINGS)


def learn(suite: Suite, folder: Path, seed: int, updates: int, limit_s: float, on_progress: OnProgress) -> Learned:
    """Learn from the folder's demonstrations; go on where a checkpoint is, and write the policy at the end.

    Args:
        suite: Its tasks.
        folder: The benchmark's folder.
        seed: Of weights, batches and augmentation.
        updates: Number of updates.
        limit_s: Time for them; the learning rate falls with the share of updates or of the time, which is larger.
        on_progress: Called with the updates done and those that there will be.
    """
    torch.manual_seed(seed)
    policy, generator = make_policy(suite), torch.Generator().manual_seed(seed)
    shown = Demonstrations(folder, suite.sentences, policy)
    some = torch.linspace(0, len(shown) - 1, min(_STATISTICS, len(shown))).long()
    policy.normalise_by(shown.state, shown.pictures(some), shown.action.reshape(-1, AXES))
    learner = Supervised(SETTINGS, policy, generator, LABELS)
    far, file = Learned(curve=[]), folder / CHECKPOINT
    if file.is_file():
        held = torch.load(file, weights_only=True)
        learner.load_state_dict(held["learner"])
        far = Learned(**held["learned"])
    lessons, losses = _lessons(shown, SETTINGS.batch, generator), list[dict[str, torch.Tensor]]()
    wall, cpu, saved = time.monotonic() - far.wall_s, time.process_time() - far.cpu_s, time.monotonic()
    while not far.done:
        share = max(far.updates / updates, far.wall_s / limit_s)
        if share < 1.0:
            losses.append(learner.update(lessons, share))
            far.updates += 1
        far.wall_s, far.cpu_s = time.monotonic() - wall, time.process_time() - cpu
        far.done = share >= 1.0
        if losses and (far.done or far.updates % _LOGGED == 0):
            assert far.curve is not None
            far.curve.append({"updates": far.updates, "cpu_s": round(far.cpu_s, 1), **_means(losses)})
            losses.clear()
        if far.done or time.monotonic() - saved > _EVERY_S:
            save_state(file, {"learner": learner.state_dict(), "learned": vars(far)})
            saved = time.monotonic()
        on_progress(far.updates, max(far.updates, min(updates, int(far.updates / max(share, 1e-6)))))
    save_state(folder / POLICY, policy.state_dict())
    write_atomically(folder / "learning.json", json.dumps(vars(far), indent=1) + "\n")
    return far


def load_policy(suite: Suite, folder: Path) -> LanguageActor:
    """Return the policy that :func:`learn` wrote."""
    policy = make_policy(suite)
    policy.load_state_dict(torch.load(folder / POLICY, weights_only=True))
    return policy.eval().requires_grad_(False)


def _lessons(shown: Demonstrations, size: int, generator: torch.Generator) -> Iterator[Lesson]:
    while True:
        yield shown.lesson(torch.randint(len(shown), (size,), generator=generator))


def _means(losses: list[dict[str, torch.Tensor]]) -> dict[str, float]:
    names = {name for one in losses for name in one}
    return {name: float(torch.stack([one[name] for one in losses if name in one]).mean()) for name in sorted(names)}
