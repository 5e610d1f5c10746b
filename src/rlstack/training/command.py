"""`rlstack train` and `rlstack export`: recipes become typed options, so every field has a flag and a help text."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

import tyro

from rlstack.errors import UserError
from rlstack.files import write_atomically
from rlstack.progress import working
from rlstack.training.recipe import (
    Recipe,
    check_recipe,
    load_recipe,
    recipe_files,
    switched,
    with_fewer_steps,
    with_robots_ranges,
)
from rlstack.training.run_summaries import setup_s
from rlstack.view.watching import view_wanted

if TYPE_CHECKING:
    from rlstack.training.human_intervention import Devices
    from rlstack.training.run_result import OnBest, OnProgress, Progress, Result
    from rlstack.training.training_view import TrainingView

Chosen = TypeVar("Chosen")

_File = Annotated[Path | None, tyro.conf.arg(metavar="FILE")]
_Folder = Annotated[Path | None, tyro.conf.arg(metavar="DIR")]

_DEPLOYED = "crazyflie"
"""The default robot of `up deploy`."""


@dataclass(frozen=True)
class TrainOptions(Generic[Chosen]):
    """Train a policy: every field of the recipe is an option, shown here with the recipe's value as its default."""

    recipe: Annotated[Chosen, tyro.conf.arg(name=""), tyro.conf.FlagConversionOff]
    out: _Folder = None
    """The run's folder, which must not exist yet; default: the next free runs/<name>-NNN."""
    until: float = 1.0
    """Share of the steps after which to stop, evaluated and saved; --resume goes on."""
    ray: Annotated[str, tyro.conf.arg(metavar="ADDRESS")] = ""
    """Have rollout workers (algorithm-settings.workers) on a Ray cluster: local starts one of this machine;
    ray://HOST:10001 or auto. Default: without Ray."""
    json: _File = None
    """Also write the final figures to this file (JSON)."""
    view: bool = False
    """Show curves and the best policy so far in a browser; at a terminal, where the view is installed, the default."""
    no_view: bool = False
    """Show nothing in a browser."""
    show_task: bool = False
    """Print the task's inputs, actions, rewards and pass criteria, and exit without training."""


@dataclass(frozen=True)
class ResumeOptions:
    """Resume a run exactly from its latest checkpoint."""

    resume: Annotated[Path, tyro.conf.arg(metavar="RUN")]
    """The run's folder."""
    until: float = 1.0
    """Share of the steps after which to stop, evaluated and saved; --resume goes on."""
    ray: Annotated[str, tyro.conf.arg(metavar="ADDRESS")] = ""
    """Have rollout workers (algorithm-settings.workers) on a Ray cluster: local starts one of this machine;
    ray://HOST:10001 or auto. Default: without Ray."""
    json: _File = None
    """Also write the final figures to this file (JSON)."""
    view: bool = False
    """Show curves and the best policy so far in a browser; at a terminal, where the view is installed, the default."""
    no_view: bool = False
    """Show nothing in a browser."""


@dataclass(frozen=True)
class ExportOptions:
    """Export the best policy of a training run to a policy file.

    With ``--format c99``: a policy file as C for small processors; ``rlstack export --format c99 --help`` explains it.
    """

    run: tyro.conf.Positional[Path]
    """The run's folder."""
    out: _File = None
    """The policy file; default: policy.onnx in the run's folder."""


def parse_recipe(name: str, words: Sequence[str] = (), prog: str = "rlstack train") -> TrainOptions[Recipe[Any, Any]]:
    """Return the recipe called ``name`` with the options in ``words`` applied and checked.

    Another task or algorithm replaces the options with its own settings; a summary of those carried over is printed
    (:func:`rlstack.training.recipe.switched`). Ranges that the robot's file has for training replace the recipe's.
    With ``--from`` the default of ``--steps`` is a share of the recipe's.

    Raises:
        UserError: The recipe, task or algorithm is unknown, or a value is out of range.
        SystemExit: A field does not exist or is of the wrong type (status 2), or help was requested (status 0).
    """
    recipe = load_recipe(name)
    task, algorithm = ((option, getattr(recipe, option)) for option in ("task", "algorithm"))
    recipe, notes = switched(recipe, _option_value(words, *task), _option_value(words, *algorithm))
    recipe, ranges = with_robots_ranges(recipe, _option_value(words, "robot", recipe.robot))
    notes += ranges
    if _option_value(words, "from", ""):
        recipe, steps = with_fewer_steps(recipe)
        notes.append(steps)
    for sentence in notes:
        print(sentence, file=sys.stderr)
    if not words:
        return TrainOptions(recipe=recipe)
    kind: Any = TrainOptions[Recipe[type(recipe.task_settings), type(recipe.algorithm_settings)]]  # type: ignore[misc]
    options: TrainOptions[Recipe[Any, Any]] = tyro.cli(
        kind,
        default=TrainOptions(recipe=recipe),
        args=list(words),
        prog=f"{prog} {name}",
        config=(tyro.conf.FlagCreatePairsOff,),
    )
    if options.recipe != recipe or notes:
        check_recipe(options.recipe, f"The recipe {name} as changed on the command line")
    return options


