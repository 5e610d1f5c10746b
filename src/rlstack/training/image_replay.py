"""Demonstrations with camera images on disk, as uint8, one image per camera and step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlstack.data.lerobot import Feature
from rlstack.data.replay import ReplayBuffer, ReplayReader, ReplaySpec, fields
from rlstack.data.replay.storage import SPEC_FILE
from rlstack.demonstrations.metadata import GROUND_TRUTH, SIMULATION_PREFIX
from rlstack.tasks.core.learning_environment import GoalStep, ScriptedEnvironment
from rlstack.tasks.core.pipeline import Tensors
from rlstack.tasks.manipulator.observations import DECIMETRES
from rlstack.training.dataset_demonstrations import fitting, frame_features, steps_of_frames, successful
from rlstack.training.demonstrations import successes
from rlstack.training.hindsight_replay import Rows, each, episode_bounds, keep_episode, went_on
from rlstack.training.vision_encoder import LABELS, Split, turned

FOLDER = "pictures"
"""Folder of demonstrations with images in a run's folder."""

_TOGETHER = 256
"""Steps whose images are in memory at once."""

_REDRAWN = 0.2
"""Share of steps after which a scene's appearance changes, since one per episode is too few."""

_KEPT = 0.85
"""Share of the tool's noise that remains one step later."""


class ImageReplay:
    """Demonstrations with images, which stay on disk; all else is in memory.

    Args:
        buffer: The replay buffer.
    """

    def __init__(self, buffer: ReplayReader) -> None:
        self.buffer, self.index = buffer, buffer.indices()
        found: dict[str, list[NDArray[np.float32]]] = {}
        for some in chunks(self.index):
            rows = buffer.gather(some)
            for name in ("state", "labels", "action"):
                found.setdefault(name, []).append(rows[name])
        self.state, self.labels, self.action = (torch.from_numpy(np.concatenate(rows)) for rows in found.values())
        self.bounds = torch.from_numpy(episode_bounds(buffer, self.index))
        """(steps, 2): first and last step of each step's episode."""

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.index)

    def images(self, steps: NDArray[np.intp]) -> Tensor:
        """Return the images (n, cameras, rows, columns, 3) of some steps, uint8."""
        return torch.from_numpy(self.buffer.observe(self.index[steps])["pictures"])


def chunks(index: NDArray[Any]) -> list[NDArray[Any]]:
    """Split indices into parts whose images fit in memory together."""
    return np.split(index, range(_TOGETHER, len(index), _TOGETHER))


def open_image_replay(
    environment: ScriptedEnvironment,
    split: Split,
    folder: Path,
    wanted: int,
    stills: int,
    stray: float,
    generator: torch.Generator,
) -> ImageReplay:
    """Return demonstrations of the task's scripted expert in a run's folder; existing ones are reused.

    Args:
        environment: Environment of the demonstrations.
        split: Split of its observation.
        folder: The run's folder.
        wanted: Number of successful episodes.
        stills: Number of starts of further episodes, with the expert's action there, for more positions and appearances
            than full episodes have.
        stray: Standard deviation of the noise on the expert's executed actions, but not on the recorded ones, so that
            demonstrations show recovery (Laskey et al., "DART: Noise Injection for Robust Imitation Learning", arXiv
            1703.09327).
        generator: Draws the noise.

    Raises:
        UserError: The expert seldom succeeds, or existing demonstrations have other cameras.
    """
    steps = wanted * (environment.task.steps + 1) + 2 * stills
    with ReplayBuffer(folder / FOLDER, _spec(environment, split, max(1000, steps))) as buffer:
        held = len(buffer.episodes())
        if held < wanted + stills:  # start over after an interruption, or the existing episodes would come twice
            _begin_only(environment, split, buffer, stills, held)
            _demonstrate(environment, split, buffer, wanted, max(0, held - stills), stray, generator)
    return ImageReplay(ReplayReader(folder / FOLDER))


def copy_images(environment: Any, split: Split, folder: Path, wanted: int, dataset: str, labelled: bool) -> ImageReplay:
    """Copy demonstrations of a LeRobot dataset into a run's folder and return them; existing ones are reused.

    Args as in :func:`open_image_replay`; ``labelled``: whether the dataset must have the pose of the object.

    Raises:
        UserError: The dataset is of another robot, rate, camera, task or motion, has fewer, or lacks that pose.
    """
    where = folder / FOLDER
    if (where / SPEC_FILE).is_file() and len((there := ReplayReader(where)).episodes()) >= wanted:
        return ImageReplay(there)  # the dataset may be gone by now
    told = (
        {SIMULATION_PREFIX + name: Feature("float32", (size,)) for name, size in GROUND_TRUTH.items()}
        if labelled
        else {}
    )
    held, names = fitting(Path(dataset), environment, {**frame_features(environment), **told})
    good = successful(held, wanted)
    steps = sum(held.episodes[number].length + 1 for number in good)
    with ReplayBuffer(where, _spec(environment, split, max(1000, steps))) as buffer:
        for number in good[len(buffer.episodes()) :]:
            keep_episode(buffer, _as_seen(held.read(number, names), environment, split, labelled))
    return ImageReplay(ReplayReader(where))


