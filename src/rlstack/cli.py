"""The `rlstack` command line; the layers below are imported only by the command that runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import tyro

from rlstack.bringup.demo_commands import DemoExport, DemoFilter, DemoImport, DemoRecord, DemoReplay, DemoShow
from rlstack.bringup.policy_commands import Policies, Show
from rlstack.bringup.teleop import Teleop
from rlstack.bringup.up_commands import Deploy, Simulate, UpTrain
from rlstack.errors import Diverged, UserError, unknown_name
from rlstack.processes import die_with_starter

_File = Annotated[Path | None, tyro.conf.arg(metavar="FILE")]


@dataclass(frozen=True)
class Verify:
    """Verify policies in held-out trials; write reports and print pass or fail.

    Quadrotors fly from held-out starts with gusts, mass and motor changes; bases drive held-out maps, beside classical
    planners; arms do held-out trials. The trials run in each simulator in process, for statistics, and then over ROS 2
    topics in lock step, through the same policy and guard nodes that are deployed (the batch simulator only in
    process). `rlstack up deploy` requires the record verify.json beside a policy. The exit status is 0 for passed and 1
    for failed.

    With --driver and no policy, a classical planner drives the same maps and gets a report; over topics, its node
    replaces the policy node. --driver astar_policy also takes a policy, which follows the planned paths.
    """

    FLAGS: ClassVar[tuple[Any, ...]] = ()  # --topics and --no-topics

    policy: tyro.conf.Positional[tuple[Path, ...]]
    """The policy file, or the name of a released policy; with several, a table compares them."""
    backends: str = ""
    """Simulators, separated by commas, such as batch,mujoco,pybullet; default: every installed one (with --driver,
    batch)."""
    topics: bool = True
    """Also verify over topics, which deployment requires."""
    episodes: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Trials in each simulator; default: those of a proof within four minutes on two processors, docs/verification.md.
    Too few are not significant."""
    thorough: bool = False
    """Run the large numbers of trials, for smaller intervals; takes several times as long."""
    seed: int = 1
    """Seed of start states and disturbances, or maps."""
    robot: str = ""
    """A robot's name or file; default: the robot that the policy was trained for."""
    drivers: str | None = None
    """Planners to compare a base's policy with, separated by commas, such as dwa,astar_dwa; the first is the reference
    for judging it. Default: those of its task."""
    margins: str | None = None
    """Margins of the reality grid to measure, separated by commas, such as observation_delay_s,mass_scale, or none;
    default: all, which passing requires."""
    driver: str = ""
    """A planner to verify instead of a policy, such as astar_dwa."""
    task: str = "base_navigation"
    """The task whose maps --driver drives."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """The report's folder; left out, it is the policy's folder."""
    json: _File = None
    """Write the figures to this file as well."""

    def run(self) -> int:
        """Verify, write the report, and print the figures."""
        from rlstack.bringup.progress_lines import ProgressLines
        from rlstack.bringup.verify import verify_all, verify_planner
        from rlstack.files import write_json

        leads = self.driver == "astar_policy"
        if leads and len(self.policy) != 1:
            raise UserError("astar_policy needs a policy: rlstack verify POLICY --driver astar_policy.")
        if not leads and bool(self.policy) == bool(self.driver):
            raise UserError(
                "Give a policy or --driver, one of the two: rlstack verify POLICY, such as"
                " runs/quadrotor_hover-001/policy.onnx."
            )
        named = _names(self.backends)
        common: dict[str, Any] = {"episodes": self.episodes, "seed": self.seed, "out": self.out}
        lines = ProgressLines()
        common |= {"robot": self.robot, "on_progress": lines, "backends": named if self.backends else None}
        verified: Any
        if self.driver:
            led = str(self.policy[0]) if leads else ""
            verified = verify_planner(self.driver, policy=led, task=self.task, topics=self.topics, **common)
        else:
            drivers = None if self.drivers is None else _names(self.drivers)
            margins = None if self.margins is None else _names(self.margins)
            common |= {"topics": self.topics, "thorough": self.thorough, "margins": margins}
            verified = verify_all(self.policy, drivers=drivers, **common)
        lines.end()
        print(verified.table())
        if self.json is not None:
            write_json(self.json, verified.as_data())
        return 130 if verified.incomplete else 0 if verified.passed else 1


@dataclass(frozen=True)
class Fly:
    """Train a recipe, verify its policy in simulation and over ROS 2 topics, and suggest the next commands."""

    recipe: tyro.conf.Positional[str] = "quadrotor_hover"
    """A training recipe's name or file."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """The run's folder, which must not exist yet; left out, the next free one under runs/."""
    seed: Annotated[int | None, tyro.conf.arg(metavar="SEED")] = None
    """Seed of training; default: the recipe's."""
    json: _File = None
    """Write the verification's figures to this file as well."""

    def run(self) -> int:
        """Train, verify and print."""
        from rlstack.bringup.fly import fly

        return fly(self.recipe, out=self.out, seed=self.seed, json=self.json)


