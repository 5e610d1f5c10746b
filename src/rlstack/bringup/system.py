"""Descriptions of complete systems, which `rlstack up` and the launch files render alike.

A launch file and the supervisor start the same :class:`System`, so that their parameters always agree.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.bringup.kind_deployment import (
    DeployOptions,
    PolicyPorts,
    deployment_of,
    given_commander,
    policy_ports,
)
from rlstack.bringup.node_process import Parameter, Process, System, WhenItEnds, on_simulated_time
from rlstack.bringup.params_file import with_params_file
from rlstack.bringup.robot_group import TOPICS, absolute_file, is_simulator, robot_group
from rlstack.bringup.rviz_process import with_rviz
from rlstack.bringup.view_process import with_view
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.instruction import encoded
from rlstack.interfaces.nav2_messages import PACKAGE as NAV2_MESSAGES
from rlstack.interfaces.signals import SENSED
from rlstack.kinds import find_kind
from rlstack.nodes.goal_topics import has_goal
from rlstack.policies import find_policy, load_policy
from rlstack.policies.proven import proven_for
from rlstack.policies.record import read_record
from rlstack.robots import RobotSpec, load_robot
from rlstack.sim.world import load_world

DEFAULT_ROBOT = "crazyflie"

TRUE_ODOM = "odom_true"
"""A simulator's own odometry where a node estimates it from its sensors."""

START_S = 20.0
"""Time limit for the first messages when all nodes start at once: a node needs 2 s of CPU time to start, which takes
long on a busy machine."""


def chosen_robot(policy: str | Path, robot: str) -> str:
    """Return the named robot, else the policy's, else the default: without a policy file, or with one for a family."""
    if robot or not policy or not find_policy(policy).is_file():
        return robot or DEFAULT_ROBOT
    contract = load_policy(policy).contract
    return DEFAULT_ROBOT if contract.needs_robot else contract.robot


