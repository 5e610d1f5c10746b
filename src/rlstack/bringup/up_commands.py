"""The `rlstack up` commands: options and entry points."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from rlstack.errors import UserError
from rlstack.view.watching import view_wanted

_File = Annotated[Path | None, tyro.conf.arg(metavar="FILE")]
_Goal = Annotated[tuple[float, ...] | None, tyro.conf.arg(metavar="X Y [Z]")]


@dataclass(frozen=True)
class Deploy:
    """Start one or several robots, each with a guard and a verified policy, and print the status once a second.

    Ctrl-C lands or stops the robot and ends everything; another Ctrl-C switches it off at once. Simulators are armed at
    once; a real robot waits for its `arm` service.
    """

    policy: _File = None
    """The policy file, or the name of a released policy (`rlstack policies`)."""
    driver: str = ""
    """A planner that drives a wheeled base instead of the policy, such as astar_dwa or dwa."""
    commander: str = ""
    """What commands instead of a policy file: external (a program that publishes under policy/, such as LeRobot), or a
    policy server, lerobot://HOST:PORT?pretrained=FOLDER&type=act."""
    robot: str = ""
    """A robot's name or file; default: the policy's; of a policy for a family, and without a policy, crazyflie."""
    backend: str = "mujoco"
    """The backend behind the topics: a simulator, a real robot, or topics: the robot's own driver provides them."""
    uri: str = ""
    """Where the driver of a real robot finds it, such as serial:///dev/ttyACM0?baud=1000000."""
    world: str = ""
    """World, such as warehouse or warehouse:7, or a file; task or task:7: that of a trial of the policy's own task
    (simulators only); default: a bare floor."""
    count: int = 1
    """Number of robots that share the world (simulators only)."""
    namespace: str = ""
    """Namespace of the robot's topics; default: the robot's name. Several robots have namespaces of their own in it."""
    frame_prefix: str = ""
    """Prefix of the robot's frames, such as cf1/, so that robots of several simulations can share /tf."""
    goal: _Goal = None
    """Where to hover (x y z) or drive (x y), m, in the frame `odom`; with several robots, relative to each start. For
    an arm, the goal of its tool or object (x y z), from its base. Default: 1 m above the start; for a base the world's
    goal or its start; for an arm the tool's rest position."""
    goal_yaw: float = 0.0
    """Heading to hold at the goal, rad."""
    instruction: str = ""
    """What a policy that follows instructions is to do, such as "push the red block to the left"; the topic
    `instruction` changes it. Default: it waits for the topic."""
    area: Annotated[tuple[float, float, float, float] | None, tyro.conf.arg(metavar="X Y X Y")] = None
    """The area that a base explores, corners in the frame `odom`, m; default: the world's floor, or an area around the
    origin as large as in training."""
    real_time_factor: float = 1.0
    """Simulated seconds per second (simulators only)."""
    lock_step: bool = False
    """Let time wait for every command: deterministic, and faster than real time (simulators only)."""
    noise_seed: int = 0
    """Seed of the simulated sensors' noise."""
    fallback: str = "stop"
    """What drives a base when the policy cannot: stop, or a planner such as dwa."""
    with_map: bool = False
    """Start the map node of a base too."""
    people: Literal["scan", "topic"] = "scan"
    """Source of people for a base's policy or planner: scan: the people node, which is then started, tracks them;
    topic: another node publishes `people`."""
    odometry: Literal["", "pose", "flow"] = ""
    """Estimate a quadrotor's odometry from its IMU and pose (external_pose of a motion capture) or flow (flow and
    range); simulators publish these sensors, too. Default: the robot publishes odometry."""
    remap: tuple[str, ...] = ()
    """Topic remappings, each ours:=theirs, such as cmd_vel:=platform/cmd_vel."""
    cmd_vel_type: Literal["TwistStamped", "Twist"] = "TwistStamped"
    """Message type of a base's cmd_vel."""
    cmd_joints_type: Literal["JointTrajectory", "Float64MultiArray"] = "JointTrajectory"
    """Message type of an arm's cmd/joints."""
    scan_frame: str = ""
    """Another frame name in the headers of a base's scans."""
    zero_is_far: bool = False
    """Whether the driver of a base's lidar reports 0 for no return."""
    use_sim_time: bool = False
    """Let the nodes' clocks follow /clock, beside another simulator (backend topics); beside those of rlstack they
    always do."""
    params_file: Annotated[str, tyro.conf.arg(metavar="FILE")] = ""
    """A ROS 2 parameters file for the nodes, such as tighter limits of the guard."""
    teleop: bool = False
    """Let an operator correct an arm's policy: with rlstack teleop --only-device, or any publisher of teleop/twist and
    teleop/intervene."""
    adapt: bool = False
    """Adapt a quadrotor's policy in flight: measure what the robot is now, such as with a payload, learn for that,
    prove it, and swap it in."""
    agent: bool = False
    """Start the agent, too: it takes sentences on agent/sentence, and has the robot do what they say."""
    places: Annotated[str, tyro.conf.arg(metavar="FILE")] = ""
    """The agent's named places, a YAML file."""
    model_url: Annotated[str, tyro.conf.arg(metavar="URL")] = ""
    """OpenAI-compatible endpoint of a language model that plans for the agent, such as http://localhost:8000/v1;
    default: a grammar plans."""
    model: str = ""
    """The model's name there."""
    view: bool = False
    """Show the robots in a browser, whose address is printed; default: if a person sits at the terminal."""
    no_view: bool = False
    """Show nothing in a browser."""
    rviz: bool = False
    """Show the robot, of several the first, in RViz."""
    record: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="[FOLDER]")] = None
    """Record the robots into this folder, which must not exist yet, or with --record alone into recordings/ and the
    time; see `rlstack record`."""
    no_arm: bool = False
    """Leave simulators disarmed, too."""
    dry_run: bool = False
    """Everything but the actuators: driver, policy and guard run, and the commands are shown and not sent."""
    tether: Annotated[float, tyro.conf.arg(metavar="SHARE")] = 1.0
    """For first tries: limit the guard's speeds, accelerations and geofence to this share of the robot's, such as
    0.3."""
    seconds: Annotated[float | None, tyro.conf.arg(metavar="SECONDS")] = None
    """End after this many seconds of the robot's time and print a summary."""
    force: bool = False
    """Run the policy without a passing verification."""
    json: _File = None
    """Write the summary to this file as well."""

    def run(self) -> int:
        """Check everything, start the system, and supervise it."""
        from rlstack.bringup.deploy import deploy

        options = asdict(self)
        options["view"] = view_wanted(self.view, options.pop("no_view"))
        if self.record is not None and len(self.record) > 1:
            raise UserError(f"--record takes one folder, and there are {len(self.record)}: {', '.join(self.record)}.")
        return deploy(**{**options, "record": None if self.record is None else "".join(self.record)})