@dataclass(frozen=True)
class Rviz:
    """Write an RViz configuration for a robot: its model, frames, sensors, goal, path and world.

    config/rviz holds those of the robots that ship, with the robot's name as the namespace.
    """

    robot: tyro.conf.Positional[str] = "crazyflie"
    """A robot's name or file."""
    namespace: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Of the robot's topics; left out, it is the robot's name."""
    frame_prefix: str = ""
    """Prefix of its frames, if several robots share a world."""
    out: _File = None
    """Output file; default: standard output."""

    def run(self) -> int:
        """Write or print the configuration."""
        from rlstack.bringup.rviz import rviz_config
        from rlstack.files import write_atomically
        from rlstack.robots import load_robot

        text = rviz_config(load_robot(self.robot), self.namespace, self.frame_prefix)
        if self.out is None:
            print(text, end="")
        else:
            write_atomically(self.out, text, what="the RViz configuration")
            print(f"Show it with: rviz2 -d {self.out}")
        return 0


@dataclass(frozen=True)
class Model:
    """Show a robot's mass, inertia and joints; write its URDF or MJCF; or check a model file against the robot file.

    URDF is for RViz, PyBullet and Isaac Sim, MJCF for MuJoCo. A model that differs from its robot file is refused: the
    message names the part, both values and the tolerance.
    """

    robot: tyro.conf.Positional[str]
    """A robot's name or file."""
    format: Literal["urdf", "mjcf"] = "urdf"
    """Format of the model."""
    rotors: Literal["continuous", "fixed", "none"] = "continuous"
    """Rotors in a quadrotor's URDF: rotating links, frames, or visuals only."""
    prefix: str = ""
    """Prefix of the names in a URDF."""
    out: _File = None
    """Output file of the model; default: only check it."""
    check: _File = None
    """A URDF or MJCF (.xml) of this robot to check against its robot file."""

    def run(self) -> int:
        """Check, write and print."""
        from rlstack.robots import load_robot
        from rlstack.robots.model_table import show_model

        options = {name: getattr(self, name) for name in ("rotors", "prefix", "out", "check")}
        print(show_model(load_robot(self.robot), form=self.format, **options))
        return 0


@dataclass(frozen=True)
class World:
    """Describe a world; draw its map; write it for Gazebo. Without a name, list the worlds."""

    name: tyro.conf.Positional[str] = ""
    """Such as warehouse, warehouse:7 for its seed 7, or a world file (.yaml)."""
    map: _File = None
    """Write a map, seen from above, to this file (PNG)."""
    sdf: _File = None
    """Write the world as SDF to this file."""

    def run(self) -> int:
        """Print, draw, write."""
        from rlstack.files import write_atomically
        from rlstack.sim.world import load_world, world_names
        from rlstack.sim.world_export import to_sdf
        from rlstack.verification.world_map import describe_world, draw_world

        if not self.name:
            print("\n".join(world_names()))
            return 0
        world = load_world(self.name)
        print(describe_world(world))
        if self.map is not None:
            write_atomically(self.map.expanduser(), draw_world(world))
        if self.sdf is not None:
            write_atomically(self.sdf.expanduser(), to_sdf(world))
        return 0


@dataclass(frozen=True)
class Doctor:
    """Check the installation: what is missing, what it is for, and how to install it.

    The exit status is 1 only if a core part is missing or does not work.
    """

    json: _File = None
    """Write the findings to this file as well."""

    def run(self) -> int:
        """Check every part and print the table."""
        from rlstack.bringup.doctor import diagnose
        from rlstack.files import write_json

        diagnosis = diagnose()
        print(diagnosis.table())
        if self.json is not None:
            write_json(self.json, diagnosis.as_data())
        return diagnosis.status


@dataclass(frozen=True)
class Bench:
    """Measure the speed of simulation, training and inference on this machine, and of installed peer projects.

    Takes a few minutes on one core. It trains `quadrotor_hover` twice, in a temporary folder; each part runs in its own
    process. docs/benchmarks.md explains the method and the columns.
    """

    seed: int = 0
    """Of training."""
    device: str = "cpu"
    """Device of simulation and training: cpu or cuda."""
    quick: bool = False
    """Smoke test in seconds; the figures mean nothing."""
    json: _File = None
    """Also write the figures to this file, after each part, so that Ctrl-C keeps the results so far."""

    def run(self) -> int:
        """Measure and print the table."""
        from rlstack.bringup.bench import bench
        from rlstack.bringup.bench_table import describe_bench

        def say(part: str, done: int, count: int) -> None:
            print(f"measuring {part} ({done + 1} of {count})", file=sys.stderr, flush=True)

        print(describe_bench(bench(**asdict(self), on_progress=say)))
        return 0


