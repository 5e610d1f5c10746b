"""Demonstrations of Meta-World's scripted experts on disk: of each task a file of numbers and one of pictures."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rlstack.errors import UserError
from rlstack.files import write_atomically
from rlstack.foreign.workers import Workers
from rlstack.interfaces.instruction import encoded
from rlstack.training.language.actor import LanguageActor, Seen
from rlstack.training.language.strays import Disturbance, Strays
from rlstack.training.language.supervised import Known, Lesson
from rlstack.training.metaworld.worker import FIELDS

FOLDER = "demonstrations"
"""Their folder in that of a benchmark."""

LABELS = 9
"""Positions of two objects and the goal, which only the simulator knows."""

_LABEL_SCALE_M = 0.1
"""Length that is 1 among the labels that a network learns."""

_FIGURES = ("found", "tried", "steps", "cpu_s")
_NUMBERS = tuple(name for name in FIELDS if name != "picture")

AXES = 4
"""Axes of an action: the hand's motion, and the gripper."""

OnProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class Recording:
    """How demonstrations are recorded.

    Args:
        episodes: Successful episodes of each task.
        chunk: Actions between two pictures.
        stray: Deviation of the noise on what experts do in half of the chunks; see :class:`.Strays`; 0: none.
        steps: Longest episode.
        seed: Of layouts and noise.
    """

    episodes: int
    chunk: int
    stray: float
    steps: int
    seed: int


def record(
    workers: Workers, tasks: Mapping[str, str], folder: Path, recording: Recording, on_progress: OnProgress
) -> None:
    """Record the tasks that have no file yet; one at a time in each worker.

    Args:
        workers: Processes with Meta-World.
        tasks: Sentence of each task.
        folder: The benchmark's folder.
        recording: How.
        on_progress: Called with the number of tasks recorded and the number of all.

    Raises:
        UserError: An expert seldom succeeds, or a file cannot be written.
    """
    left = [task for task in tasks if not _file(folder, task).is_file()]
    done = len(tasks) - len(left)
    busy: dict[int, str] = {}
    on_progress(done, len(tasks))
    while left or busy:
        for worker in set(range(len(workers))) - set(busy):
            if left:
                task = busy[worker] = left.pop(0)
                workers.send(worker, "record", task, recording.episodes, *_strays(task, recording), recording.seed)
        for worker in list(busy):
            if workers.ready(worker, 0.1):
                task, rows = busy.pop(worker), workers.receive(worker)
                if rows["found"] < recording.episodes:
                    raise UserError(
                        f"{task}: the expert succeeded in {rows['found']} of {rows['tried']} episodes:"
                        f" {recording.episodes} demonstrations are required. Lower --stray."
                    )
                _write(folder, task, rows)
                done += 1
                on_progress(done, len(tasks))


def _strays(task: str, recording: Recording) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the noise of a task's episodes, and which actions teach; see :meth:`.worker.Worker.record`."""
    seed = np.random.SeedSequence([recording.seed, *task.encode()]).generate_state(1, np.uint64)[0]
    generator = torch.Generator().manual_seed(int(seed >> 1))
    tries, chunks = 4 * recording.episodes + 20, recording.steps // recording.chunk
    strays = Strays(tries, AXES, Disturbance(recording.stray), generator)
    free = torch.tensor([[1.0, 1.0, 1.0, 0.0]])  # a dropped object teaches nothing
    still, noise, taught = torch.zeros(tries, AXES), [], []
    for _ in range(chunks):
        strays.begin()
        noise.append(torch.stack([strays.disturbed(still, free) for _ in range(recording.chunk)], dim=1))
        taught.append(strays.taught(recording.chunk))
    return torch.stack(noise, dim=1).numpy(), torch.stack(taught, dim=1).numpy()