@dataclass(frozen=True)
class Simulate:
    """Start simulated robots that wait for your commands on their topics; no policy, and no guard.

    Ctrl-C ends it.
    """

    robot: str = "crazyflie"
    """A robot's name or file."""
    backend: str = "mujoco"
    """The simulator."""
    world: str = ""
    """World, such as warehouse or warehouse:7, or a file; default: a bare floor."""
    count: int = 1
    """Number of robots that share the world."""
    namespace: str = ""
    """Namespace of the robot's topics; default: the robot's name. Several robots have namespaces of their own in it."""
    frame_prefix: str = ""
    """Prefix of the robot's frames, such as cf1/, so that robots of several simulations can share /tf."""
    start_height_m: float = 0.0
    """Start in the air, hovering, m."""
    real_time_factor: float = 1.0
    """Simulated seconds per second."""
    lock_step: bool = False
    """Let time wait for every command."""
    noise_seed: int = 0
    """Seed of the simulated sensors' noise."""
    view: bool = False
    """Show the robots in a browser, whose address is printed; default: if a person sits at the terminal."""
    no_view: bool = False
    """Show nothing in a browser."""
    rviz: bool = False
    """Show the robot, of several the first, in RViz."""
    params_file: Annotated[str, tyro.conf.arg(metavar="FILE")] = ""
    """A ROS 2 parameters file for the nodes, such as tighter limits of the guard."""

    def run(self) -> int:
        """Check everything, start the robots, and supervise them."""
        from rlstack.bringup.deploy import simulate

        options = asdict(self)
        options["view"] = view_wanted(self.view, options.pop("no_view"))
        return simulate(**options)


@dataclass(frozen=True)
class UpTrain:
    """Train with a node that publishes its progress, verify the new policy, and run it in a simulator if it passed."""

    recipe: tyro.conf.Positional[str] = "quadrotor_hover"
    """A training recipe's name or file."""
    out: str = ""
    """The run's folder, which must not exist yet; default: the next free runs/<recipe>-NNN."""
    seed: int | None = None
    """Seed of training; default: the recipe's."""
    set: tuple[str, ...] = ()
    """More recipe fields, each field=value."""
    no_fly: bool = False
    """End after training."""
    robot: str = ""
    """The robot to run afterwards: a name or file; default: the recipe's."""
    backend: str = "mujoco"
    """The simulator to run it in afterwards."""
    world: str = ""
    """World to run it in afterwards, such as warehouse:7; default: a bare floor."""
    namespace: str = ""
    """Namespace of the robot's topics; default: the robot's name."""
    goal: _Goal = None
    """Where to hover (x y z) or drive (x y) afterwards, m, in the frame `odom`."""
    params_file: Annotated[str, tyro.conf.arg(metavar="FILE")] = ""
    """A ROS 2 parameters file for the nodes of that run, such as tighter limits of the guard."""
    force: bool = False
    """Run the new policy without verifying it."""

    def run(self) -> int:
        """Start the system and supervise it."""
        from rlstack.bringup.deploy import supervise
        from rlstack.bringup.train import train_system

        options = asdict(self)
        overrides, fly = options.pop("set"), not options.pop("no_fly")
        return supervise(train_system(overrides=overrides, fly=fly, **options))