def deploy_system(
    policy: str | Path = "",
    robot: str = "",
    backend: str = "mujoco",
    *,
    commander: str = "",
    uri: str = "",
    world: str = "",
    count: int = 1,
    namespace: str = "",
    frame_prefix: str = "",
    goal: Sequence[float] | None = None,
    instruction: str = "",
    real_time_factor: float = 1.0,
    lock_step: bool = False,
    auto_arm: bool | None = None,
    noise_seed: int = 0,
    remap: Sequence[str] = (),
    ports: PolicyPorts | None = None,
    dry_run: bool = False,
    tether: float = 1.0,
    require_live_check: bool = True,
    own_simulator: bool = False,
    **options: Any,
) -> System:
    """Describe robots driven by a policy: the robot node, and for each robot a policy node and a guard between them.

    A kind of robot may add nodes, such as a wheeled base's people tracker.

    Args:
        policy: The policy file.
        robot: A robot's name or file; empty: :func:`chosen_robot`.
        backend: The backend behind the common topics: a simulator, a real robot, or ``topics``: a driver that rlstack
            does not start provides them, perhaps under other names (``remap``).
        commander: What commands in place of a policy file or driver: the URI of a policy server, or ``external``.
        uri: Where the driver of a real robot finds it, such as ``serial:///dev/ttyACM0?baud=1000000``; each driver's
            page says which it takes.
        world: Name or file of the world, such as ``warehouse:7`` (simulators only); empty: a bare floor.
        count: Number of robots that share the world (simulators only).
        namespace: Namespace of the robot's topics; empty: the robot's name, or with the backend ``topics`` none.
            Several robots have namespaces of their own in it, the robot's name and a number; empty: at the top.
        frame_prefix: Prefix of the robot's frames, such as ``cf1/``, so that several simulations or robots share /tf.
        goal: Position to hover at, or for a base to drive to (x y suffices), m, in ``odom``; for several robots,
            relative to each start. For an arm, the goal of its tool or object, m in ``base_link``. None: 1 m above the
            start; for a base the world's goal, or its start; for an arm the tool's rest position.
        instruction: What a language-conditioned policy is to do, until the topic ``instruction`` says something else;
            empty: it waits for the topic.
        real_time_factor: Simulated seconds per second (simulators only).
        lock_step: Time waits for every command (simulators only).
        auto_arm: Arm automatically; None arms simulators, and a real robot in a dry run only.
        noise_seed: Seed of the simulated sensors' noise.
        remap: Topic remappings, each ``ours:=theirs``, such as ``cmd_vel:=platform/cmd_vel``.
        ports: Interface of a policy whose file does not exist yet; None: read from the file.
        dry_run: Do everything but move the actuators: the driver reads, policy and guard run, and no command is sent.
        tether: Share of the robot file's speeds, accelerations and geofence that the guard's limits are at most, for
            first tries; see :meth:`rlstack.guard.config.GuardConfig.tethered`.
        require_live_check: Whether the guard of a real robot refuses to arm while delay, rate or noise of the policy's
            inputs are outside of what the policy is proven for.
        own_simulator: Whether the caller has a simulator of its own, with what the policy handles in it, as
            verification has.
        options: Fields of :class:`rlstack.bringup.kind_deployment.DeployOptions`; each kind takes some of them.

    Raises:
        UserError: An unknown robot, backend, driver or world (nearest names listed), an engine that is not installed,
            a policy that is invalid or for another robot, or an invalid value.
    """
    robot = chosen_robot(policy, robot)
    group = robot_group(
        robot,
        backend,
        uri=uri,
        world=world,
        count=count,
        namespace=namespace,
        real_time_factor=real_time_factor,
        lock_step=lock_step,
        noise_seed=noise_seed,
        frame_prefix=frame_prefix,
    )
    spec, file, given = load_robot(robot), absolute_file(robot), DeployOptions(**options)
    deployment = deployment_of(spec)
    deployment.check(given)
    if dry_run and backend == TOPICS:
        raise UserError(
            "A dry run needs a driver of rlstack, and with the backend 'topics' the robot's own obeys the commands:"
            " leave --dry-run out, and rename the commands instead, such as --remap cmd_vel:=not_sent/cmd_vel."
        )
    if not 0.05 <= tether <= 1.0:
        raise UserError(f"The tether {tether:g} is not allowed: give a share from 0.05 to 1, such as 0.3.")
    # of a policy that is yet to be trained, neither the file nor the robot is checked now
    pinned: dict[str, Parameter] = {} if ports is not None else {"robot_sha256": spec.sha256}
    ports = ports or policy_ports(policy, spec)
    if ports is not None and group.simulated and not own_simulator:
        check_scene(world, ports)
    if instruction:
        if policy and ports is None and not commander:
            load_policy(policy)  # which says what is wrong with the file, so that nobody takes it for a planner
        check_instruction(instruction, ports, commander)
    rate_hz = None if ports is None else ports.rate_hz
    if commander:
        commands_from, rate_hz = given_commander(commander, policy or given.driver, deployment.AFTER_POLICY)
    else:
        commands_from = deployment.commander(policy, ports, given, group, lock_step)
    helpers = deployment.helpers(ports, given, lock_step)
    timeouts = deployment.timeouts(rate_hz)
    contract = None if ports is None else ports.contract
    checks = commands_from.name == "policy" and contract is not None and not group.simulated
    sha256 = "" if ports is None else ports.sha256
    record = read_record(find_policy(policy)) if sha256 else None
    proof = {} if record is None else record.proof_of(sha256)
    late = None if contract is None else proven_for(contract, proof)
    late_s = 0.0 if late is None else late.most(late.known("odometry_delay_s", "observation_delay_s"), 0.0)
    goals = commands_from.name == "planner" or (
        commands_from.name == "policy" and ports is not None and has_goal(ports.inputs)
    )
    types, sensors = deployment.command_parameters(given), deployment.sensor_parameters(given)
    remappings = remapped(remap)

    def node(space: str, name: str, parameters: Mapping[str, Parameter], why: str, **more: Any) -> Process:
        prefix = f"{space.rpartition('/')[2]}." if count > 1 else ""
        return Process(
            name=f"{prefix}{name}",
            node=name,
            module=f"rlstack.nodes.{name}",
            namespace=space,
            parameters=parameters,
            remappings=remappings,
            why=why,
            **more,
        )

    fence = deployment.fence(group.fence_m)
    limits = find_kind(spec.kind).load("guard").CONFIG.from_robot(spec, **fence)
    box = {name: corner for name, corner in fence.items() if name.endswith("_m")}
    if tether < 1.0:
        tied = limits.tethered(spec, tether)
        box = {name: getattr(tied, name) for name in tied.TETHERED if name.startswith("geofence")}
    rest_s = 0.0 if dry_run else float(limits.rest_within_s) / min(real_time_factor, 1.0)
    processes = []
    if group.process is not None:
        obeys: dict[str, Parameter] = {"command_source": "guard"}
        rests: dict[str, Parameter] = {"rest_within_s": rest_s} if rest_s else {}
        dry: dict[str, Parameter] = {"dry_run": True} if dry_run else {}
        stands_in = deployment.simulated_sensors(given, group)
        own = ((topics.ODOM, TRUE_ODOM),) if stands_in else ()
        more = {**pinned, **types, **timeouts.robot, **obeys, **rests, **dry, **stands_in}
        parameters = {**group.process.parameters, **more}
        processes.append(replace(group.process, parameters=parameters, remappings=remappings + own, rest_s=rest_s))
    for space, place, frames in zip(group.namespaces, deployment.goals(group, goal), group.frames):
        if not own_simulator:
            check_goal(spec, place, box)
        guard: dict[str, Parameter] = {
            "robot": file,
            **pinned,
            "lock_step": lock_step,
            "auto_arm": (group.simulated or dry_run) if auto_arm is None else auto_arm,
            **fence,
            **({"tether": float(tether)} if tether < 1.0 else {}),
            **frames,
            **types,
            **timeouts.guard,
            **({"require_live_check": True} if checks and require_live_check else {}),
            **({"observation_delay_s": late_s} if late_s else {}),
            **deployment.guard_parameters(given, place),
        }
        why = f"nothing may {deployment.VERBS[0]} without the guard"
        processes.append(node(space, "guard", guard, why, rest_s=rest_s))
        waits: dict[str, Parameter] = {
            "robot": file,
            **pinned,
            "lock_step": lock_step,
            "topic_timeout_s": START_S * count,
            **sensors,
            **box,
        }
        commands: dict[str, Parameter] = {
            **commands_from.parameters,
            **frames,
            **(waits if commands_from.waits else {}),
            **({"live_check": True} if checks else {}),
            **({"instruction": instruction} if instruction else {}),
            **({"record_sha256": record.sha256} if checks and proof and record is not None else {}),
            "goal_position": place,
            "goal_yaw": float(given.goal_yaw_rad),
        }
        goes_on: WhenItEnds = "let the rest go on"
        if commands_from.name:
            processes.append(node(space, commands_from.name, commands, commands_from.why, when_it_ends=goes_on))
        for helper in helpers:
            whose: dict[str, Parameter] = {} if helper.name == "odometry" else {"robot": file}
            parameters = {**whose, **helper.parameters, **sensors, **frames}
            processes.append(node(space, helper.name, parameters, helper.why, when_it_ends=goes_on))
        if goals and NAV2_MESSAGES.is_installed():
            processes.append(node(space, "goal_action", {}, "goals come by topic alone", when_it_ends=goes_on))
    return System(
        name="deploy",
        processes=tuple(processes),
        contract=contract,
        record=record,
        pursues_goals=goals,
        policy_sha256=sha256,
        robot_sha256=str(pinned.get("robot_sha256", "")),
    )