def _train(arguments: list[str]) -> int:
    from rlstack.bringup.teleop import teleop_device
    from rlstack.training.command import train_command

    return train_command(arguments, teleop_device)


def _export(arguments: list[str]) -> int:
    from rlstack.training.command import export_command

    return export_command(arguments)


@dataclass(frozen=True)
class Verb:
    """One entry of `rlstack --help`: a dataclass of options with ``run``, or a function that reads them itself."""

    summary: str
    action: type | Callable[[list[str]], int]


VERBS: dict[str, Verb] = {
    "fly": Verb("train a policy, verify it and report, in one command", Fly),
    "train": Verb("train a policy by a recipe, or resume a run", _train),
    "export": Verb("export the policy file of a training run again", _export),
    "show": Verb("print a policy file's contract", Show),
    "policies": Verb("list the released policies, which are given by name", Policies),
    "verify": Verb("verify a policy in held-out trials and write a report", Verify),
    "up deploy": Verb("start a robot and a verified policy, or a planner, over ROS 2 topics", Deploy),
    "up simulate": Verb("start simulated robots that wait for commands on their ROS 2 topics", Simulate),
    "up train": Verb("train as a ROS 2 node, then run the new policy", UpTrain),
    "teleop": Verb("teleoperate an arm: keyboard, gamepad, SpaceMouse, leader arm", Teleop),
    "demo record": Verb("record demonstrations of a manipulation task: by its expert, a policy or by hand", DemoRecord),
    "demo show": Verb("describe a dataset", DemoShow),
    "demo replay": Verb("replay a demonstration and report its deviation", DemoReplay),
    "demo filter": Verb("find demonstrations that conflict with the others", DemoFilter),
    "demo import": Verb("convert ROS 2 bags into a dataset", DemoImport),
    "demo export": Verb("write a demonstration into a ROS 2 bag", DemoExport),
    "model": Verb("show a robot's mass and joints, write its URDF or MJCF, check a model file", Model),
    "world": Verb("describe a world, draw its map, write it for Gazebo", World),
    "rviz": Verb("write an RViz configuration for a robot", Rviz),
    "bench": Verb("measure the speed of simulation, training and inference on this machine", Bench),
    "doctor": Verb("check the installation: what is missing, and how to install it", Doctor),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit status: 2 for user errors, 130 for Ctrl-C."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    die_with_starter()
    try:
        status = _dispatch(words)
        sys.stdout.flush()
        return status
    except (UserError, Diverged) as error:
        return _complain(str(error))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `rlstack show ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except ModuleNotFoundError as error:
        if (error.name or "rlstack").startswith("rlstack"):
            raise
        return _complain(f"This needs '{error.name}', which is not installed: `rlstack doctor` says how to get it.")


def _dispatch(words: list[str]) -> int:
    if not words:
        print(_help(), file=sys.stderr)
        return 2
    if words[0] in ("-h", "--help"):
        print(_help())
        return 0
    if words[0] == "--version":
        print(f"rlstack {_version()}")
        return 0
    for count in (2, 1):
        name, rest = " ".join(words[:count]), words[count:]
        if name in VERBS:
            action = VERBS[name].action
            if isinstance(action, type):
                chosen: Any = tyro.cli(
                    action,
                    args=rest,
                    prog=f"rlstack {name}",
                    config=getattr(action, "FLAGS", (tyro.conf.FlagCreatePairsOff,)),
                )
                return int(chosen.run())
            return action(rest)
    group = [name for name in VERBS if name.startswith(words[0] + " ")]
    if group and (len(words) == 1 or words[1] in ("-h", "--help")):
        print(_help(words[0]))
        return 0 if len(words) > 1 else 2
    wrong = " ".join(words[: 2 if group else 1])
    raise unknown_name("command", wrong, VERBS)


def _help(group: str = "") -> str:
    shown = {name: verb.summary for name, verb in VERBS.items() if name.startswith(group)}
    width = max(map(len, shown))
    lines = [f"usage: rlstack {group + ' ' if group else ''}<command> [options]", ""]
    if not group:
        lines += ["Train, verify and run robot policies over ROS 2.", ""]
    lines += [f"  {name:<{width}}  {summary}" for name, summary in shown.items()]
    lines += [
        "",
        "`rlstack <command> --help` explains one command; `rlstack --version` prints the version.",
    ]
    return "\n".join(lines)


def _version() -> str:
    try:
        return version("rlstack")
    except PackageNotFoundError:
        return "(not installed, run from its sources)"


def _complain(sentence: str) -> int:
    print(f"rlstack: {sentence}", file=sys.stderr)
    return 2


def _names(given: str) -> tuple[str, ...]:
    """Split a comma-separated list."""
    return tuple(filter(None, (name.strip() for name in given.split(","))))


if __name__ == "__main__":
    sys.exit(main())