def _option_value(words: Sequence[str], option: str, default: str) -> str:
    """Return the last value of ``--option``, which determines the other options."""
    found = default
    for word, after in zip(words, [*words[1:], "-"]):
        key, equals, text = word.partition("=")
        if key == f"--{option}" and (equals or not after.startswith("-")):
            found = text if equals else after
    return found


def train_command(words: Sequence[str], devices: Devices | None = None) -> int:
    """Run ``rlstack train`` with the given words and return the exit status; ``devices`` allow human intervention."""
    if words and words[0].startswith("-") and any(word.partition("=")[0] == "--resume" for word in words):
        arguments = ["--help"] if {"-h", "--help"} & set(words) else list(words)
        options = tyro.cli(ResumeOptions, args=arguments, prog="rlstack train", config=(tyro.conf.FlagCreatePairsOff,))
        _check_until(options.until)
        import_torch()
        from rlstack.training import run
        from rlstack.training.run_folder import recipe_of

        viewed = recipe_of(options.resume) if view_wanted(options.view, options.no_view) else None
        with _shown(viewed, setup_s(options.resume)) as (show, best):
            result = run.resume(options.resume, show, devices, best, options.until, options.ray)
        return report(result, options.json)
    if not words or words[0].startswith("-"):
        print(_usage(), file=sys.stdout if words[:1] in (["-h"], ["--help"]) else sys.stderr)
        return 0 if words[:1] in (["-h"], ["--help"]) else 2
    import_torch()
    options_ = parse_recipe(words[0], words[1:])
    if options_.show_task:
        from rlstack.robots import load_robot
        from rlstack.tasks.core.task_card import describe_task

        print(describe_task(options_.recipe.task_settings, load_robot(options_.recipe.robot)), end="")
        return 0
    _check_until(options_.until)
    view = view_wanted(options_.view, options_.no_view)
    result = train(options_.recipe, options_.out, devices, view, options_.until, options_.ray)
    return report(result, options_.json)


def train(
    recipe: Recipe[Any, Any],
    out: Path | None = None,
    devices: Devices | None = None,
    view: bool = False,
    until: float = 1.0,
    ray: str = "",
) -> Result:
    """Train a recipe with a progress display, in ``out`` or the next free folder under runs/; see :func:`run.start`.

    With ``view``, in a browser, too.
    """
    from rlstack.training import run
    from rlstack.training.run_folder import new_folder

    folder = out or new_folder(recipe.name)

    def announce(folder: Path) -> None:
        print(
            f"Training {recipe.name} for {recipe.robot}: {recipe.steps:,} steps of {recipe.envs:,} robots"
            f" on {recipe.device}, seed {recipe.seed}, in {folder}",
            flush=True,
        )

    try:
        with _shown(recipe if view else None) as (show, best):
            return run.start(recipe, folder, show, devices, announce, best, until=until, ray=ray)
    except KeyboardInterrupt:
        if folder.exists():
            print(f"Stopped at once. Resume: rlstack train --resume {folder}", file=sys.stderr)
        raise


@contextmanager
def _shown(viewed: Recipe[Any, Any] | None, setup_s: float | None = None) -> Iterator[tuple[OnProgress, OnBest | None]]:
    """Yield what shows a run's progress, and in a browser its best policy, if a recipe is to be viewed there.

    Until the first progress it says that the run is set up, which takes ``setup_s`` as a rule.
    """
    from rlstack.training.progress import ProgressDisplay

    with ExitStack() as stack:
        watched = None if viewed is None else stack.enter_context(_opened(viewed))
        display = stack.enter_context(ProgressDisplay())
        setting_up = stack.enter_context(ExitStack())
        setting_up.enter_context(working("setting up robots and world", setup_s))

        def show(progress: Progress) -> None:
            setting_up.close()
            display(progress)
            if watched is not None:
                watched.progress(progress)

        yield show, None if watched is None else watched.best


