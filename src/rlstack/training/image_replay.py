"""Demonstrations with pictures, kept on disk as they were seen: bytes, an image of each camera a step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlstack.data.demonstrations import ACTION
from rlstack.data.lerobot import Feature
from rlstack.data.replay import ReplayBuffer, ReplayReader, ReplaySpec, fields
from rlstack.data.replay.storage import SPEC_FILE
from rlstack.demonstrations.metadata import KNOWN, TOLD
from rlstack.tasks.core.interface import GoalStep, ScriptedEnvironment
from rlstack.tasks.manipulator.terms import DECIMETRES
from rlstack.training.dataset_demonstrations import feature_of, fitting, frame_features, remembered, successful
from rlstack.training.demonstrations import successes
from rlstack.training.hindsight_replay import Rows, each, keep_episode, went_on
from rlstack.training.vision_encoder import LABELS, Split, turned

FOLDER = "pictures"
"""Of a run: its demonstrations with pictures."""

_TOGETHER = 256
"""Steps whose pictures are in memory at once."""

_REDRAWN = 0.2
"""Share of steps after which a scene looks otherwise: the box stands still for most of an episode, and as many looks as
episodes are few."""

_KEPT = 0.85
"""Share of what a hand strays that is left a step later."""


class ImageReplay:
    """Demonstrations with pictures: all in memory but these.

    Args:
        buffer: Where they are.
    """

    def __init__(self, buffer: ReplayReader) -> None:
        self.buffer, self.index = buffer, buffer.indices()
        found: dict[str, list[NDArray[np.float32]]] = {}
        for some in chunks(self.index):
            rows = buffer.gather(some)
            for name in ("state", "labels", "action"):
                found.setdefault(name, []).append(rows[name])
        self.state, self.labels, self.action = (torch.from_numpy(np.concatenate(rows)) for rows in found.values())
        begins = np.flatnonzero(np.diff(buffer.bounds(self.index)[0], prepend=-1))
        ends = np.append(begins[1:], len(self.index))
        bounds = np.repeat(np.stack([begins, ends - 1], axis=1), ends - begins, axis=0)
        self.bounds = torch.from_numpy(bounds)
        """(steps, 2): first and last step of each step's episode."""

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.index)

    def pictures(self, steps: NDArray[np.intp]) -> Tensor:
        """Return the pictures (n, cameras, rows, columns, 3) of some steps, uint8."""
        return torch.from_numpy(self.buffer.observe(self.index[steps])["pictures"])


def chunks(index: NDArray[Any]) -> list[NDArray[Any]]:
    """Return indices in parts whose pictures may be in memory together."""
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
    """Return demonstrations of the task's scripted expert in a run's folder; those that are there are used again.

    Args:
        environment: Whose.
        split: Of its observation.
        folder: The run's.
        wanted: Successful episodes.
        stills: Beginnings of further episodes, and what the expert does there: as many places and looks as episodes
            are few.
        stray: Standard deviation of what is added to the expert's actions as they are carried out, and not as they are
            learned: so that what to do beside the straight way is shown too (Laskey et al., "DART: Noise Injection for
            Robust Imitation Learning", arXiv 1703.09327).
        generator: Draws that.

    Raises:
        UserError: The expert seldom succeeds, or what is there was made with other cameras.
    """
    steps = wanted * (environment.task.steps + 1) + 2 * stills
    with ReplayBuffer(folder / FOLDER, _spec(environment, split, max(1000, steps))) as buffer:
        held = len(buffer.episodes())
        if held < wanted + stills:  # all over again where it was stopped, or what is there already would come twice
            _begin_only(environment, split, buffer, stills, held)
            _demonstrate(environment, split, buffer, wanted, max(0, held - stills), stray, generator)
    return ImageReplay(ReplayReader(folder / FOLDER))


def taken(environment: Any, split: Split, folder: Path, wanted: int, dataset: str, labelled: bool) -> ImageReplay:
    """Return demonstrations of a dataset in the LeRobot layout, put into a run's folder; those there are used again.

    Args:
        environment: Whose.
        split: Of its observation.
        folder: The run's.
        wanted: Episodes, successful ones.
        dataset: Its folder.
        labelled: Whether it must say where what is handled was.

    Raises:
        UserError: The dataset is of another robot, rate, camera, task or motion, holds fewer, or does not say that.
    """
    where = folder / FOLDER
    if (where / SPEC_FILE).is_file() and len((there := ReplayReader(where)).episodes()) >= wanted:
        return ImageReplay(there)  # the dataset may be gone by now
    told = {KNOWN + name: Feature("float32", (size,)) for name, size in TOLD.items()} if labelled else {}
    held = fitting(Path(dataset), environment, {**frame_features(environment), **told})
    good = successful(held, wanted)
    steps = sum(held.dataset.episodes[number].length + 1 for number in good)
    with ReplayBuffer(where, _spec(environment, split, max(1000, steps))) as buffer:
        for number in good[len(buffer.episodes()) :]:
            keep_episode(buffer, _as_seen(held[number], environment, split, labelled))
    return ImageReplay(ReplayReader(where))


