"""`rlstack fly`: train a recipe, verify the policy file, and suggest the next commands."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rlstack.bringup.verification_watch import watched
from rlstack.bringup.verify import verify
from rlstack.files import write_json


def fly(
    recipe: str,
    *,
    out: Path | None = None,
    seed: int | None = None,
    view: bool = False,
    json: Path | None = None,
) -> int:
    """Train ``recipe``, verify its policy in every simulator and over topics, and print a short table.

    Args:
        recipe: A recipe's name or file.
        out: The run's folder, which must not exist yet; None takes the next free one under runs/.
        seed: Seed of training; None takes the recipe's.
        view: Show training and verification in a browser.
        json: File for the verification's figures.

    Returns:
        0 when the policy passed, 1 when it did not, 130 when training or verification was stopped.
    """
    from rlstack.training.command import for_a_family, parse_recipe, robot_option, train, verification_robot
    from rlstack.verification.training_evaluation import describe_evaluation

    options = parse_recipe(recipe, [] if seed is None else ["--seed", str(seed)])
    result = train(options.recipe, out, view=view)
    if not result.finished:
        print(f"Stopped and saved. Resume: rlstack train --resume {result.folder}")
        return 130
    print(
        f"Trained {result.steps:,} steps in {result.seconds:.0f} s."
        f" {describe_evaluation(options.recipe.task_settings, result.evaluation)}\n"
        "Now the policy file is verified, in every installed simulator over ROS 2 topics, and against what"
        " simulators leave out."
    )
    robot = verification_robot(options.recipe, result.policy)
    if robot != options.recipe.robot:
        print(f"{options.recipe.robot} is outside the trained family, so {robot} flies it.")
    option = robot_option(robot, for_a_family(options.recipe))
    with watched(view) as shown:
        verified = verify(result.policy, robot=robot if option else "", **shown)
    print("\n" + verified.table())
    if json is not None:
        write_json(json, verified.as_data())
    print(_next_commands(recipe, result.policy, option, verified.passed))
    return 130 if verified.incomplete else 0 if verified.passed else 1


def _next_commands(recipe: str, policy: Path, robot: str, passed: bool) -> str:
    deploy, fly = f"rlstack up deploy --policy {policy}{robot}", "run it in real time, over ROS 2 topics"
    commands = {
        **({deploy: fly} if passed else {f"{deploy} --force": f"{fly}, although it has not passed"}),
        f"rlstack show {policy}": "the policy file's contract",
        f"rlstack verify {policy}{robot}": "verify it again; --seed draws other starts",
        f"rlstack train {recipe} --help": "all settings",
    }
    if sys.prefix != sys.base_prefix and "VIRTUAL_ENV" not in os.environ:
        activate = os.path.relpath(Path(sys.prefix) / "bin" / "activate")
        commands = {f". {activate}": "once in each shell", **commands}
    width = max(map(len, commands))
    return "\n".join(["\nNext:", *(f"  {command:<{width}}  {purpose}" for command, purpose in commands.items())])
