"""Demonstrations of instructed tasks on disk, one step for each chunk of actions, with the image at its beginning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlstack.data.replay import ReplayBuffer, ReplayReader, ReplaySpec, fields
from rlstack.data.replay.storage import SPEC_FILE
from rlstack.errors import UserError
from rlstack.progress import EVERY_S, StageLines
from rlstack.training.hindsight_replay import Rows, each, keep_episode
from rlstack.training.language.actor import LanguageActor, Layout, Seen
from rlstack.training.language.network_settings import NetworkSettings
from rlstack.training.language.strays import Disturbance, Strays
from rlstack.training.language.supervised import Known, Lesson, SupervisedSettings

FOLDER = "chunks"
"""Folder of demonstrations in a run's folder; see :func:`place_of`."""

STILLS = "stills"
"""Folder of moments of trials, of which there is an image each and no action, in a run's folder, likewise."""

_OF_PROCESS = "-of-process-"
"""What follows the name of a folder that a further process recorded."""

LABELS = ("object_offset", "goal_offset")
"""What only a simulator knows, and a network may learn to see; see ``privileged_table``."""

_AFTER_SUCCESS = 4
"""Chunks after success in a demonstration, which show the policy to leave what is done."""
_TRIES = 20
"""Largest number of attempted episodes for each wanted demonstration."""
_TOGETHER = 256
"""Steps whose images are in memory at once."""


class ChunkReplay:
    """Demonstrations in chunks, whose images stay on disk; all else is in memory.

    Args:
        folders: Of their replay buffers.
        actor: Its tokeniser reads the instructions.
        weights: Share of each buffer among drawn chunks, relative to each other; none: all chunks are drawn alike.
    """

    def __init__(self, folders: Sequence[Path], actor: LanguageActor, weights: Sequence[float] = ()) -> None:
        self.folders, self.weights = list(folders), list(weights)
        self._readers = [ReplayReader(folder) for folder in folders]
        indices = [reader.indices() for reader in self._readers]
        self._index = np.concatenate(indices)
        counts = [len(index) for index in indices]
        self._begins = np.cumsum([0, *counts])
        self._shares = torch.tensor(weights or counts, dtype=torch.float64)
        found: dict[str, list[NDArray[Any]]] = {}
        for reader, index in zip(self._readers, indices):
            for some in np.split(index, range(_TOGETHER, len(index), _TOGETHER)):
                rows = reader.gather(some)
                for name in ("state", "instruction", "labels", "places", "action", "inside"):
                    found.setdefault(name, []).append(rows[name])
        self.state, said, self.labels, self.places, self.action, self.inside = (
            torch.from_numpy(np.concatenate(rows)) for rows in found.values()
        )
        with torch.no_grad():
            self.tokens = torch.cat([actor.tokeniser(some.float()) for some in said.split(1024)])

    def __len__(self) -> int:
        """Return the number of chunks."""
        return len(self._index)

    def images(self, index: NDArray[np.intp]) -> Tensor:
        """Return the images (n, cameras, rows, columns, 3) of some chunks, uint8."""
        whose = np.searchsorted(self._begins, index, side="right") - 1
        found = np.empty((len(index), *self._readers[0].spec.observations["pictures"].shape), np.uint8)
        for number in np.unique(whose):
            mine = whose == number
            found[mine] = self._readers[number].observe(self._index[index[mine]])["pictures"]
        return torch.from_numpy(found)

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Return the numbers (count,) of random chunks."""
        if len(self._readers) == 1:
            return torch.randint(len(self), (count,), generator=generator)
        whose = torch.multinomial(self._shares, count, replacement=True, generator=generator)
        begins, ends = (torch.from_numpy(some)[whose] for some in (self._begins[:-1], self._begins[1:]))
        return (begins + (torch.rand(count, generator=generator, dtype=torch.float64) * (ends - begins))).long()

    def known(self, index: Tensor) -> Known:
        """Return what only the simulator knew of some chunks."""
        return Known(self.labels[index], self.places[index])

    def seen(self, index: Tensor) -> Seen:
        """Return what the network gets at the beginning of some chunks."""
        return Seen(self.state[index], self.tokens[index], self.images(index.numpy()))

    def lesson(self, size: int, generator: torch.Generator) -> Lesson:
        """Return a batch of random chunks."""
        drawn = self.draw(size, generator)
        return Lesson(self.seen(drawn), self.action[drawn], self.inside[drawn], self.known(drawn))

    def told(self, size: int, error: float, generator: torch.Generator) -> Lesson:
        """Return a batch of random chunks with what a simulator tells in place of images; see :meth:`Lesson.told`."""
        drawn = self.draw(size, generator)
        seen = Seen(self.state[drawn], self.tokens[drawn], torch.zeros(0))
        return Lesson(seen, self.action[drawn], self.inside[drawn], self.known(drawn)).told(error, generator)


def lessons(shown: ChunkReplay, size: int, generator: torch.Generator) -> Iterator[Lesson]:
    """Yield random chunks."""
    while True:
        yield shown.lesson(size, generator)


def told_lessons(shown: ChunkReplay, settings: SupervisedSettings, generator: torch.Generator) -> Iterator[Lesson]:
    """Yield random chunks with what a simulator tells in place of images."""
    while True:
        yield shown.told(settings.told_batch, settings.told_error, generator)


def place_of(folder: Path, name: str, rank: int) -> Path:
    """Return where one of several processes records something in a run's folder."""
    return folder / (f"{name}{_OF_PROCESS}{rank}" if rank else name)