def _opened(recipe: Recipe[Any, Any]) -> TrainingView:
    """Return the browser view of a run, and say where it is."""
    from rlstack.robots import load_robot
    from rlstack.training.training_view import TrainingView

    task = recipe.task_settings
    opened = TrainingView(task, task.reference(load_robot(recipe.robot)))
    print(f"Open {opened.url} in a browser to see the training.", flush=True)
    return opened


def export_command(words: Sequence[str]) -> int:
    """Run ``rlstack export`` with the given words and return the exit status."""
    options = tyro.cli(ExportOptions, args=list(words), prog="rlstack export")
    import_torch()
    from rlstack.training import run

    with working(f"restoring {options.run}", setup_s(options.run)):
        print(run.export(options.run, options.out))
    return 0


def verification_robot(recipe: Recipe[Any, Any], policy: Path) -> str:
    """Return the robot to verify a new policy on: the recipe's, or the first known one in the policy's family if the
    recipe's is outside it."""
    from rlstack.kinds.quadrotor.spec import load_quadrotor
    from rlstack.policies import family_departures, load_policy
    from rlstack.robots.spec import robot_names

    if not for_a_family(recipe):
        return recipe.robot
    contract = load_policy(policy).contract
    known = (recipe.robot, *robot_names("quadrotor"))
    return next((name for name in known if not family_departures(contract, load_quadrotor(name))), recipe.robot)


def robot_option(robot: str, family: bool = False) -> str:
    """Return the option that selects a robot for `verify` and `up deploy`; empty if it is their default.

    Args:
        robot: Name or file of the robot.
        family: Whether the policy is for a family, so that its file does not name a robot.
    """
    return f" --robot {robot}" if robot.endswith((".yaml", ".yml")) or family or robot != _DEPLOYED else ""


def for_a_family(recipe: Recipe[Any, Any]) -> bool:
    """Return whether a recipe's policy is for a family of robots."""
    return bool(getattr(recipe.task_settings, "family", None))


def report(result: Result, json_file: Path | None) -> int:
    """Print a run's result and the next command, write its figures, and return the exit status."""
    from rlstack.verification.training_evaluation import describe_evaluation

    recipe = result.recipe
    if recipe.fine_tuned_from is not None and result.evaluations:
        before = describe_evaluation(recipe.task_settings, result.evaluations[0])
        print(f"{Path(recipe.fine_tuned_from).name} on {Path(recipe.robot).stem}, before fine-tuning: {before}")
    print(
        f"{'Trained' if result.finished else 'Stopped'} after {result.steps:,} steps in {result.seconds:.0f} s"
        f" ({result.cpu_seconds:.0f} CPU-seconds). {describe_evaluation(recipe.task_settings, result.evaluation)}"
    )
    if not result.finished:
        print(f"Resume:  rlstack train --resume {result.folder}")
    option = robot_option(verification_robot(recipe, result.policy), for_a_family(recipe))
    print(f"Policy:  {result.policy}\nNext:    rlstack verify {result.policy}{option}")
    if json_file is not None:
        write_atomically(json_file, result.as_json())
    return 0 if result.until else 130


def _check_until(until: float) -> None:
    if not 0.0 < until <= 1.0:
        raise UserError(f"--until {until:g} is not allowed: give a share of the steps, above 0 and at most 1.")


def _usage() -> str:
    recipes = "\n".join(f"  {name}" for name in sorted(recipe_files())) or "  none found"
    return (
        "usage: rlstack train RECIPE [options]     train a recipe (a name or a YAML file)\n"
        "       rlstack train RECIPE --help        every field of the recipe as an option\n"
        "       rlstack train RECIPE --show-task   inputs, actions, rewards and pass criteria\n"
        "       rlstack train RECIPE --from RUN --robot NEW.yaml   fine-tune a run's or released policy\n"
        "       rlstack train --resume RUN         resume a run\n\n"
        f"recipes:\n{recipes}"
    )


def import_torch() -> None:
    """Import torch, or raise ``UserError`` naming the first package that is missing for training."""
    for module in ("torch", "rsl_rl", "llvmlite", "tensorboard", "rich"):
        if find_spec(module) is None:
            raise UserError(f"Training needs {module}, which is not installed: pip install 'rlstack[train,sim]'.")
    gc.disable()  # importing creates no garbage, but many objects that every collection would scan
    try:
        import torch  # noqa: F401
    finally:
        gc.freeze()
        gc.enable()