def _as_seen(frames: dict[str, NDArray[Any]], environment: Any, split: Split, labelled: bool) -> list[Rows]:
    """Return an episode's frames as steps, by field."""
    none = np.zeros((), np.float32)

    def row(number: int, prepared: Tensors, observation: Tensor) -> Rows:
        labels = torch.zeros(1, LABELS)
        if labelled:
            place, turn = (
                torch.from_numpy(np.array(frames[SIMULATION_PREFIX + name][number][None])) for name in GROUND_TRUTH
            )
            labels = _pose_labels(place, turn, prepared["tool_position"], prepared["tool_yaw"])
        (seen,) = each(_row(split, observation, labels.numpy(), torch.zeros(1, 3)))
        return {**seen, "reward": none, "goes_on": none}

    return steps_of_frames(frames, environment, row)


def _spec(environment: ScriptedEnvironment, split: Split, capacity: int) -> ReplaySpec:
    goal = tuple(environment.achieved_goal().shape[1:])
    seen = fields(
        state=((split.state,), "float32"),
        pictures=(split.shape, "uint8"),
        labels=((LABELS,), "float32"),
        achieved=(goal, "float32"),
    )
    actions = environment.pipeline.action_size
    made = fields(action=((actions,), "float32"), reward=((), "float32"), goes_on=((), "float32"))
    return ReplaySpec(seen, made, capacity, 1)


def _demonstrate(
    environment: Any,
    split: Split,
    buffer: ReplayBuffer,
    wanted: int,
    held: int,
    stray: float,
    generator: torch.Generator,
) -> None:
    """Store successful episodes, skipping the first ``held``, which exist already."""
    grips = "gripper" in environment.pipeline.axes
    strays = torch.zeros(environment.count, environment.pipeline.action_size)

    def step() -> tuple[GoalStep, list[Rows], list[Rows]]:
        nonlocal strays
        action = environment.expert_action()
        fresh = torch.randn(strays.shape, generator=generator)
        strays = _KEPT * strays + stray * (1.0 - _KEPT**2) ** 0.5 * fresh
        if grips:
            strays[:, -1] = 0.0  # no noise on the gripper: a dropped box teaches nothing
        result = environment.step(action + strays)
        other = torch.rand(environment.count, generator=generator) < _REDRAWN
        environment.scene.cameras.redraw_appearance(other.nonzero().flatten().numpy())
        here = _seen(environment, split, result.actor)
        # the observation at an episode's end is only a next observation
        after, last = each(here), each(_row(split, result.next_actor, here["labels"], result.achieved))
        rewards = {"reward": result.reward.numpy().copy(), "goes_on": went_on(result).numpy()}
        made = each({"action": action.numpy().copy(), **rewards})
        led = (last[robot] if done else after[robot] for robot, done in enumerate(result.done.tolist()))
        return result, [{**one, **there} for one, there in zip(made, led)], after

    environment.restart(torch.arange(environment.count))
    begun = each(_seen(environment, split, environment.observe()[0]))
    advice = "use fewer, lower stray, or make the task easier"
    for number, episode in enumerate(successes(environment, wanted, begun, step, advice)):
        if number >= held:
            keep_episode(buffer, episode)


def _begin_only(environment: Any, split: Split, buffer: ReplayBuffer, wanted: int, held: int) -> None:
    """Store starts of episodes, skipping the first ``held``, which exist already."""
    none = np.zeros(environment.count, np.float32)
    for first in range(0, wanted, environment.count):
        environment.restart(torch.arange(environment.count))
        seen = environment.observe()[0]
        made = {"action": environment.expert_action().numpy().copy(), "reward": none, "goes_on": none}
        here = _seen(environment, split, seen)
        made_here = list(zip(each(here), each({**made, **here})))
        for before, step in made_here[max(0, held - first) : wanted - first]:
            keep_episode(buffer, [before, step])


def _seen(environment: Any, split: Split, observation: Tensor) -> Rows:
    """Return the present observations by field, with the true pose of the object relative to the tool."""
    known = environment.senses()
    senses = {
        name: torch.from_numpy(known[name].astype(np.float32))
        for name in ("object_position", "object_orientation", "tool_position", "tool_yaw")
    }
    return _row(split, observation, _pose_labels(*senses.values()).numpy(), environment.achieved_goal())


def _pose_labels(position: Tensor, orientation: Tensor, tool: Tensor, yaw: Tensor) -> Tensor:
    """Return the pose (n, 5) of the object relative to the tool, whose yaw is given by its cosine and sine."""
    return torch.cat([DECIMETRES * (position - tool), turned(yaw, orientation)], dim=1)


def _row(split: Split, observation: Tensor, labels: NDArray[np.float32], achieved: Tensor) -> Rows:
    return {
        "state": observation[:, : split.state].numpy().copy(),
        "pictures": split.images(observation).to(torch.uint8).numpy(),  # type: ignore[dict-item]
        "labels": labels,
        "achieved": achieved.numpy().copy(),
    }
