"""`rlstack teleop`: read a device in this terminal, and start the nodes by which it moves an arm."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from rlstack.bringup.node_process import Parameter, Process, System, on_simulated_time
from rlstack.bringup.view_process import with_view
from rlstack.errors import UserError, unknown_name
from rlstack.nodes.shutdown import shut_down
from rlstack.view.watching import view_wanted

if TYPE_CHECKING:
    from rlstack.robots import RobotSpec


@dataclass(frozen=True)
class Teleop:
    """Teleoperate an arm: publish teleop/twist and teleop/intervene, and convert them to joint targets.

    The targets go through the guard on policy/cmd/joints, like a policy's. With --backend the arm and its guard are
    started too; otherwise they run elsewhere. With --policy, the policy moves the arm while the operator does not.
    """

    robot: str = "panda"
    """An arm's name or file."""
    device: str = "keyboard"
    """The input device: keyboard, gamepad, joy, spacemouse, leader:FILE or script:FILE."""
    namespace: str = ""
    """Namespace of the robot's topics; default: the robot's name, or / with --backend topics, as in `rlstack up
    deploy`."""
    backend: str = ""
    """Start the arm in this simulator, such as mujoco, with its guard; topics: only the guard, in front of a real arm's
    driver; default: both run already."""
    policy: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """A policy that moves the arm while nobody intervenes (needs a simulator as --backend; a real arm needs a verified
    policy: rlstack up deploy --teleop)."""
    world: str = ""
    """The policy's world, such as table.yaml, with the object that it handles; default: a bare floor."""
    goal: Annotated[tuple[float, float, float] | None, tyro.conf.arg(metavar="X Y Z")] = None
    """Goal of the policy's tool or object, from the arm's base, m; the topic goal changes it. Default: the tool's rest
    position."""
    speed_m_s: float = 0.2
    """The tool's speed at full stroke, m/s."""
    turn_rad_s: float = 0.8
    """The tool's rotation rate at full stroke, rad/s."""
    remap: tuple[str, ...] = ()
    """With --backend topics: the driver's topic names, each ours:=theirs, such as
    cmd/joints:=forward_position_controller/commands."""
    cmd_joints_type: Literal["JointTrajectory", "Float64MultiArray"] = "JointTrajectory"
    """With --backend topics: the driver's message type on cmd/joints."""
    view: bool = False
    """Show the arm in a browser, whose address is printed, where its tool can be dragged, too; default: if a person
    sits at the terminal, and --backend starts the arm."""
    no_view: bool = False
    """Show nothing in a browser."""
    only_device: bool = False
    """Only publish the device's input; another node moves the arm."""

    def run(self) -> int:
        """Run until the operator stops."""
        from rlstack.bringup.robot_group import absolute_file

        system = teleop_system(self)
        if self.backend and view_wanted(self.view, self.no_view):
            system = with_view(system)
        if self.device == "keyboard":
            print("Keys work while this terminal has the focus.")
        parameters = {name: getattr(self, name) for name in ("device", "speed_m_s", "turn_rad_s")}
        return _run(system, {**parameters, "robot": absolute_file(self.robot)}, _namespace(self))


def teleop_system(given: Teleop) -> System:
    """Describe the processes that run beside the device.

    Raises:
        UserError: The robot is not a single arm, or the options do not match.
    """
    from rlstack.bringup.robot_group import TOPICS, absolute_file, is_simulator, robot_group
    from rlstack.bringup.system import deploy_system, remapped
    from rlstack.control.teleoperation import require_single_arm
    from rlstack.nodes.kind_topics import teleoperated
    from rlstack.policies import load_policy
    from rlstack.robots import load_robot

    spec = teleoperated(load_robot(given.robot), "--robot panda")
    space, file = _namespace(given), absolute_file(given.robot)
    require_single_arm(spec)
    if given.backend != TOPICS and (given.remap or given.cmd_joints_type != "JointTrajectory"):
        raise UserError("--remap and --cmd-joints-type are for a real arm's driver: give --backend topics as well.")
    remappings = remapped(given.remap)
    if given.only_device:
        if given.backend:
            raise UserError("--only-device starts no arm: leave out --backend, or --only-device.")
        return System(name="teleop", processes=())
    if given.policy is not None:
        if not (given.backend and is_simulator(given.backend)):
            raise UserError(
                "A policy needs a simulator as --backend, such as mujoco. To correct one that moves a real arm, start"
                f" it with `rlstack up deploy --teleop --robot {given.robot} --policy {given.policy}`, and here give"
                " --only-device."
            )
        load_policy(given.policy, robot=spec)  # its node would report errors only once the arm runs
        options: dict[str, Any] = {"world": given.world, "goal": given.goal, "namespace": given.namespace}
        corrected = with_human(deploy_system(given.policy, given.robot, given.backend, **options), spec)
        return on_simulated_time(replace(corrected, name="teleop"))
    if given.world or given.goal is not None:
        raise UserError("--world and --goal apply only to a policy: leave them out, or give --policy.")
    processes = [
        Process(
            name="teleop_arm",
            module="rlstack.nodes.teleop_arm",
            namespace=space,
            parameters={"robot": file, "with_policy": False},
            remappings=remappings,
            why="without it no input reaches the joints",
        )
    ]
    if given.backend:
        group = robot_group(given.robot, given.backend, namespace=given.namespace)
        arm = () if group.process is None else (replace(group.process, why="without the arm there is nothing to move"),)
        guard: dict[str, Parameter] = {
            "robot": file,
            "auto_arm": is_simulator(given.backend),
            "cmd_joints_type": given.cmd_joints_type,
        }
        processes = [
            *arm,
            Process(
                name="guard",
                module="rlstack.nodes.guard",
                namespace=space,
                parameters=guard,
                remappings=remappings,
                why="nothing may move without the guard",
            ),
            *processes,
        ]
    system = System(name="teleop", processes=tuple(processes))
    return on_simulated_time(system) if given.backend and is_simulator(given.backend) else system


