"""Demonstrations of instructed tasks on disk, one step for each chunk of actions, with the image at its beginning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlstack.data.replay import ReplayBuffer, ReplayReader, ReplaySpec, fields
from rlstack.data.replay.storage import SPEC_FILE
from rlstack.errors import UserError
from rlstack.tasks.core.pipeline import Tensors
from rlstack.training.dataset_demonstrations import fitting, frame_features, steps_of_frames, successful
from rlstack.training.hindsight_replay import Rows, each, keep_episode
from rlstack.training.language.actor import LanguageActor, Layout, Seen

FOLDER = "chunks"
"""Folder of demonstrations in a run's folder."""

LABELS = ("object_offset", "goal_offset")
"""What only a simulator knows, and a network may learn to see; see ``privileged_table``."""

_KEPT = 0.85
"""Share of the noise on the expert's actions that remains one step later."""
_AFTER_SUCCESS = 3
"""Chunks after success in a demonstration, which show the policy to leave what is done."""
_TRIES = 20
"""Largest number of attempted episodes for each wanted demonstration."""
_TOGETHER = 256
"""Steps whose images are in memory at once."""


class ChunkReplay:
    """Demonstrations in chunks, whose images stay on disk; all else is in memory.

    Args:
        reader: Their replay buffer.
        actor: Its tokeniser reads the instructions.
    """

    def __init__(self, reader: ReplayReader, actor: LanguageActor) -> None:
        self._reader, self._index = reader, reader.indices()
        found: dict[str, list[NDArray[Any]]] = {}
        for some in np.split(self._index, range(_TOGETHER, len(self._index), _TOGETHER)):
            rows = reader.gather(some)
            for name in ("state", "instruction", "labels", "action", "inside"):
                found.setdefault(name, []).append(rows[name])
        self.state, said, self.labels, self.action, self.inside = (
            torch.from_numpy(np.concatenate(rows)) for rows in found.values()
        )
        with torch.no_grad():
            self.tokens = torch.cat([actor.tokeniser(some.float()) for some in said.split(1024)])

    def __len__(self) -> int:
        """Return the number of chunks."""
        return len(self._index)

    def images(self, index: NDArray[np.intp]) -> Tensor:
        """Return the images (n, cameras, rows, columns, 3) of some chunks, uint8."""
        return torch.from_numpy(self._reader.observe(self._index[index])["pictures"])

    def seen(self, index: Tensor) -> Seen:
        """Return what the network gets at the beginning of some chunks."""
        return Seen(self.state[index], self.tokens[index], self.images(index.numpy()))


def chunk_spec(layout: Layout, chunk: int, actions: int, labels: int, capacity: int) -> ReplaySpec:
    """Return the layout of a replay buffer of chunks."""
    seen = fields(
        state=((layout.state,), "float32"),
        instruction=((layout.length,), "uint8"),
        pictures=(layout.images, "uint8"),
        labels=((labels,), "float32"),
    )
    made = fields(action=((chunk, actions), "float32"), inside=((chunk,), "float32"))
    return ReplaySpec(seen, made, max(1000, capacity), 1)