def places_of(folder: Path, name: str) -> list[Path]:
    """Return where processes have recorded something in a run's folder."""
    return [folder / name, *sorted(folder.glob(f"{name}{_OF_PROCESS}*"))]


def recorded(place: Path, name: str) -> int:
    """Return how many demonstrations (of :data:`FOLDER`) or moments (of :data:`STILLS`) a folder has, if it is there.

    Raises:
        UserError: A file in it is damaged.
    """
    if not (place / SPEC_FILE).is_file():
        return 0
    reader = ReplayReader(place)
    return len(reader.episodes()) if name == FOLDER else len(reader)


def weights_of(places: Sequence[Path], still: float) -> list[float]:
    """Return the shares of folders among drawn chunks: ``still`` is that of stills; empty if all or none are stills.

    Recordings of the same kind share alike, and so do the processes that recorded one.
    """
    kinds = [place.parent / place.name.split(_OF_PROCESS)[0] for place in places]
    stills = {kind for kind in kinds if kind.name == STILLS}
    if len(stills) in (0, len(set(kinds))):
        return []
    parts = {True: still / len(stills), False: (1.0 - still) / (len(set(kinds)) - len(stills))}
    return [parts[kind in stills] / kinds.count(kind) for kind in kinds]


def chunk_spec(
    layout: Layout,
    chunk: int,
    actions: int,
    labels: int,
    capacity: int,
    things: tuple[int, int] = (1, 2),
    lanes: int = 1,
) -> ReplaySpec:
    """Return the layout of a replay buffer of chunks; ``things`` are the last two axes of :attr:`Known.places`."""
    seen = fields(
        state=((layout.state,), "float32"),
        instruction=((layout.length,), "uint8"),
        pictures=(layout.images, "uint8"),
        labels=((labels,), "float32"),
        places=((layout.images[0], *things), "float32"),
    )
    made = fields(action=((chunk, actions), "float32"), inside=((chunk,), "float32"))
    return ReplaySpec(seen, made, max(1000, capacity), lanes)


def spec_of(environment: Any, actor: LanguageActor, capacity: int, lanes: int = 1, images: bool = True) -> ReplaySpec:
    """Return the layout of a replay buffer of an environment's chunks; without ``images`` a pixel stands for each."""
    things, layout = tuple(environment.image_places().shape[2:]), actor.layout
    if not images:
        layout = replace(layout, images=(layout.images[0], 1, 1, 3))
    return chunk_spec(layout, actor.chunk, actor.actions, labels_size(environment), capacity, things, lanes)


