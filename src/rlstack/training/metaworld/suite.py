"""Tasks of Meta-World with their sentences, difficulty groups and published results.

Sentences are the descriptions of the tasks in the benchmark's paper, which are also the instructions of published
vision-language-action policies. Groups are those of Seo et al., "Masked World Models for Visual Control" (arXiv
2206.14244), by which published means are taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from rlstack.interfaces.instruction import split_words

SuiteName = Literal["metaworld-mt10", "metaworld-mt50"]

METAWORLD, MUJOCO = "3.1.1", "3.3.0"
"""Versions of the packages; Meta-World pins its MuJoCo, and experts behave differently in others."""

SENTENCES: dict[str, dict[str, str]] = {
    "easy": {
        "button-press": "Press a button",
        "button-press-topdown": "Press a button from the top",
        "button-press-topdown-wall": "Bypass a wall and press a button from the top",
        "button-press-wall": "Bypass a wall and press a button",
        "coffee-button": "Push a button on the coffee machine",
        "dial-turn": "Rotate a dial 180 degrees",
        "door-close": "Close a door with a revolving joint",
        "door-lock": "Lock the door by rotating the lock clockwise",
        "door-open": "Open a door with a revolving joint",
        "door-unlock": "Unlock the door by rotating the lock counter-clockwise",
        "drawer-close": "Push and close a drawer",
        "drawer-open": "Open a drawer",
        "faucet-close": "Rotate the faucet clockwise",
        "faucet-open": "Rotate the faucet counter-clockwise",
        "handle-press": "Press a handle down",
        "handle-press-side": "Press a handle down sideways",
        "handle-pull": "Pull a handle up",
        "handle-pull-side": "Pull a handle up sideways",
        "lever-pull": "Pull a lever down 90 degrees",
        "peg-unplug-side": "Unplug a peg sideways",
        "plate-slide": "Slide a plate into a cabinet",
        "plate-slide-back": "Get a plate from the cabinet",
        "plate-slide-back-side": "Get a plate from the cabinet sideways",
        "plate-slide-side": "Slide a plate into a cabinet sideways",
        "reach": "Reach a goal position",
        "reach-wall": "Bypass a wall and reach a goal",
        "window-close": "Push and close a window",
        "window-open": "Push and open a window",
    },
    "medium": {
        "basketball": "Dunk the basketball into the basket",
        "bin-picking": "Grasp the puck from one bin and place it into another bin",
        "box-close": "Grasp the cover and close the box with it",
        "coffee-pull": "Pull a mug from a coffee machine",
        "coffee-push": "Push a mug under a coffee machine",
        "hammer": "Hammer a screw on the wall",
        "peg-insert-side": "Insert a peg sideways",
        "push-wall": "Bypass a wall and push a puck to a goal",
        "soccer": "Kick a soccer into the goal",
        "sweep": "Sweep a puck off the table",
        "sweep-into": "Sweep a puck into a hole",
    },
    "hard": {
        "assembly": "Pick up a nut and place it onto a peg",
        "hand-insert": "Insert the gripper into a hole",
        "pick-out-of-hole": "Pick up a puck from a hole",
        "pick-place": "Pick and place a puck to a goal",
        "push": "Push the puck to a goal",
        "push-back": "Push the puck to a goal",
    },
    "very hard": {
        "disassemble": "Pick a nut out of a peg",
        "pick-place-wall": "Pick a puck, bypass a wall and place the puck",
        "shelf-place": "Pick and place a puck onto a shelf",
        "stick-pull": "Grasp a stick and pull a box with the stick",
        "stick-push": "Grasp a stick and push a box using the stick",
    },
}
"""Sentence of each task, by difficulty group."""

_MT10 = (
    *("reach", "push", "pick-place", "door-open", "drawer-open", "drawer-close", "button-press-topdown"),
    *("peg-insert-side", "window-open", "window-close"),
)


@dataclass(frozen=True)
class Suite:
    """Tasks that one policy learns together.

    Args:
        sentences: Instruction of each task.
        updates: Supervised updates by default.
    """

    sentences: Mapping[str, str]
    updates: int

    @property
    def words(self) -> tuple[str, ...]:
        """The words of all instructions."""
        return tuple(sorted({word for sentence in self.sentences.values() for word in split_words(sentence)}))


_ALL = {task: sentence for group in SENTENCES.values() for task, sentence in group.items()}

SUITES: dict[SuiteName, Suite] = {
    "metaworld-mt10": Suite({task: _ALL[task] for task in _MT10}, 3000),
    "metaworld-mt50": Suite(_ALL, 13000),
}


@dataclass(frozen=True)
class Published:
    """Success of one policy on MT50, %.

    Args:
        policy: Its name and size.
        mean: Mean of the difficulty groups.
        source: Where it is published.
    """

    policy: str
    mean: float
    source: str


_SMOLVLA = "SmolVLA (arXiv 2506.01844)"
PUBLISHED = (
    Published("Diffusion Policy", 10.5, _SMOLVLA),
    Published("TinyVLA", 31.6, _SMOLVLA),
    Published("pi0, 3.5 B", 47.9, _SMOLVLA),
    Published("SmolVLA, 0.45 B", 57.3, _SMOLVLA),
    Published("SmolVLA, 2.25 B", 68.2, _SMOLVLA),
    Published("pi0, supervised", 50.8, "RLinf"),
    Published("pi0, supervised and PPO", 78.1, "RLinf; episodes of at most 100 steps"),
    Published("pi0.5, supervised", 43.8, "RLinf"),
    Published("pi0.5, supervised and PPO", 70.7, "RLinf; episodes of at most 100 steps"),
)
"""Results on MT50 after 50 demonstrations of each task."""


def group_means(success: Mapping[str, float]) -> dict[str, float]:
    """Return the mean success of each difficulty group that has a task in ``success``, and their ``mean``.

    Args:
        success: Share of successful trials of each task.
    """
    means = {
        group: fmean(success[task] for task in tasks if task in success)
        for group, tasks in SENTENCES.items()
        if any(task in success for task in tasks)
    }
    return {**means, "mean": fmean(means.values())}