def open_chunks(
    environment: Any, actor: LanguageActor, folder: Path, wanted: int, stray: float, generator: torch.Generator
) -> ChunkReplay:
    """Return demonstrations of the task's scripted expert in a run's folder; existing ones are reused.

    Args:
        environment: Environment of the demonstrations.
        actor: Gives their layout and chunk.
        folder: The run's folder.
        wanted: Number of successful episodes.
        stray: Standard deviation of the noise on the expert's executed actions, but not on the recorded ones, so that
            demonstrations show recovery (Laskey et al., "DART: Noise Injection for Robust Imitation Learning", arXiv
            1703.09327).
        generator: Draws the noise.

    Raises:
        UserError: The expert seldom succeeds, or existing demonstrations have another layout.
    """
    each_takes = -(-environment.task.steps // actor.chunk) + 1
    spec = chunk_spec(actor.layout, actor.chunk, actor.actions, labels_size(environment), wanted * each_takes)
    with ReplayBuffer(folder / FOLDER, spec) as buffer:
        held = len(buffer.episodes())
        if held < wanted:
            _demonstrate(environment, actor, buffer, wanted, held, stray, generator)
    return ChunkReplay(ReplayReader(folder / FOLDER), actor)


def copy_chunks(environment: Any, actor: LanguageActor, folder: Path, wanted: int, dataset: str) -> ChunkReplay:
    """Copy demonstrations of a LeRobot dataset into a run's folder and return them; existing ones are reused.

    Every frame begins a chunk. Its labels are 0, since a dataset does not hold them.

    Raises:
        UserError: The dataset is of another robot, rate, camera, task or motion, or has fewer.
    """
    where = folder / FOLDER
    if (where / SPEC_FILE).is_file() and len((there := ReplayReader(where)).episodes()) >= wanted:
        return ChunkReplay(there, actor)  # the dataset may be gone by now
    held, names = fitting(Path(dataset), environment, frame_features(environment))
    good = successful(held, wanted)
    steps = sum(held.episodes[number].length + 1 for number in good)
    labels = labels_size(environment)
    with ReplayBuffer(where, chunk_spec(actor.layout, actor.chunk, actor.actions, labels, steps)) as buffer:
        for number in good[len(buffer.episodes()) :]:
            keep_episode(buffer, _chunks_of(held.read(number, names), environment, actor))
    return ChunkReplay(ReplayReader(where), actor)


def _chunks_of(frames: dict[str, NDArray[Any]], environment: Any, actor: LanguageActor) -> list[Rows]:
    """Return an episode's frames as steps, each with the chunk of actions from its frame on."""
    none = torch.zeros(1, environment.privileged_size)

    def row(number: int, prepared: Tensors, observation: Tensor) -> Rows:
        (seen,) = each(seen_rows(environment, actor.layout, observation, none))
        return seen

    first, *steps = steps_of_frames(frames, environment, row)
    actions = np.stack([step["action"] for step in steps])
    ahead = np.arange(len(steps))[:, None] + np.arange(actor.chunk)
    chunks, inside = actions[np.minimum(ahead, len(steps) - 1)], (ahead < len(steps)).astype(np.float32)
    return [first, *({**step, "action": chunks[k], "inside": inside[k]} for k, step in enumerate(steps))]


def _demonstrate(
    environment: Any,
    actor: LanguageActor,
    buffer: ReplayBuffer,
    wanted: int,
    held: int,
    stray: float,
    generator: torch.Generator,
) -> None:
    """Store successful episodes, skipping the first ``held``, which exist already."""
    count, chunk, expert = environment.count, actor.chunk, _Expert(environment, stray, generator)

    def begun() -> list[Rows]:
        seen = environment.observe()[0]
        return each(seen_rows(environment, actor.layout, seen, environment.privileged()))

    environment.restart(torch.arange(count))
    going: list[list[Rows]] = [[row] for row in begun()]
    lasted, found, tried = np.zeros(count, np.intp), 0, 0
    while found < wanted and tried < _TRIES * max(count, wanted):
        result = environment.roll(expert.act, chunk)
        done, success = result.done.numpy(), result.success.numpy()
        lasted = np.where(success, lasted + 1, 0)
        enough = ~done & (lasted > _AFTER_SUCCESS)
        if enough.any():
            environment.restart(torch.from_numpy(np.flatnonzero(enough)))
        inside = (torch.arange(chunk) < result.steps[:, None]).float().numpy()
        made = {"action": expert.shown().numpy(), "inside": inside}
        led = each(seen_rows(environment, actor.layout, result.next_actor, result.next_privileged))
        now = begun()
        for robot, step in enumerate(each(made)):
            going[robot].append({**step, **led[robot]})
            if not (done[robot] or enough[robot]):
                continue
            tried += 1
            if success[robot] and found < wanted:
                found += 1
                if found > held:
                    keep_episode(buffer, going[robot])
            going[robot], lasted[robot] = [now[robot]], 0
    if found < wanted:
        raise UserError(
            f"The scripted expert succeeded in {found} of {tried} episodes, but {wanted} demonstrations are required:"
            " use fewer, lower stray, or make the task easier."
        )
    environment.reset_all()


class _Expert:
    """The scripted expert of N robots, with noise on what it does and not on what it shows."""

    def __init__(self, environment: Any, stray: float, generator: torch.Generator) -> None:
        self._environment, self._stray, self._generator = environment, stray, generator
        self._noisy = environment.noisy_actions()
        self._strays = torch.zeros(environment.count, len(self._noisy))
        self._shown: list[Tensor] = []

    def act(self) -> Tensor:
        """Return actions (N, actions) with noise."""
        fresh = torch.randn(self._strays.shape, generator=self._generator)
        self._strays = _KEPT * self._strays + self._stray * (1.0 - _KEPT**2) ** 0.5 * fresh
        self._shown.append(self._environment.expert_action())
        return self._shown[-1] + self._noisy * self._strays

    def shown(self) -> Tensor:
        """Return the actions (N, steps, actions) without noise since the last call."""
        shown, self._shown = torch.stack(self._shown, dim=1).clamp(-1.0, 1.0), []
        return shown


def labels_size(environment: Any) -> int:
    """Return the number of labels of an environment's observations."""
    return len(_label_columns(environment))


def _label_columns(environment: Any) -> list[int]:
    rows = (row for row in environment.privileged_table() if row.name in LABELS)
    return [column for row in rows for column in range(row.start, row.start + row.size)]


def seen_rows(environment: Any, layout: Layout, observation: Tensor, privileged: Tensor) -> Rows:
    """Return observations (N, columns), and what else the simulator knows, by field of a replay buffer of chunks."""
    state, text, images = layout.split(observation)
    return {
        "state": state.numpy().copy(),
        "instruction": text.to(torch.uint8).numpy(),  # type: ignore[dict-item]
        "pictures": images.to(torch.uint8).numpy(),  # type: ignore[dict-item]
        "labels": privileged[:, _label_columns(environment)].numpy().copy(),
    }
