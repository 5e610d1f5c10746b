"""The motion that tells most: drawn from families of goals that step, chosen by the information in its rehearsal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rlstack.bringup.excite.rehearsal import Rehearsal
from rlstack.bringup.goal_steps import GoalStep
from rlstack.bringup.kind_deployment import KindDeployment
from rlstack.errors import UserError
from rlstack.identification.information import Information, information


@dataclass(frozen=True)
class Design:
    """A chosen motion.

    Args:
        steps: Its goals.
        told: What it tells.
        usual: What the median of the candidates tells.
        candidates: Number of candidates that were safe, of all.
    """

    steps: list[GoalStep]
    told: Information
    usual: Information
    candidates: tuple[int, int]


def design(
    deployment: KindDeployment,
    policy: Path,
    known: Mapping[str, float],
    wanted: Sequence[str],
    *,
    seconds: float,
    candidates: int,
    seed: int,
    progress: Callable[[str, int, int], None],
) -> Design:
    """Return the candidate that tells most of the wanted parameters.

    Args:
        deployment: The robot's kind of deployment.
        policy: The policy file that is to fly.
        known: What is measured otherwise, by name.
        wanted: Parameters that count; empty: all.
        seconds: Length of the motion, s.
        candidates: Number of motions that are drawn.
        seed: Of the candidates and the noise.
        progress: Takes the number of candidates that are done, and of all.

    Raises:
        UserError: No candidate is safe, a parameter does not exist, or the robot's kind has no such motions.
    """
    rehearsal = Rehearsal(deployment, policy, seed)
    found: list[tuple[Information, list[GoalStep]]] = []
    try:
        for number in range(candidates):
            steps = deployment.exciting_goals(seconds, np.random.default_rng([seed, number]))
            progress("rehearsing", number, candidates)
            if (recorded := rehearsal.run(steps, seconds)) is not None:
                found.append((information(deployment.robot, recorded, known, wanted), steps))
        progress("rehearsing", candidates, candidates)
    finally:
        rehearsal.close()
    if not found:
        raise UserError(
            f"None of {candidates} rehearsed motions stays within the limits of {deployment.robot.name}: does the"
            " policy fly this robot?"
        )
    found.sort(key=lambda one: one[0].score)
    (told, steps), (usual, _) = found[-1], found[(len(found) - 1) // 2]
    return Design(steps, told, usual, (len(found), candidates))