def with_human(system: System, robot: RobotSpec) -> System:
    """Return a deployment in which the publisher of ``teleop/twist`` and ``teleop/intervene`` corrects the policies.

    Args:
        system: The deployment of :func:`rlstack.bringup.system.deploy_system`.
        robot: The robot.

    Raises:
        UserError: The robot is not a single arm, or the simulation runs in lock step, which an operator cannot follow.
    """
    from rlstack.control.teleoperation import require_single_arm
    from rlstack.interfaces import topics
    from rlstack.interfaces.topics import POLICY_ALONE
    from rlstack.nodes.frames import FRAME_PARAMETERS
    from rlstack.nodes.kind_topics import kind_topics

    if not kind_topics(robot).TELEOPERATED:
        raise UserError(f"teleop is for arms, and {robot.name} is a {robot.kind}: leave it out.")
    require_single_arm(robot)  # type: ignore[arg-type]
    processes: list[Process] = []
    for process in system.processes:
        if process.node_name != "policy":
            processes.append(process)
            continue
        if process.parameters.get("lock_step"):
            raise UserError(
                "teleop and lock step exclude each other, since a human needs real time: leave one of them out."
            )
        own = (topics.POLICY_PREFIX + topics.JOINT_COMMAND, POLICY_ALONE)
        named = [parameter.name for parameter in FRAME_PARAMETERS]
        frames = {name: process.parameters[name] for name in named if name in process.parameters}
        processes.append(replace(process, remappings=(*process.remappings, own)))
        processes.append(
            Process(
                name=process.name.removesuffix("policy") + "teleop_arm",
                node="teleop_arm",
                module="rlstack.nodes.teleop_arm",
                namespace=process.namespace,
                parameters={"robot": process.parameters["robot"], "with_policy": True, **frames},
                remappings=process.remappings,
                when_it_ends="let the rest go on",
                why="the policy's commands are no longer forwarded: the guard holds the arm and then parks it",
            )
        )
    return replace(system, processes=tuple(processes))


def teleop_device(spec: str, robot: Any, motion: Any, namespace: str = "") -> Any:
    """Return an arm's teleoperation device, not yet opened; see :class:`rlstack.hardware.devices.Device`.

    Args:
        spec: ``NAME`` or ``NAME:WHERE``, or ``topic``.
        robot: The arm.
        motion: Full speed: ``speed_m_s`` and ``yaw_rate_rad_s``.
        namespace: Namespace of the topics; empty: the robot's name.

    Raises:
        UserError: The device is unknown, or its argument is invalid.
    """
    from rlstack.hardware.devices import DEVICES, device_called

    if spec == "topic":
        from rlstack.nodes.teleop_topics import TopicDevice

        return TopicDevice(namespace or robot.name, motion)
    name = spec.partition(":")[0]
    if name not in DEVICES.names():
        here = [known for known in DEVICES.names() if getattr(DEVICES.load(known), "topic", None) is None]
        raise unknown_name(DEVICES.kind, name, [*here, "topic"])
    device = device_called(spec, robot)
    if getattr(device, "topic", None) is not None:
        raise UserError(
            f"The device {spec} publishes over ROS: run rlstack teleop --device {spec} --only-device, and give topic as"
            " the device here."
        )
    return device


def _run(system: System, parameters: Mapping[str, Any], space: str) -> int:
    """Read the device in this process, whose terminal it may need, and supervise the others."""
    from rlstack.nodes.runtime import prepare_environment, require_ros, run_nodes

    require_ros()
    if not system.processes:
        from rlstack.nodes.teleop import TeleopNode

        return run_nodes(lambda: TeleopNode(dict(parameters), namespace=space), [])
    prepare_environment()
    import rclpy
    from rclpy.parameter import Parameter as RosParameter
    from rclpy.signals import SignalHandlerOptions

    from rlstack.bringup.supervisor import Supervisor
    from rlstack.nodes.executor import ControlExecutor
    from rlstack.nodes.teleop import TeleopNode

    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    beside = {process.name for process in system.processes}
    executor = ControlExecutor()
    simulated = any(process.parameters.get("use_sim_time") for process in system.processes)
    clock = [RosParameter("use_sim_time", value=simulated)]
    node = TeleopNode(dict(parameters), ends_process=False, beside=beside, namespace=space, parameter_overrides=clock)
    executor.add_node(node)
    try:
        node.start()

        def tick() -> bool:
            until = time.monotonic() + 0.05
            executor.spin_while(lambda: time.monotonic() < until and not node.stopped)
            if node.stopped:
                node.stop()  # release control while the others still run
            return not node.stopped

        return Supervisor(system).run(tick).report()
    finally:
        node.stop()
        executor.shutdown()
        shut_down(node)


def _namespace(given: Teleop) -> str:
    from rlstack.bringup.robot_group import TOPICS, checked_namespace
    from rlstack.robots import load_robot

    return checked_namespace(given.namespace or ("" if given.backend == TOPICS else load_robot(given.robot).name))
