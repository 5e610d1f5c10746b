"""Description of a training run, the verification of its policy, and the policy's first run in a simulator."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rlstack.bringup.deploy import checked_deployment
from rlstack.bringup.kind_deployment import PolicyPorts
from rlstack.bringup.node_process import Parameter, Process, System, on_simulated_time
from rlstack.bringup.params_file import with_params_file
from rlstack.bringup.robot_group import absolute_file, is_simulator
from rlstack.bringup.system import check_takes_goal, deploy_system
from rlstack.errors import UserError
from rlstack.robots import load_robot


def train_system(
    recipe: str = "quadrotor_hover",
    *,
    out: str | Path = "",
    seed: int | None = None,
    overrides: Sequence[str] = (),
    fly: bool = True,
    robot: str = "",
    backend: str = "mujoco",
    world: str = "",
    namespace: str = "",
    goal: Sequence[float] | None = None,
    params_file: str | Path = "",
    force: bool = False,
) -> System:
    """Describe a training run that publishes its progress, a verification, and a simulated run of its policy.

    Args:
        recipe: A training recipe's name or file.
        out: The run's folder, which must not exist yet; empty takes the next free ``runs/<recipe>-NNN``.
        seed: Overrides the recipe's.
        overrides: More recipe fields, each ``field=value``.
        fly: Start the robot and run the new policy after successful training.
        robot: The robot to run; empty takes the recipe's.
        backend: The simulator to run in; real robots are refused, because the new policy has not been verified.
        world: The world to run in.
        namespace, goal: See :func:`deploy_system`.
        params_file: Parameters of the nodes of that run, see :func:`rlstack.bringup.params_file.with_params_file`.
        force: Run the new policy without a verification.

    Raises:
        UserError: See :func:`deploy_system`; or the robot is not one that the recipe trains for, or the world lacks the
            object that the new policy handles.
    """
    folder = Path(out).expanduser().absolute() if str(out) else _new_run_folder(recipe)
    if folder.exists():
        raise UserError(f"The run folder {folder} exists and is never overwritten: choose another with out.")
    then = None
    if fly:
        from rlstack.nodes.train import TrainingRequest, recipe_for  # needs torch, as the training that follows does

        if not is_simulator(backend):
            raise UserError(
                f"An unverified policy runs in simulators only, and the backend '{backend}' is not one:"
                " train first, then verify and deploy."
            )
        trained = recipe_for(TrainingRequest(recipe, folder, -1 if seed is None else int(seed), tuple(overrides)))
        flown = robot or trained.robot
        check_trained_for(recipe, trained, flown)
        settings = trained.task_settings
        senses = tuple(getattr(settings, "inputs", ()))
        learnt = PolicyPorts(f"The policy of the recipe {recipe}", senses, tuple(settings.outputs), settings.rate_hz)
        policy = folder / "policy.onnx"
        run: dict[str, Any] = {"world": world, "namespace": namespace, "goal": goal}
        then = on_simulated_time(deploy_system(policy, flown, backend, ports=learnt, **run))
        if goal is not None and senses and not then.pursues_goals:
            check_takes_goal(learnt.who, senses)
        then = with_params_file(then, params_file)
        # then the file is there, so that its nodes take the bytes that were proven, of the policy and of the robot
        again = partial(checked_deployment, policy, flown, backend, params_file=params_file, force=force, **run)
        then = replace(then, at_start=again)
        if not force:
            then = _verified_before(then, policy, absolute_file(flown), backend)
    parameters: dict[str, Parameter] = {"recipe": recipe, "out": str(folder)}
    if seed is not None:
        parameters["seed"] = int(seed)
    if overrides:
        parameters["overrides"] = json.dumps(list(overrides))
    return System(
        name="train",
        processes=(
            Process(
                name="train",
                module="rlstack.nodes.train",
                parameters=parameters,
                when_it_ends="start the next stage",
                why="training is over",
                grace_s=20.0,  # it saves a checkpoint
            ),
        ),
        then=then,
    )


def check_trained_for(recipe: str, trained: Any, robot: str) -> None:
    """Refuse a robot that the policy of a recipe will not fit.

    Args:
        recipe: The recipe's name or file.
        trained: The recipe.
        robot: A robot's name or file.

    Raises:
        UserError: The recipe's task is for robots of another kind, or the policy for another robot.
    """
    from rlstack.training.command import for_a_family  # needs torch, as the training that follows does

    meant, spec = load_robot(trained.robot), load_robot(robot)
    try:
        trained.task_settings.check_kind(spec)
    except UserError as error:
        raise UserError(
            f"The recipe {recipe} trains for {meant.name}, and its policy cannot drive {spec.name}: {error} Or leave"
            " the robot out."
        ) from error
    if spec.name != meant.name and not for_a_family(trained):
        raise UserError(
            f"The recipe {recipe} trains for {meant.name}, and its policy is for no other robot: leave the robot"
            f" {spec.name} out, or train for it, with the recipe's field robot={robot}."
        )


def _verified_before(system: System, policy: Path, robot: str, backend: str) -> System:
    """Return a stage that verifies a new policy, followed by ``system`` if it passes."""
    check = Process(
        name="verify",
        module="rlstack.bringup.fresh_policy",
        arguments=(str(policy), robot, backend),
        when_it_ends="start the next stage",
        why="a new policy runs only after it has passed its verification; with force it runs without one",
    )
    return System(name="verify", processes=(check,), then=system)


def _new_run_folder(recipe: str) -> Path:
    from rlstack.training.run_folder import new_folder  # needs torch, as the training that follows does

    return new_folder(Path(recipe).stem).absolute()