def _as_seen(frames: dict[str, NDArray[Any]], environment: Any, split: Split, labelled: bool) -> list[Rows]:
    """Return an episode's frames by field: each state as the pipeline makes it in their sequence."""
    pipeline, task = environment.pipeline, environment.task
    memory, seen = pipeline.initial_memory(1), []
    none = np.zeros((), np.float32)
    with torch.no_grad():
        for k, action in enumerate(torch.from_numpy(np.array(frames[ACTION])).clamp(-1.0, 1.0)):
            inputs = {n: torch.from_numpy(np.array(frames[feature_of(n)][k][None], np.float32)) for n in task.inputs}
            prepared = pipeline.prepare(inputs, memory)
            labels = torch.zeros(1, LABELS)
            if labelled:
                place, turn = (torch.from_numpy(np.array(frames[KNOWN + name][k][None])) for name in TOLD)
                away = DECIMETRES * (place - prepared["tool_position"])
                labels = torch.cat([away, turned(prepared["tool_yaw"], turn)], dim=1)
            observation = pipeline.observe(prepared, memory)
            seen.append(
                {
                    "state": observation[0, : split.state].numpy(),
                    "pictures": split.pictures(observation)[0].to(torch.uint8).numpy(),
                    "labels": labels[0].numpy(),
                    "achieved": np.zeros(3, np.float32),
                    **{"action": action.numpy(), "reward": none, "goes_on": none},
                }
            )
            memory = remembered(pipeline, prepared, memory, frames, k)
    # a step's action is that of its own frame; what was seen after the last one is not in a dataset: it again
    return [seen[0], *({**after, "action": here["action"]} for here, after in zip(seen, [*seen[1:], seen[-1]]))]


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
    """Keep that many successful episodes but for the first ones, which are held."""
    grips = "gripper" in environment.pipeline.axes
    strays = torch.zeros(environment.count, environment.pipeline.action_size)

    def step() -> tuple[GoalStep, list[Rows], list[Rows]]:
        nonlocal strays
        action = environment.expert_action()
        fresh = torch.randn(strays.shape, generator=generator)
        strays = _KEPT * strays + stray * (1.0 - _KEPT**2) ** 0.5 * fresh
        if grips:
            strays[:, -1] = 0.0  # a box that is let go of on its way is nothing to learn from
        result = environment.step(action + strays)
        other = torch.rand(environment.count, generator=generator) < _REDRAWN
        environment.scene.cameras.redraw(other.nonzero().flatten().numpy())
        # what was seen at an episode's end is learned from as what a step led to alone: the next one's is there anyway
        after = each(_seen(environment, split, result.actor))
        last = each(_ended(after, split, result))
        made = each({"action": action.numpy().copy(), **_earned(result)})
        led = (last[robot] if done else after[robot] for robot, done in enumerate(result.done.tolist()))
        return result, [{**one, **there} for one, there in zip(made, led)], after

    environment.restart(torch.arange(environment.count))
    begun = each(_seen(environment, split, environment.observe()[0]))
    advice = "ask for fewer, lower stray, or make the task easier"
    for number, episode in enumerate(successes(environment, wanted, begun, step, advice)):
        if number >= held:
            keep_episode(buffer, episode)


def _begin_only(environment: Any, split: Split, buffer: ReplayBuffer, wanted: int, held: int) -> None:
    """Keep so many beginnings but for the first ones, which are held."""
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
    """Return by field what all robots see now, with where what is handled truly is, seen from the tool."""
    known = environment.senses()
    senses = {
        name: torch.from_numpy(known[name].astype(np.float32))
        for name in ("object_position", "object_orientation", "tool_position", "tool_yaw")
    }
    place = DECIMETRES * (senses["object_position"] - senses["tool_position"])
    labels = torch.cat([place, turned(senses["tool_yaw"], senses["object_orientation"])], dim=1)
    return {
        "state": observation[:, : split.state].numpy().copy(),
        "pictures": split.pictures(observation).to(torch.uint8).numpy(),  # type: ignore[dict-item]
        "labels": labels.numpy(),
        "achieved": environment.achieved_goal().numpy().copy(),
    }


def _ended(after: list[Rows], split: Split, result: GoalStep) -> Rows:
    """Return what was seen at the ends of episodes; nothing is done there, so that its labels teach nothing."""
    return {
        "state": result.next_actor[:, : split.state].numpy().copy(),
        "pictures": split.pictures(result.next_actor).to(torch.uint8).numpy(),  # type: ignore[dict-item]
        "labels": np.stack([one["labels"] for one in after]),
        "achieved": result.achieved.numpy().copy(),
    }


def _earned(result: GoalStep) -> Rows:
    return {"reward": result.reward.numpy().copy(), "goes_on": went_on(result).numpy()}
