"""How often the policy of a run at a table finds the block that a sentence names, before anything moves.

    python benchmarks/block_words.py RUN [--scenes 300]

For a run of table_push or table_suite by vla_sft or vla_dagger, on tables that training does not draw: how often the
named block is the one nearest to where the network places it in the first image, and within three pixels; by training's
words and by held-out ones, whose combinations of colour and shape are in no sentence of training. No arm moves, so that
this takes seconds where trials take minutes.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from landmark_words import policy_of

from rlstack.interfaces.instruction import decoded
from rlstack.robots import load_robot
from rlstack.tasks.manipulator.phrases import BLOCKS
from rlstack.training.recipe import load_recipe

AT_ONCE = 50
SEED = 7_000_000
"""Tables of neither training nor verification."""
NEAR = 3.0
"""Pixels."""
COLUMNS: dict[str, dict[str, Any]] = {"training's words": {"words": "train"}, "held-out words": {"words": "held_out"}}
NAMES = set(BLOCKS.words) - {"the"}


def found(run: Path, scenes: int, column: int, changes: dict[str, Any]) -> Iterator[tuple[str, bool, float]]:
    """Yield the words that name each scene's block, whether it is found, and how far from it the network places it."""
    recipe = load_recipe(run / "recipe.yaml")
    robot = load_robot(recipe.robot)
    task = replace(recipe.task_settings.fitted(robot), **changes)
    environment = task.environment(robot, task.pipeline(robot), AT_ONCE, "cpu", SEED + column)
    policy, _ = policy_of(run, recipe, environment)
    assert policy.grounded is not None
    pixels = 0.5 * np.array(policy.layout.images[2:0:-1])
    for _ in range(-(-scenes // AT_ONCE)):
        environment.restart(torch.arange(AT_ONCE))
        observation = environment.observe()[0]
        with torch.inference_mode():
            points = policy.grounded.place(*policy.seen(observation)).points[0][:, :2].numpy()
        blocks = environment.table.cameras.places()[:, 0, : task.blocks]
        away = np.linalg.norm((blocks - points[:, None]) * pixels, axis=-1)
        sentences = policy.layout.split(observation)[1].numpy().astype(np.uint8)
        for sentence, apart in zip(sentences, away):
            named = " ".join(word for word in re.findall("[a-z]+", decoded(sentence)) if word in NAMES)
            yield named, bool(apart[0] == apart.min() and apart[0] < NEAR), float(apart[0])
    environment.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--scenes", type=int, default=300, help="tables of each column")
    given = parser.parse_args()
    torch.set_num_threads(1)
    for number, (column, changes) in enumerate(COLUMNS.items()):
        every = list(found(given.run, given.scenes, number, changes))
        missed = Counter(named for named, hit, _ in every if not hit)
        asked = Counter(named for named, _, _ in every)
        worst = ", ".join(f"{named} {count} of {asked[named]}" for named, count in missed.most_common(3))
        share = np.mean([hit for _, hit, _ in every])
        print(
            f"{column:18} found {100 * share:.1f}% of {len(every)}, {np.median([far for *_, far in every]):.2f} pixels"
            f" off at the median; missed most: {worst or 'none'}"
        )


if __name__ == "__main__":
    main()
