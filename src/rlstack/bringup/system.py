"""Which processes make a system: the one description that `rlstack up` and the launch files render.

A launch file and the supervisor turn the same :class:`System` into running processes, so a parameter that
one of them sets and the other forgets cannot exist.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlstack.bringup.crew import (
    TOPICS,
    absolute_file,
    checked_namespace,
    is_simulator,
    robot_crew,
)
from rlstack.bringup.movers import EXPLORER, NAV2, chosen_driver, contract_of, mover, names_waypoints, senses_people
from rlstack.bringup.patience import patience_for
from rlstack.bringup.places import fence_of, goals_of
from rlstack.bringup.process import Parameter, Process, System, WhenItEnds, python_module
from rlstack.bringup.scenes import check_scene
from rlstack.errors import UserError, unknown_name
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import RobotSpec, load_robot

__all__ = [
    "TOPICS",
    "Parameter",
    "Process",
    "System",
    "WhenItEnds",
    "checked_namespace",
    "deploy_system",
    "is_simulator",
    "python_module",
    "simulate_system",
    "train_system",
]

START_S = 20.0
"""How long the policy waits for the first messages when all nodes start at once: a node takes 2 s of a processor to
start, which a busy machine may not have."""

_MOVES = {"quadrotor": "fly", "wheeled_base": "drive"}
PEOPLE_FROM = ("scan", "topic")
"""Who tells a base of the people around it: a people node, or the robot."""


def deploy_system(
    policy: str | Path = "",
    robot: str = "crazyflie",
    backend: str = "mujoco",
    *,
    driver: str = "",
    world: str = "",
    count: int = 1,
    namespace: str = "",
    goal: Sequence[float] | None = None,
    goal_yaw_rad: float = 0.0,
    area: Sequence[float] | None = None,
    real_time_factor: float = 1.0,
    lock_step: bool = False,
    auto_arm: bool | None = None,
    noise_seed: int = 0,
    fallback: str = "stop",
    with_map: bool = False,
    people: str = "scan",
    remap: Sequence[str] = (),
    cmd_vel_type: str = "TwistStamped",
    cmd_joints_type: str = "JointTrajectory",
    scan_frame: str = "",
    zero_is_far: bool = False,
    rate_hz: float | None = None,
) -> System:
    """Describe robots that a policy moves: the robot node, and for each robot a policy node and the guard between them.

    Where the policy, the planner or the fallback senses people, there is a people node for each robot as well.

    Args:
        policy: The policy file.
        robot: A robot's name or file.
        backend: What stands behind the common topics: a simulator, a real robot, or ``topics``: a driver that rlstack
            does not start speaks them, perhaps under other names (``remap``).
        driver: A planner that drives a wheeled base in the policy's stead, such as ``astar_dwa``; or ``nav2``; or
            ``astar_policy``, with which the policy drives along a planned way. A policy for exploration is led by
            ``explorer_policy`` without being asked for.
        world: Name or file of the world to move in, such as ``warehouse:7`` (simulators only); empty: a floor.
        count: Robots of this kind that share the world (simulators only).
        namespace: Of the robot's topics; empty takes the robot's name, or with the backend ``topics`` none. Several
            robots have namespaces of their own in it, the robot's name and a number; empty: at the top.
        goal: Where to hover, or of a base to drive (x y will do), m, in ``odom``; for several robots, from where each
            one starts. Of an arm where its tool, or what it handles, is to be, m in ``base_link``. None: 1 m above the
            start; of a base the world's goal, or where it stands; of an arm where the tool is at rest.
        goal_yaw_rad: Heading to hold there.
        area: What a base is to explore, its corners x y x y, m, in ``odom``; None: the world's floor, or without one as
            large a square about the origin as the policy was trained on.
        real_time_factor: Simulated seconds per second (simulators only).
        lock_step: Time waits for every command (simulators only).
        auto_arm: Arm without being asked; None arms simulators and never a real robot.
        noise_seed: Of the simulated sensors' noise.
        fallback: Of a base, what drives when the policy cannot: ``stop`` or a planner.
        with_map: Of a base, start the map node too.
        people: Where those who sense people have them from: ``scan``: a people node tracks them in the scan;
            ``topic``: the robot has a source of its own, which sends ``people``.
        remap: Topics of other names, each ``ours:=theirs``, such as ``cmd_vel:=platform/cmd_vel``.
        cmd_vel_type: Of a base, ``TwistStamped`` or ``Twist``.
        cmd_joints_type: Of an arm, ``JointTrajectory`` or ``Float64MultiArray``.
        scan_frame: Of a base, another name of the frame in its scans' headers.
        zero_is_far: Of a base, whether its lidar's driver says 0 where nothing came back.
        rate_hz: Of a policy whose file is not there yet; None: the file says it.

    Raises:
        UserError: An unknown robot, backend, driver or world (nearest names listed), an engine that is not installed,
            or a value that makes no sense.
    """
    crew = robot_crew(
        robot,
        backend,
        world=world,
        count=count,
        namespace=namespace,
        real_time_factor=real_time_factor,
        lock_step=lock_step,
        noise_seed=noise_seed,
    )
    spec, file = load_robot(robot), absolute_file(robot)
    base: dict[str, Parameter] = {}
    if isinstance(spec, WheeledBase):
        base = {"cmd_vel_type": cmd_vel_type} if cmd_vel_type != "TwistStamped" else {}
        base |= {"fallback": fallback} if fallback != "stop" else {}
    else:
        _refuse(
            spec,
            "wheeled bases",
            driver=bool(driver),
            with_map=with_map,
            fallback=fallback != "stop",
            people=people == "topic",
            cmd_vel_type=cmd_vel_type != "TwistStamped",
            scan_frame=bool(scan_frame),
            zero_is_far=zero_is_far,
        )
    if isinstance(spec, Manipulator):
        base = {"cmd_joints_type": cmd_joints_type} if cmd_joints_type != "JointTrajectory" else {}
        _refuse(spec, "robots that head somewhere", goal_yaw=bool(goal_yaw_rad))
        contract = contract_of(policy)
        if contract is not None and crew.simulated:
            check_scene(world, [port.name for port in contract.inputs], f"The policy {policy}")
        if contract is not None and rate_hz is None:
            rate_hz = contract.rate_hz
    else:
        _refuse(spec, "arms", cmd_joints_type=cmd_joints_type != "JointTrajectory")
    patience = patience_for(spec, rate_hz)
    driver = chosen_driver(policy, driver)
    if area is not None and driver != EXPLORER:
        raise UserError("An area is for policies that explore: leave it out, or give such a policy.")
    seen: dict[str, Parameter] = {"scan_frame": scan_frame} if scan_frame else {}
    seen |= {"zero_is_far": True} if zero_is_far else {}
    if people not in PEOPLE_FROM:
        raise unknown_name("source of people", people, PEOPLE_FROM)
    tracked = people == "scan" and senses_people(spec, policy, driver, fallback)
    remappings = remapped(remap)
    armed = crew.simulated if auto_arm is None else auto_arm
    processes = []
    if crew.process is not None:
        plain = {name: value for name, value in base.items() if name.startswith("cmd_")}
        parameters = {**crew.process.parameters, **plain, **patience.robot}
        processes.append(replace(crew.process, parameters=parameters, remappings=remappings))
    for space, place in zip(crew.namespaces, goals_of(spec, crew, goal)):
        prefix = f"{space.rpartition('/')[2]}." if count > 1 else ""
        what, parameters = mover(policy, driver, lock_step, area or crew.floor_m)
        if what != NAV2:
            wait_s = START_S * (1 if count == 1 else count)
            parameters |= {"robot": file, "lock_step": lock_step, "topic_timeout_s": wait_s, **seen}
        processes += [
            Process(
                name=f"{prefix}guard",
                node="guard",
                module="rlstack.nodes.guard",
                namespace=space,
                parameters={
                    "robot": file,
                    "lock_step": lock_step,
                    "auto_arm": armed,
                    **fence_of(crew.fence_m, spec),
                    **base,
                    **patience.guard,
                    **({"goal_position": place} if "fallback" in base else {}),
                    **seen,
                },
                remappings=remappings,
                why=f"nothing may {_MOVES.get(spec.kind, 'move')} without the guard",
            ),
            Process(
                name=f"{prefix}{what}",
                node=what,
                module=f"rlstack.nodes.{what}",
                namespace=space,
                parameters={**parameters, "goal_position": place, "goal_yaw": float(goal_yaw_rad)},
                remappings=remappings,
                when_it_ends="let the rest go on",
                why=_after(spec, fallback),
            ),
        ]
        for wanted, node, more, why in (
            (tracked, "people", {"lock_step": lock_step}, "nobody sees people now, and what senses them waits"),
            (with_map, "map", {}, "the map is for viewers"),
        ):
            if wanted:
                processes.append(
                    Process(
                        name=f"{prefix}{node}",
                        node=node,
                        module=f"rlstack.nodes.{node}",
                        namespace=space,
                        parameters={"robot": file, **more, **seen},
                        remappings=remappings,
                        when_it_ends="let the rest go on",
                        why=why,
                    )
                )
    return System(name="deploy", processes=tuple(processes))


def _refuse(spec: RobotSpec, who: str, **given: bool) -> None:
    """Refuse options that were given and are for other robots."""
    if names := [name for name, there in given.items() if there]:
        raise UserError(f"{names[0]} is for {who}, and {spec.name} is a {spec.kind}: leave it out.")


def _after(spec: RobotSpec, fallback: str) -> str:
    if isinstance(spec, Manipulator):
        return "the guard holds the arm and then parks it"
    if not isinstance(spec, WheeledBase):
        return "the guard flies its fallback and then lands"
    return "the guard brakes" if fallback == "stop" else f"the guard drives on with {fallback}"


def remapped(given: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return pairs of topic names, ours and theirs, from words ``ours:=theirs``.

    Raises:
        UserError: A word is not of that form.
    """
    pairs = []
    for word in given:
        ours, mark, theirs = word.partition(":=")
        if not (ours and mark and theirs) or ":=" in theirs:
            raise UserError(f"remap: '{word}' is not allowed: give ours:=theirs, such as cmd_vel:=platform/cmd_vel.")
        pairs.append((ours, theirs))
    return tuple(pairs)