def record_chunks(
    environment: Any, actor: LanguageActor, place: Path, wanted: int, noise: Disturbance, generator: torch.Generator
) -> None:
    """Record demonstrations of the task's scripted expert, as far as they are not there.

    Args:
        environment: Environment of the demonstrations.
        actor: Gives their layout and chunk.
        place: Where they are kept.
        wanted: Number of successful episodes.
        noise: What disturbs the expert.
        generator: Draws the noise.

    Raises:
        UserError: The expert seldom succeeds, or existing demonstrations have another layout.
    """
    each_takes = -(-environment.task.steps // actor.chunk) + 1
    with ReplayBuffer(place, spec_of(environment, actor, wanted * each_takes)) as buffer:
        held = len(buffer.episodes())
        if held < wanted:
            _demonstrate(environment, actor, buffer, wanted, held, noise, generator)


def record_stills(
    environment: Any, actor: LanguageActor, place: Path, wanted: int, wander: int, generator: torch.Generator
) -> None:
    """Record a moment of each of many trials, unless they are there.

    They are chunks none of whose actions teaches: more scenes, sentences and appearances than demonstrations have.

    Args:
        environment: Environment of the trials.
        actor: Gives the layout and the chunk.
        place: Where they are kept.
        wanted: How many.
        wander: Largest number of steps for which each robot has moved at random before that moment; 0: it is the start.
        generator: Draws these motions.
    """
    count = environment.count
    lanes, nothing = np.arange(count), np.zeros((count, actor.chunk, actor.actions), np.float32)

    def begun() -> Rows:
        environment.restart(torch.from_numpy(lanes))
        if wander:
            _wander(environment, wander, generator)
        seen = environment.observe()[0]  # first: places are of the images that were observed last
        return seen_rows(environment, actor.layout, seen, environment.privileged(), environment.image_places())

    with ReplayBuffer(place, spec_of(environment, actor, wanted + 2 * count, count)) as buffer:
        if len(buffer) < wanted:
            say_how_far = StageLines(after_s=EVERY_S)
            buffer.begin_lanes(begun(), lanes)
            while len(buffer) < wanted:
                buffer.add_lanes({"action": nothing, "inside": nothing[..., 0]}, begun(), lanes)
                say_how_far("moments of trials", len(buffer), wanted)
            environment.reset_all()


def _wander(environment: Any, most: int, generator: torch.Generator) -> None:
    """Let each robot wait, and then move along a random line, for ``most`` steps together."""
    size = environment.count, environment.pipeline.action_size
    way = (2.0 * torch.rand(size, generator=generator) - 1.0) * environment.noisy_actions()
    waits = torch.randint(most + 1, (size[0], 1), generator=generator)
    steps = iter(range(most))
    environment.roll(lambda: way * (waits <= next(steps)), most)


def _demonstrate(
    environment: Any,
    actor: LanguageActor,
    buffer: ReplayBuffer,
    wanted: int,
    held: int,
    noise: Disturbance,
    generator: torch.Generator,
) -> None:
    """Store successful episodes, skipping the first ``held``, which exist already."""
    count, chunk, expert = environment.count, actor.chunk, _Expert(environment, noise, generator)

    def begun() -> list[Rows]:
        seen = environment.observe()[0]
        return each(seen_rows(environment, actor.layout, seen, environment.privileged(), environment.image_places()))

    say_how_far = StageLines(after_s=EVERY_S)
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
        shown, taught = expert.shown()
        inside = (torch.arange(chunk) < result.steps[:, None]).float() * taught
        made = {"action": shown.numpy(), "inside": inside.numpy()}
        after = result.next_actor, result.next_privileged, environment.image_places()
        led = each(seen_rows(environment, actor.layout, *after))
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
        say_how_far("demonstrations", found, wanted)
    if found < wanted:
        raise UserError(
            f"The scripted expert succeeded in {found} of {tried} episodes, but {wanted} demonstrations are required:"
            " use fewer, lower stray and kicks, or make the task easier."
        )
    environment.reset_all()


class _Expert:
    """The scripted expert of N robots, with noise on what it does and not on what it shows; see :class:`.Strays`."""

    def __init__(self, environment: Any, noise: Disturbance, generator: torch.Generator) -> None:
        self._environment = environment
        self._strays = Strays(environment.count, environment.pipeline.action_size, noise, generator)
        self._shown: list[Tensor] = []

    def act(self) -> Tensor:
        """Return actions (N, actions), with noise in some chunks."""
        if not self._shown:
            self._strays.begin()
        self._shown.append(self._environment.expert_action())
        return self._strays.disturbed(self._shown[-1], self._environment.noisy_actions())

    def shown(self) -> tuple[Tensor, Tensor]:
        """Return the actions (N, steps, actions) without noise since the last call, and which teach (N, steps)."""
        shown, self._shown = torch.stack(self._shown, dim=1).clamp(-1.0, 1.0), []
        return shown, self._strays.taught(shown.shape[1])


def check_told(environment: Any, settings: SupervisedSettings) -> None:
    """Check that an environment's simulator can tell what a policy would see, if it is to.

    Raises:
        UserError: The network sees other things, or something else of them.
    """
    check_looks(environment, settings.network)
    network, (things, columns) = settings.network, environment.image_places().shape[2:]
    if settings.told and not (network.looks and settings.labels and things == network.points):
        raise UserError(
            f"algorithm_settings: told: {settings.told} is not allowed: it needs labels, and network: {{points:"
            f" {things}, looks: {columns - 2}}}, of a task that tells what things are like, as those with blocks do."
        )


def check_looks(environment: Any, network: NetworkSettings) -> None:
    """Check that an environment's simulator knows all that a network with ``looks`` sees, or acts by.

    Raises:
        UserError: The network sees other things, or something else of them.
    """
    things, columns = environment.image_places().shape[2:]
    if network.offsets not in (0, labels_size(environment)):
        raise UserError(
            f"algorithm_settings: network: offsets: {network.offsets} is not allowed: this task's simulator tells"
            f" {labels_size(environment)} such numbers: set offsets to that, or to 0."
        )
    if things > network.points:
        raise UserError(
            f"algorithm_settings: network: points: {network.points} is not allowed: this task tells where {things}"
            f" things are: set points to {things} or more."
        )
    if network.looks and columns != 2 + network.looks:
        raise UserError(
            f"algorithm_settings: network: looks: {network.looks} is not allowed with points: {network.points}: this"
            f" task tells where {things} things are, and {columns - 2} numbers of what each is like: set looks to"
            f" {columns - 2} and points to {things}."
        )


def labels_size(environment: Any) -> int:
    """Return the number of labels of an environment's observations."""
    return len(_label_columns(environment))


def labels_of(environment: Any) -> Tensor:
    """Return the labels (N, labels) of an environment's observations."""
    columns: Tensor = environment.privileged()[:, _label_columns(environment)]
    return columns


def _label_columns(environment: Any) -> list[int]:
    rows = (row for row in environment.privileged_table() if row.name in LABELS)
    return [column for row in rows for column in range(row.start, row.start + row.size)]


def seen_rows(environment: Any, layout: Layout, observation: Tensor, privileged: Tensor, places: Tensor) -> Rows:
    """Return observations (N, columns), and what else the simulator knows, by field of a replay buffer of chunks."""
    state, text, images = layout.split(observation)
    return {
        "state": state.numpy().copy(),
        "instruction": text.to(torch.uint8).numpy(),  # type: ignore[dict-item]
        "pictures": images.to(torch.uint8).numpy(),  # type: ignore[dict-item]
        "labels": privileged[:, _label_columns(environment)].numpy().copy(),
        "places": places.numpy(),
    }