def described(folder: Path, tasks: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """Return ``found`` of ``tried`` episodes, their ``steps``, CPU time ``cpu_s`` and ``chunks`` of each task."""
    found = {}
    for task in tasks:
        with np.load(_file(folder, task)) as held:
            found[task] = {**{name: held[name].item() for name in _FIGURES}, "chunks": len(held["episode"])}
    return found


def tokens_of(tasks: Mapping[str, str], actor: LanguageActor) -> torch.Tensor:
    """Return the tokens (tasks, words) of the tasks' sentences."""
    said = np.stack([encoded(sentence) for sentence in tasks.values()])
    with torch.no_grad():
        found: torch.Tensor = actor.tokeniser(torch.from_numpy(said).float())
    return found


class Demonstrations:
    """Recorded demonstrations, of which pictures stay on disk.

    Args:
        folder: The benchmark's folder.
        tasks: Sentence of each task.
        actor: Its tokeniser reads the sentences.
    """

    def __init__(self, folder: Path, tasks: Mapping[str, str], actor: LanguageActor) -> None:
        parts: dict[str, list[NDArray[Any]]] = {name: [] for name in _NUMBERS}
        self._pictures = []
        for task in tasks:
            with np.load(_file(folder, task)) as held:
                for name, rows in parts.items():
                    rows.append(held[name])
            self._pictures.append(np.load(_pictures(folder, task), mmap_mode="r"))
        lengths = [len(rows) for rows in parts["state"]]
        self._task = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
        self._first = torch.tensor(np.cumsum([0, *lengths[:-1]]))
        self.state, labels, self.places, self.action, self.inside, self.episode = (
            torch.from_numpy(np.concatenate(rows)) for rows in parts.values()
        )
        self._middle = labels.mean(dim=0)
        self.labels = (labels - self._middle) / _LABEL_SCALE_M
        with torch.no_grad():
            self._tokens = actor.tokeniser(
                torch.from_numpy(np.stack([encoded(said) for said in tasks.values()])).float()
            )

    def __len__(self) -> int:
        """Return the number of chunks."""
        return len(self.state)

    def pictures(self, index: torch.Tensor) -> torch.Tensor:
        """Return the pictures (n, 1, rows, columns, 3) of some chunks, uint8."""
        task = self._task[index]
        rows = (index - self._first[task]).tolist()
        return torch.from_numpy(np.stack([self._pictures[k][row] for k, row in zip(task.tolist(), rows)])[:, None])

    def lesson(self, index: torch.Tensor) -> Lesson:
        """Return some chunks to learn."""
        seen = Seen(self.state[index], self._tokens[self._task[index]], self.pictures(index))
        known = Known(self.labels[index], self.places[index][:, None])
        return Lesson(seen, self.action[index], self.inside[index], known)


def check_folder(folder: Path, settings: Mapping[str, Any]) -> None:
    """Keep the settings in a benchmark's folder, or compare them with those that are there.

    Raises:
        UserError: The folder was made with others.
    """
    file = folder / "settings.json"
    if file.is_file():
        held = json.loads(file.read_text())
        different = sorted(name for name in {**held, **settings} if held.get(name) != settings.get(name))
        if different:
            name = different[0]
            raise UserError(
                f"--out {folder} is not allowed: it was begun with {name} {held.get(name)}, not {settings.get(name)}."
                " Name another folder, or go on with the same options."
            )
    write_atomically(file, json.dumps(dict(settings), indent=2) + "\n")


def _write(folder: Path, task: str, rows: Mapping[str, Any]) -> None:
    """Write pictures first, so that a file of numbers means that both are whole."""
    pictures, numbers = io.BytesIO(), io.BytesIO()
    np.save(pictures, rows["picture"])
    write_atomically(_pictures(folder, task), pictures.getvalue())
    np.savez(numbers, **{name: rows[name] for name in (*_NUMBERS, *_FIGURES)})
    write_atomically(_file(folder, task), numbers.getvalue())


def _file(folder: Path, task: str) -> Path:
    return folder / FOLDER / f"{task}.npz"


def _pictures(folder: Path, task: str) -> Path:
    return folder / FOLDER / f"{task}.npy"