def check_goal(robot: RobotSpec, place: Sequence[float], box: Mapping[str, Any]) -> None:
    """Refuse a goal that the robot's nodes would refuse.

    Args:
        robot: The robot.
        place: The goal.
        box: Parameters that widen where its goals may be.

    Raises:
        UserError: It is outside of the robot's limits; the nearest goal inside is named.
    """
    limits = robot.goal_limits()
    if limits is None:
        return
    limits = limits.changed(box.get(f"{limits.name}_min_m", ()), box.get(f"{limits.name}_max_m", ()))
    if why := limits.refusal(np.array(place)):
        raise UserError(f"The goal {list(place)} is not allowed: {why}.")


def check_takes_goal(who: str, inputs: Collection[str]) -> None:
    """Refuse a goal for a policy that goes to none.

    Args:
        who: The policy, for messages.
        inputs: Names of the signals that it senses.

    Raises:
        UserError: It takes no goal.
    """
    if not has_goal(inputs):
        told = ", and say with the instruction what it is to do" if topics.INSTRUCTION in inputs else ""
        raise UserError(f"{who} goes to no goal: leave the goal out{told}.")


def check_scene(world: str, ports: PolicyPorts) -> None:
    """Refuse a simulated world without the object that a policy senses.

    Raises:
        UserError: The world has no such object.
    """
    if not any(name in SENSED and SENSED[name].topic == topics.OBJECT for name in ports.inputs):
        return
    things = load_world(world).obstacles if world else ()
    if not any(thing.is_handled for thing in things):
        raise UserError(
            f"{ports.who} handles an object, and {f'the world {world}' if world else 'a bare floor'} has none: give a"
            f" --world with an obstacle called '{topics.OBJECT}' that has a mass, such as those in docs/arms.md."
        )


