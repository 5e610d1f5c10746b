"""`rlstack up`: run all checks before anything moves, then run the system and report its progress."""

from __future__ import annotations

import math
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rlstack.bringup.adapt_process import with_adaptation
from rlstack.bringup.kind_deployment import EXTERNAL, deployment_of
from rlstack.bringup.node_process import System, on_simulated_time, with_parameters, with_real_time_priority
from rlstack.bringup.params_file import with_params_file
from rlstack.bringup.record_process import with_recorder
from rlstack.bringup.robot_group import TOPICS, absolute_file, is_simulator, robot_group
from rlstack.bringup.rviz_process import with_rviz
from rlstack.bringup.status_monitor import Liveness, Monitor
from rlstack.bringup.supervisor import Supervisor
from rlstack.bringup.system import START_S, check_takes_goal, chosen_robot, deploy_system, simulate_system
from rlstack.bringup.task_world import is_task_world, with_task_world
from rlstack.bringup.teleop import with_human
from rlstack.bringup.verification_check import only_simulator, require_verification
from rlstack.bringup.view_process import with_view
from rlstack.errors import UserError
from rlstack.files import write_json
from rlstack.interfaces import topics
from rlstack.interfaces.kind_signals import command_of
from rlstack.interfaces.nav2_messages import PACKAGE as NAV2_MESSAGES
from rlstack.nodes.kind_topics import kind_topics
from rlstack.policies import family_departures, load_policy
from rlstack.policies.robot_envelope import changed_numbers
from rlstack.robots import load_robot

FIRST_ODOMETRY_S = 60.0
"""Time limit for the robot node's first odometry: Python, ROS and a simulator have to load."""

_STATUS_PERIOD_S = 1.0


def checked_deployment(
    policy: str | Path = "",
    robot: str = "",
    backend: str = "mujoco",
    *,
    force: bool = False,
    teleop: bool = False,
    adapt: bool = False,
    agent: bool = False,
    places: str = "",
    model_url: str = "",
    model: str = "",
    params_file: str | Path = "",
    use_sim_time: bool = False,
    view: bool = False,
    rviz: bool = False,
    record: str | Path | None = None,
    **options: Any,
) -> System:
    """Return the system that runs ``policy``, if it is verified; a planner (``driver``) needs no verification.

    Args as in :func:`deploy_system`, and:

    Args:
        robot: A robot's name or file; empty: :func:`chosen_robot`.
        force: Run although the policy has no passing verification beside it, or was trained on other vehicles.
        teleop: An operator may correct the policy, see :func:`rlstack.bringup.teleop.with_human`.
        adapt: Adapt the policy in flight, see :func:`rlstack.bringup.adapt_process.with_adaptation`.
        agent: An agent takes sentences, see :func:`rlstack.bringup.agent_process.with_agent`, as the next three.
        places: File of named places.
        model_url: Endpoint of a language model that plans.
        model: The model's name there.
        params_file: A file with parameters of the nodes, such as tighter limits of the guard, see
            :func:`rlstack.bringup.params_file.with_params_file`.
        use_sim_time: With the backend ``topics``: another simulator publishes ``/clock``, which the nodes' clocks
            follow. Beside a simulator of rlstack they always do.
        view: Show the robots in a browser, see :func:`rlstack.bringup.view_process.with_view`.
        rviz: Show the robot in RViz, see :func:`rlstack.bringup.rviz_process.with_rviz`.
        record: Record them into this new folder, see :func:`rlstack.bringup.record_process.with_recorder`; empty: one
            by the time; None: record nothing.

    Raises:
        UserError: Unknown robot or backend, simulated time for a real robot, a bad policy file or one for another
            robot; without ``force`` also a missing verification, a file without an envelope, or a robot outside the
            family that the policy was trained on.
    """
    robot = chosen_robot(policy, robot)
    goal_given = options.get("goal") is not None
    if is_task_world(options.get("world", "")):
        options = with_task_world(policy, robot, options)
    system = deploy_system(policy, robot, backend, require_live_check=not force, **options)
    spec = load_robot(robot, sha256=system.robot_sha256)
    if goal_given and system.contract is not None and not system.pursues_goals:
        check_takes_goal(f"The policy {policy}", [port.name for port in system.contract.inputs])
    if teleop and options.get("commander"):
        raise UserError("teleop corrects a policy node: leave it out, or --commander.")
    if teleop:
        system = with_human(system, spec)
    if adapt:
        system = with_adaptation(system, spec)
    if agent:
        from rlstack.bringup.agent_process import with_agent  # its grammar takes a fifth of a second to load

        system = with_agent(system, absolute_file(robot), places, model_url, model)
    elif places or model_url or model:
        raise UserError("places, model_url and model are the agent's: give agent, too, or leave them out.")
    if is_simulator(backend) or use_sim_time:
        if not (is_simulator(backend) or backend == TOPICS):
            raise UserError(
                f"use_sim_time is for simulators, and the backend '{backend}' is a real robot, beside which nothing"
                " publishes /clock: leave it out."
            )
        system = on_simulated_time(system)
    if not is_simulator(backend):  # a simulator may need all of the processor, and would stop everything else
        system = with_real_time_priority(system)
    if view:
        system = with_view(system)
    if rviz:
        system = with_rviz(system, absolute_file(robot), frame_prefix=options.get("frame_prefix", ""))
    if record is not None:
        system = with_recorder(system, record)
    system = with_params_file(system, params_file)
    if options.get("commander", "") not in ("", EXTERNAL) and not (force or is_simulator(backend)):
        raise UserError(
            "What a policy server steps cannot be verified: try it in a simulator first, then run it on the real robot"
            " with --force, at first with --tether 0.3."
        )
    if not policy:
        return system
    contract = system.contract or load_policy(policy, robot=spec).contract
    departures = family_departures(contract, spec)
    if changed := changed_numbers(contract.envelope, spec):
        print(f"rlstack: {spec.name} is not the robot of training: {'; '.join(changed)}.", file=sys.stderr)
    if not force:
        system = with_parameters(system, "policy", require_record=True)
        if departures:
            raise UserError(f"{' '.join(departures)} Choose another robot or policy, or run it anyway with --force.")
        any_robot = bool(contract.family) and load_policy(policy).contract.needs_robot
        unnamed = any_robot or robot.endswith((".yaml", ".yml"))
        option = f" --robot {robot}" if unnamed else ""
        verified = require_verification(policy, spec, option, sha256=system.policy_sha256, record=system.record)
        if not contract.envelope:
            raise UserError(
                f"The policy {policy} is {contract.envelope.unproven}. Export it again with `rlstack export RUN` and"
                " verify that file, or run it anyway with --force."
            )
        if alone := only_simulator(verified):
            print(
                f"rlstack: {policy} is verified in one simulator only, {alone}, and may exploit its flaws. Verify it in"
                " another one too.",
                file=sys.stderr,
            )
    return system


