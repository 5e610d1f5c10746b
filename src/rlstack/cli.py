"""The `rlstack` command line. A verb's module is imported only when it runs: an emergency stop waits for no other."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rlstack.errors import Diverged, UserError, unknown_name
from rlstack.processes import die_with_starter


class Verb(NamedTuple):
    """One entry of `rlstack --help`."""

    summary: str
    place: str
    """The action as ``module:name``, the module within ``rlstack``."""

    @property
    def action(self) -> type | Callable[[list[str]], int]:
        """A dataclass of options with ``run``, or a function that reads them itself."""
        module, _, name = self.place.partition(":")
        found: type | Callable[[list[str]], int] = getattr(importlib.import_module(f"rlstack.{module}"), name)
        return found


VERBS: dict[str, Verb] = {
    "fly": Verb("train a policy, verify it and report, in one command", "bringup.verify_commands:Fly"),
    "train": Verb("train a policy by a recipe, or resume a run", "bringup.train_commands:train"),
    "sweep": Verb(
        "train a recipe with other settings and several seeds, and test the best", "bringup.sweep.command:Sweep"
    ),
    "export": Verb(
        "export the policy of a training run again, or a policy file as C or LEAPP", "bringup.train_commands:export"
    ),
    "runs list": Verb("list training runs", "bringup.runs_commands:RunsList"),
    "runs compare": Verb("compare training runs over seeds, with intervals", "bringup.runs_commands:RunsCompare"),
    "runs plot": Verb("plot learning curves or profiles over seeds, with intervals", "bringup.runs_commands:RunsPlot"),
    "runs export": Verb(
        "write every figure to a Parquet file, with versions and cost", "bringup.runs_commands:RunsExport"
    ),
    "import": Verb(
        "make a policy file of a policy from elsewhere: rsl_rl, stable-baselines3",
        "bringup.import_command:Import",
    ),
    "show": Verb("print a policy file's contract", "bringup.policy_commands:Show"),
    "policies": Verb("list the released policies, which are given by name", "bringup.policy_commands:Policies"),
    "verify": Verb("verify a policy in held-out trials and write a report", "bringup.verify_commands:Verify"),
    "up deploy": Verb(
        "start a robot and a verified policy, or a planner, over ROS 2 topics", "bringup.up_commands:Deploy"
    ),
    "up simulate": Verb(
        "start simulated robots that wait for commands on their ROS 2 topics", "bringup.up_commands:Simulate"
    ),
    "view": Verb("show the robots of the ROS domain in a browser, and command them there", "bringup.view_command:View"),
    "bringup": Verb("walk through a real robot's checklist, and record it", "bringup.checklist.command:Bringup"),
    "sitl": Verb("run an autopilot's own firmware with a simulated airframe, to try its driver", "bringup.sitl:Sitl"),
    "up train": Verb("train as a ROS 2 node, then run the new policy", "bringup.up_commands:UpTrain"),
    "drill": Verb(
        "inject faults into a deployed system in a simulator, and judge the guard's answers",
        "bringup.drill.command:Drill",
    ),
    "estop": Verb(
        "switch the motors off: of all robots in the ROS domain, or of one", "bringup.robot_commands.estop:estop"
    ),
    "arm": Verb("arm a robot", "bringup.robot_commands.arming:Arm"),
    "disarm": Verb("disarm a robot", "bringup.robot_commands.arming:Disarm"),
    "goto": Verb("send a robot to a goal, and follow it", "bringup.robot_commands.goto:Goto"),
    "agent": Verb("have a robot do what a sentence says", "bringup.robot_commands.agent:Agent"),
    "status": Verb("show the state of all robots in the ROS domain", "bringup.robot_commands.status:Status"),
    "teleop": Verb("teleoperate an arm: keyboard, gamepad, SpaceMouse, leader arm", "bringup.teleop:Teleop"),
    "record": Verb("record the robots of the ROS domain into a bag", "bringup.record_commands:Record"),
    "play": Verb("play a bag on its topics", "bringup.record_commands:Play"),
    "explain": Verb("say why a recorded robot did what it did", "bringup.explain.command:Explain"),
    "info": Verb("describe a bag, also one that is damaged", "bringup.record_commands:Info"),
    "identify": Verb(
        "find a robot's parameters from recordings, and write a new robot file",
        "bringup.identify_command:Identify",
    ),
    "excite": Verb(
        "fly the motion that tells most of a robot's numbers, and record it", "bringup.excite.command:Excite"
    ),
    "loop": Verb("fly, record, identify, fine-tune, prove, and fly again, with a report", "bringup.loop.command:Loop"),
    "demo record": Verb(
        "record demonstrations of a manipulation task: by its expert, a policy or by hand",
        "bringup.demo_commands:DemoRecord",
    ),
    "demo show": Verb("describe a dataset", "bringup.demo_commands:DemoShow"),
    "demo replay": Verb("replay a demonstration and report its deviation", "bringup.demo_commands:DemoReplay"),
    "demo filter": Verb("find demonstrations that conflict with the others", "bringup.demo_commands:DemoFilter"),
    "demo import": Verb("convert ROS 2 bags into a dataset", "bringup.demo_commands:DemoImport"),
    "demo export": Verb("write a demonstration into a ROS 2 bag", "bringup.demo_commands:DemoExport"),
    "init": Verb("write a workspace of your own: robot, task, recipe, launch file", "bringup.scaffold.commands:Init"),
    "new robot": Verb("write a robot file to start from", "bringup.scaffold.commands:NewRobot"),
    "new task": Verb("write a task to start from", "bringup.scaffold.commands:NewTask"),
    "new recipe": Verb("write a recipe to start from", "bringup.scaffold.commands:NewRecipe"),
    "model": Verb(
        "show a robot's mass and joints, write its URDF or MJCF, check a model file", "bringup.model_commands:Model"
    ),
    "world": Verb("describe a world, draw its map, write it for Gazebo", "bringup.model_commands:World"),
    "rviz": Verb("write an RViz configuration or Foxglove layout for a robot", "bringup.model_commands:Rviz"),
    "bench": Verb(
        "measure the speed of simulation, training and inference on this machine", "bringup.installation_commands:Bench"
    ),
    "bench agent": Verb("score the agent's planning on the Embodied Agent Interface", "bringup.agent_bench:BenchAgent"),
    "bench vla": Verb(
        "train a vision-language-action policy on Meta-World, try a checkpoint on LIBERO",
        "bringup.vla_bench:BenchVla",
    ),
    "completion": Verb("print a script that completes commands in bash, zsh or fish", "completion:Completion"),
    "doctor": Verb(
        "check the installation: what is missing, and how to install it", "bringup.installation_commands:Doctor"
    ),
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
        if arguments is None:  # of this program, which is over: a second Ctrl-C ends it at once, without a traceback
            signal.signal(signal.SIGINT, signal.SIG_DFL)
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
                import tyro

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
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("rlstack")
    except PackageNotFoundError:
        return "(not installed, run from its sources)"


def _complain(sentence: str) -> int:
    print(f"rlstack: {sentence}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
