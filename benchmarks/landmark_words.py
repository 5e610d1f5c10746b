"""What kinds of sentences the policy of a run among landmarks understands, from what it sees at the start.

    python benchmarks/landmark_words.py RUN [--scenes 400]

For a run of base_landmark or quadrotor_landmark by vla_sft, in rooms that training does not draw: how often the
landmark next to where the network places the named one is that one, by how the sentence tells it apart; and, where the
sentence names another landmark, how often it is placed at the first one all the same, to which going counts as failed.
No robot moves, so that this takes seconds where trials take minutes.
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
from torch import nn

from rlstack.interfaces.instruction import decoded
from rlstack.robots import load_robot
from rlstack.tasks.core.phrases import ANY, COLOURS, Thing
from rlstack.tasks.landmarks.trials import LANDMARKS, SIDES, LandmarkTrials
from rlstack.training.language.actor import LanguageActor, layout_of
from rlstack.training.recipe import load_recipe
from rlstack.training.run_folder import load_checkpoint

AT_ONCE = 50
SEED = 6_000_000
"""Rooms of neither training nor verification."""
KINDS = (
    "all",
    "colour and shape",
    "the same, beside one of its colour",
    "colour alone",
    "shape alone",
    "side and shape",
)
COLUMNS = {
    "training's sentences": {},
    "held-out ones": {"words": "held_out"},
    "another named": {"instruction": "swapped"},
}


def kind_of(sentence: str, things: list[Thing]) -> str:
    """Return how a sentence tells a landmark apart."""
    words = re.findall("[a-z]+", sentence)
    colour = next((word for word in words if word in COLOURS), "")
    if any(word in SIDES for word in words):
        return "side and shape"
    if not colour:
        return "shape alone"
    if ANY in words:
        return "colour alone"
    same = sum(thing.colour == colour for thing in things)
    return "the same, beside one of its colour" if same > 1 else "colour and shape"


def things_of(trials: LandmarkTrials, row: int, task: Any) -> list[Thing]:
    """Return the landmarks of a trial."""
    every = [Thing(colour, shape) for colour in COLOURS for shape in LANDMARKS.shapes]

    def unlike(thing: Thing, place: int) -> float:
        looks = np.abs(np.array(COLOURS[thing.colour]) - trials.colour[row, place]).sum()
        return float(looks + np.abs(np.array(task.room.half(thing)) - trials.half[row, place]).sum())

    return [min(every, key=lambda thing: unlike(thing, place)) for place in range(task.landmarks)]


def policy_of(run: Path, recipe: Any, environment: Any) -> tuple[LanguageActor, dict[str, Any]]:
    """Return the policy of a run by vla_sft or vla_dagger, and all that its learner kept."""
    state = load_checkpoint(run)["algorithm"]["learner"]
    layout, actions = layout_of(environment.pipeline, recipe.algorithm), environment.pipeline.action_size
    policy = LanguageActor(layout, environment.task.text.words, actions, recipe.algorithm_settings).eval()
    policy.load_state_dict(state["actor"])
    return policy, state


def placed(run: Path, scenes: int, column: int, changes: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield how each scene's sentence tells a landmark apart, and whether it is placed at the first one."""
    recipe = load_recipe(run / "recipe.yaml")
    task = replace(recipe.task_settings, **changes)
    robot = task.reference(load_robot(recipe.robot))
    environment = task.environment(robot, task.pipeline(robot), AT_ONCE, "cpu", SEED + column)
    policy, state = policy_of(run, recipe, environment)
    guess = nn.Linear(*reversed(state["guess"]["weight"].shape))
    guess.load_state_dict(state["guess"])
    assert policy.grounded is not None
    for _ in range(-(-scenes // AT_ONCE)):
        environment.restart(torch.arange(AT_ONCE))
        with torch.inference_mode():
            feature = policy.grounded.place(*policy.seen(environment.observe()[0])).feature
            where = guess(torch.relu(feature))[:, None, :2]
        first = environment.privileged_table()[0].size
        known = environment.privileged()
        others = known[:, first + 1 : first + 1 + 2 * (task.landmarks - 1)].reshape(AT_ONCE, -1, 2)
        every = torch.cat([known[:, None, :2], others], dim=1)
        nearest = (every - where).norm(dim=-1).argmin(dim=1)
        trials = environment.scene.trials
        for row, which in enumerate(nearest.tolist()):
            said = decoded(trials.instruction[row])
            yield kind_of(said, things_of(trials, row, task)), which == 0
    environment.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--scenes", type=int, default=400, help="rooms of each column")
    given = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'placed at the landmark meant at first':36}" + "".join(f"{name:>24}" for name in COLUMNS))
    counts, hits = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for number, (column, changes) in enumerate(COLUMNS.items()):
        for kind, hit in placed(given.run, given.scenes, number, changes):
            for row in ("all", kind):
                counts[row, column] += 1
                hits[row, column] += hit
    for kind in KINDS:
        cells = [(hits[kind, c], counts[kind, c]) for c in COLUMNS]
        print(f"{kind:36}" + "".join(f"{f'{100 * a / b:.0f}% of {b}' if b else '-':>24}" for a, b in cells))


if __name__ == "__main__":
    main()