def check_instruction(instruction: str, ports: PolicyPorts | None, commander: str = "") -> None:
    """Refuse an instruction that is not text, or that nothing follows.

    Raises:
        UserError: It is empty or too long, or the policy takes none.
    """
    try:
        encoded(instruction)
    except ValueError as error:
        raise UserError(f"instruction: {error}.") from error
    if commander:
        raise UserError(
            f"The commander '{commander}' hears no instruction: leave it out. A policy server takes its task from the"
            " URI's option task, another program from you."
        )
    if ports is None or topics.INSTRUCTION not in ports.inputs:
        who = "A planner" if ports is None else ports.who
        raise UserError(f"{who} follows no instructions: leave the instruction out, or give a policy that does.")


def remapped(given: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return pairs of topic names, ours and theirs, from remappings ``ours:=theirs``.

    Raises:
        UserError: A remapping does not have that form.
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
    *,
    params_file: str | Path = "",
    view: bool = False,
    rviz: bool = False,
    **options: Any,
) -> System:
    """Describe simulated robots that wait for commands, without a policy and guard.

    Args:
        robot: A robot's name or file.
        backend: A simulator.
        params_file: See :func:`rlstack.bringup.params_file.with_params_file`.
        view: Show them in a browser, see :func:`rlstack.bringup.view_process.with_view`.
        rviz: Show the first one in RViz, see :func:`rlstack.bringup.rviz_process.with_rviz`.
        options: ``world``, ``count``, ``namespace``, ``frame_prefix``, ``real_time_factor``, ``lock_step`` and
            ``noise_seed`` as in :func:`deploy_system`, and ``start_height_m``, to start in the air.

    Raises:
        UserError: See :func:`deploy_system`.
    """
    if not is_simulator(backend):
        raise UserError(
            f"The backend '{backend}' is not a simulator: start a real robot behind a guard, with `rlstack up deploy`."
        )
    deployment = deployment_of(load_robot(robot))
    deployment.check(DeployOptions(start_height_m=options.get("start_height_m", 0.0)))
    group = robot_group(robot, backend, **options)
    process = group.process
    assert process is not None  # only other backends have none
    if not options.get("lock_step"):
        process = replace(process, parameters={**process.parameters, **deployment.simulated_commands()})
    system = on_simulated_time(System(name="simulate", processes=(process,)))
    if view:
        system = with_view(system, group.namespaces)
    if rviz:
        system = with_rviz(system, absolute_file(robot), group.namespaces, options.get("frame_prefix", ""))
    return with_params_file(system, params_file)