def simulate_system(
    robot: str = "crazyflie",
    backend: str = "mujoco",
    **options: Any,
) -> System:
    """Describe simulated robots that wait for commands from whatever controls them; no policy, and no guard.

    Args:
        robot: A robot's name or file.
        backend: A simulator.
        options: ``world``, ``count``, ``namespace``, ``real_time_factor``, ``lock_step`` and ``noise_seed`` as of
            :func:`deploy_system`, and ``start_height_m``, in the air.

    Raises:
        UserError: As of :func:`deploy_system`.
    """
    if not is_simulator(backend):
        raise UserError(f"The backend '{backend}' is no simulator: a real robot flies behind a guard, with deploy.")
    if isinstance(spec := load_robot(robot), Manipulator):
        _refuse(spec, "robots that fly", start_height_m=bool(options.get("start_height_m")))
    process = robot_crew(robot, backend, **options).process
    assert process is not None  # only those that are no simulators have none
    return System(name="simulate", processes=(process,))


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
) -> System:
    """Describe a training run that publishes its progress, and the simulated flight of its policy that follows.

    Args:
        recipe: A training recipe's name or file.
        out: The run's folder, which must not exist yet; empty takes the next free ``runs/<recipe>-NNN``.
        seed: Overrides the recipe's.
        overrides: More recipe fields, each ``field=value``.
        fly: Start the robot and fly the new policy when training has ended well.
        robot: Flown afterwards; empty takes the recipe's.
        backend: Flown in afterwards; a simulator only, because the new policy has not been verified.
        world: Moved in afterwards.
        namespace: As in :func:`deploy_system`.
        goal: As in :func:`deploy_system`.

    Raises:
        UserError: As of :func:`deploy_system`, or the new policy would handle an object that the world has not.
    """
    folder = Path(out).expanduser().absolute() if str(out) else _new_run_folder(recipe)
    if folder.exists():
        raise UserError(f"The run folder {folder} exists and is never overwritten: choose another with out.")
    then = None
    if fly:
        from rlstack.nodes.train import Order, recipe_for  # needs torch, as the training that follows does

        if not is_simulator(backend):
            raise UserError(
                f"A policy fresh from training may fly in simulators only, and the backend '{backend}' is not one:"
                " train first, then verify and deploy."
            )
        trained = recipe_for(Order(recipe, folder, -1 if seed is None else int(seed), tuple(overrides)))
        from rlstack.tasks import TASKS

        flown = robot or trained.robot
        if isinstance(load_robot(flown), Manipulator):
            senses = getattr(TASKS.load(trained.task), "inputs", ())
            check_scene(world, senses, f"What the recipe {recipe} learns")
        then = deploy_system(
            folder / "policy.onnx",
            flown,
            backend,
            driver=EXPLORER if names_waypoints(trained.task_settings.outputs) else "",
            world=world,
            namespace=namespace,
            goal=goal,
            rate_hz=trained.task_settings.rate_hz,
        )
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


def _new_run_folder(recipe: str) -> Path:
    from rlstack.training.run import new_folder  # needs torch, as the training that follows does

    return new_folder(Path(recipe).stem).absolute()