def deploy(
    policy: str | Path | None = None,
    robot: str = "",
    backend: str = "mujoco",
    *,
    goal_yaw: float = 0.0,
    no_arm: bool = False,
    dry_run: bool = False,
    seconds: float | None = None,
    force: bool = False,
    json: Path | None = None,
    **options: Any,
) -> int:
    """Run ``policy`` until Ctrl-C or for ``seconds`` of the robots' time; return the exit status.

    Args as in :func:`checked_deployment` and:

    Args:
        goal_yaw: Heading to hold at the goal, rad.
        no_arm: Leave simulators disarmed, and a real robot in a dry run.
        dry_run: Move no actuators; the status lines show what would be sent.
        seconds: Duration, after which a summary is printed.
        json: File for the summary.

    Raises:
        UserError: See :func:`checked_deployment`; or no odometry arrived.
    """
    if seconds is not None and not (math.isfinite(seconds) and seconds > 0.0):
        raise UserError(f"--seconds {seconds} is not allowed: give a number above 0.")
    robot = chosen_robot(policy or "", robot)
    system = checked_deployment(
        policy or "",
        robot,
        backend,
        force=force,
        goal_yaw_rad=goal_yaw,
        auto_arm=False if no_arm else None,
        dry_run=dry_run,
        **options,
    )
    from rlstack.nodes.runtime import prepare_environment

    prepare_environment()
    if system.pursues_goals and not NAV2_MESSAGES.is_installed():
        print(
            "rlstack: goals are taken by topic; the action NavigateToPose needs nav2_msgs: sudo apt install"
            f" ros-jazzy-nav2-msgs with a system ROS 2, or `{NAV2_MESSAGES.command}`.",
            flush=True,
        )
    policies = [process for process in system.processes if "goal_yaw" in process.parameters]
    spaces = [process.namespace for process in system.processes if process.node_name == "guard"]
    deployment = deployment_of(load_robot(robot, sha256=system.robot_sha256))
    monitor = Monitor(spaces, kind_topics(deployment.robot).observed, dry_run=dry_run)
    alive = Liveness(monitor, FIRST_ODOMETRY_S + START_S * (len(spaces) - 1))
    shown, said = time.monotonic(), ""

    supervisor = Supervisor(system)

    def tick() -> bool:
        nonlocal shown, said
        monitor.spin(0.05)
        now = time.monotonic()
        alive.check(needs_time=seconds is not None)
        if now - shown >= _STATUS_PERIOD_S:
            shown = now
            print(monitor.line(), flush=True)
        if (told := monitor.live_check) != said:
            said = told
            if told and not (force or monitor.armed):
                raise UserError(
                    f"Not armed: outside of what the policy is proven for: {told}. Correct the topics, or run it anyway"
                    " with --force."
                )
            if told:
                print(f"rlstack: outside of what the policy is proven for: {told}.", file=sys.stderr, flush=True)
        if policies and not (monitor.armed or {process.name for process in policies} & set(supervisor.alive())):
            return False  # without a policy nothing will move; once armed, the guard continues without it
        return seconds is None or monitor.seconds < seconds

    try:
        status = supervisor.run(tick, done_at_once=is_simulator(backend)).report()
    finally:
        monitor.close()
    if monitor.seen:
        summaries = monitor.summaries()
        alone = len(summaries) == 1
        verb = deployment.VERBS[1]
        for name, summary in summaries.items():
            print(summary.text(verb) if alone else f"{name}: {summary.text(verb)}", flush=True)
        if json is not None:
            data = {name: asdict(summary) for name, summary in summaries.items()}
            write_json(json, next(iter(data.values())) if alone else {"robots": data})
    return status


def simulate(
    robot: str = "crazyflie",
    backend: str = "mujoco",
    *,
    params_file: str | Path = "",
    view: bool = False,
    rviz: bool = False,
    **options: Any,
) -> int:
    """Run simulated robots that wait for commands, until Ctrl-C; return the exit status.

    Args and errors as in :func:`rlstack.bringup.system.simulate_system`.
    """
    system = simulate_system(robot, backend, params_file=params_file, view=view, rviz=rviz, **options)
    spec = load_robot(robot)
    kind, takes = kind_topics(spec), command_of(spec).topic
    for space in robot_group(robot, backend, **options).namespaces:
        print(f"{space}: {kind.observed} and its other sensors; subscribes to {takes}, {topics.RESET}")
    return supervise(system)


def supervise(system: System) -> int:
    """Run ``system`` to its end, print one sentence if it failed, and return the exit status."""
    return Supervisor(system).run().report()
