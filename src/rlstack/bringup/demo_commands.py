"""The `rlstack demo` commands: options and entry points."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from rlstack.errors import UserError, unknown_name
from rlstack.progress import AFTER_S, StageLines, duration, working
from rlstack.view.watching import view_wanted

_Folder = tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="DATASET")]]
_Out = Annotated[Path, tyro.conf.arg(metavar="FOLDER")]

BY_HAND_S = 120.0
"""Time limit of an episode by hand, s: the tasks' limits for policies are far shorter."""


@dataclass(frozen=True)
class DemoRecord:
    """Record demonstrations of an arm's task into a LeRobot dataset: by its scripted expert, a policy file, or by hand.

    An episode is kept when the task succeeds, or when the operator saves it. With --teleop beside --expert or --policy,
    the operator corrects them; each frame records who acted.
    """

    task: tyro.conf.Positional[str]
    """The task, such as arm_pick_place."""
    out: _Out
    """The dataset's folder, a new one or one to add to."""
    expert: bool = False
    """Demonstrate with the task's scripted expert."""
    policy: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Demonstrate with a policy file, in the task settings that it was trained with."""
    teleop: str = ""
    """Demonstrate by hand with a device: keyboard, gamepad, spacemouse, leader:FILE, script:FILE; or topic: any
    publisher of teleop/twist or, for a leader arm, teleop/joints."""
    episodes: int = 10
    """Number of episodes to keep."""
    robot: str = "panda"
    """An arm's name or file."""
    namespace: str = ""
    """Namespace of the teleop topics, with --teleop topic; default: the robot's name."""
    episode_s: Annotated[float | None, tyro.conf.arg(metavar="S")] = None
    """Time limit of an episode, s; default: the task's for expert and policy, and 120 s by hand."""
    seed: int = 0
    """Seed of starts and noise."""
    keep_failures: bool = False
    """Keep failed episodes as well."""
    view: bool = False
    """Show the simulation in a browser, whose address is printed; default: if a person sits at the terminal."""
    no_view: bool = False
    """Show nothing in a browser."""

    def run(self) -> int:
        """Record, and print progress."""
        from rlstack.demonstrations import metadata, recording
        from rlstack.kinds.manipulator.spec import load_manipulator

        if self.expert and self.policy is not None:
            raise UserError("--expert and --policy exclude each other: leave one out.")
        if not self.expert and self.policy is None and not self.teleop:
            raise UserError(
                "No demonstrator was given: add --expert, --policy with a file, or --teleop with a device, such as"
                " --teleop keyboard."
            )
        robot = load_manipulator(self.robot)
        policy, trained = (None, {}) if self.policy is None else _loaded(self.policy, self.task, robot)
        settings: dict[str, Any] = {**trained, "rewards": "sparse"}
        longest = self.episode_s if self.episode_s is not None or not self.teleop else BY_HAND_S
        if longest is not None:
            settings["episode_s"] = longest
        task = metadata.task_called(self.task, settings, "" if policy is None else f"{self.policy}: task_settings")
        kept, begun_s = [0], time.monotonic()

        def print_episode(ended: recording.EpisodeResult) -> None:
            kept[0] += ended.number is not None
            length = f"{ended.frames} frames, {ended.frames / task.rate_hz:.2f} s"
            what = f"not kept: {ended.why}" if ended.number is None else f"episode {ended.number}"
            far, rest = f"{kept[0]} of {self.episodes}", self.episodes - kept[0]
            if kept[0] and rest and not self.teleop:  # an operator takes the time that it takes
                far += f", about {duration((time.monotonic() - begun_s) / kept[0] * rest)} left"
            print(f"{what}, {length} ({far})", file=sys.stderr, flush=True)

        options: dict[str, Any] = {"seed": self.seed, "keep_failures": self.keep_failures, "on_episode": print_episode}
        view = view_wanted(self.view, self.no_view)
        with _viewer(view) as show, _demonstrator(self, robot, task, policy, show) as decide:
            recording.record(self.out, self.task, task, robot, decide, self.episodes, **options)
        print(f"{kept[0]} episodes were added to {self.out}: rlstack demo show {self.out}")
        return 0


@dataclass(frozen=True)
class DemoShow:
    """Describe a dataset: robot, rate, features, and each episode with its length and success."""

    dataset: _Folder
    """Its folder."""

    def run(self) -> int:
        """Print it."""
        from rlstack.demonstrations.summary import describe

        print(describe(self.dataset))
        return 0


@dataclass(frozen=True)
class DemoReplay:
    """Replay an episode's joint commands from its start, and report the deviation from the recording.

    The exit status is 1 if the recording succeeded and the replay does not.
    """

    dataset: _Folder
    """Its folder."""
    episode: int = 0
    """Its number."""
    robot: str = ""
    """The file of the arm that it was recorded with, if that does not ship with rlstack."""

    def run(self) -> int:
        """Replay and print."""
        from rlstack.demonstrations.replaying import replay

        done = replay(self.dataset, self.episode, self.robot)
        print(done.describe())
        return 0 if done.success or not done.recorded else 1


@dataclass(frozen=True)
class DemoFilter:
    """Find demonstrations that conflict with the others or failed, and write the rest into another dataset.

    Uses the compatibility measure of Gandhi et al. (arXiv 2210.08073); see docs/datasets.md.
    """

    dataset: _Folder
    """Its folder."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """Folder for the kept demonstrations; default: write nothing."""
    base: Annotated[Path | None, tyro.conf.arg(metavar="DATASET")] = None
    """A trusted dataset to compare with; default: compare the demonstrations with each other."""
    least: float = 0.7
    """Mean compatibility below which a demonstration is dropped, 0 to 1."""
    seed: int = 0
    """Seed of the ensembles."""

    def run(self) -> int:
        """Filter, print the reasons, and write."""
        from rlstack.demonstrations import filtering

        if self.out is not None:
            filtering.check_out(self.dataset, self.out)
        with working("comparing the demonstrations"):
            verdicts = filtering.judge(self.dataset, self.base, self.least, self.seed)
        for verdict in verdicts:
            print(verdict.describe())
        if self.out is not None:
            count = filtering.filtered(self.dataset, self.out, verdicts)
            print(f"{count} of {len(verdicts)} were written into {self.out}.")
        return 0


@dataclass(frozen=True)
class DemoImport:
    """Convert ROS 2 bags into episodes of a LeRobot dataset, of an arm one per bag.

    With the name of an arm's task, the episodes are demonstrations for rlstack: the task's observations, and as actions
    the commands converted to tool motions. Without one they are for LeRobot's policies: joint_states, the images of
    every CAMERA/image_raw, and the unchanged commands as actions. With the name of a base's task and --world, they are
    what h2o, ro2o and wsrl learn from: observations, actions, and the task's rewards where the base was in that world.
    """

    bags: tyro.conf.Positional[tuple[Path, ...]]
    """Bag folders, or .mcap and .db3 files."""
    out: _Out
    """The dataset's folder, a new one or one to add to."""
    robot: str = "panda"
    """The robot's name or file."""
    world: str = ""
    """With a base's task: the world that it moved in, such as track:7, in the frame of its odometry."""
    fps: Annotated[float | None, tyro.conf.arg(metavar="HZ")] = None
    """The dataset's frames per second; default: the task's rate, or 20. A base's task has its own."""
    task: str = ""
    """The task's name, such as arm_stack; or a description in words, for LeRobot's policies only."""
    goal: Annotated[tuple[float, float, float] | None, tyro.conf.arg(metavar="X Y Z")] = None
    """With a task's name: the goal, m in odom; default: the bag's topic goal. A base's has the heading 0."""
    succeeded: bool = False
    """With an arm's task: every bag ended in success. Default: the task decides from the observations."""
    namespace: str = ""
    """Namespace of the robot's topics; default: that of the bag's only joint_states."""
    command: str = ""
    """The topic of its commands: of an arm JointTrajectory, JointState or Float64MultiArray, default: cmd/joints; of a
    base TwistStamped, default: cmd_vel, or policy/cmd_vel, which the guard has not changed yet."""
    videos: Annotated[bool, tyro.conf.arg(aliases=("--films",))] = False
    """Store camera images as video (MP4), which is smaller and lossy; default: PNG."""

    def run(self) -> int:
        """Convert the bags, and print the episodes."""
        from rlstack.data.bags import add_bag, features_of, open_bag
        from rlstack.data.lerobot import DatasetWriter
        from rlstack.interfaces.topics import JOINT_COMMAND
        from rlstack.kinds.manipulator.spec import load_manipulator
        from rlstack.tasks import TASKS

        if not self.bags:
            raise UserError("Give at least one bag: rlstack demo import BAG --out FOLDER.")
        named = self.task in TASKS.names()
        if named and not TASKS.load(self.task).demonstration_class:
            return self._episodes()
        if self.world:
            raise UserError("--world is for the tasks of bases, whose rewards depend on it: leave it out.")
        robot = load_manipulator(self.robot)
        joints = tuple(drive.name for drive in robot.drives)

        def read(path: Path) -> Any:
            recording = open_bag(path, joints, namespace=self.namespace, command=self.command or JOINT_COMMAND)
            for sentence in recording.damage:
                print(f"rlstack: {path}: {sentence}", file=sys.stderr, flush=True)
            return recording

        lines = StageLines(after_s=AFTER_S)

        def each() -> Iterator[tuple[Path, Any]]:
            for number, path in enumerate(self.bags):
                lines("bags", number, len(self.bags))
                with working(f"converting {path}"):
                    yield path, read(path)

        recordings = each()
        if named:
            return self._demonstrations(robot, recordings)
        if get_close_matches(self.task, TASKS.names(), cutoff=0.75):  # descriptions resemble no task's name
            raise unknown_name("task", self.task, TASKS.names())
        if self.succeeded or self.goal is not None:
            said = "--succeeded" if self.succeeded else "--goal"
            raise UserError(f"{said} needs a task's name, and '{self.task}' is not one: see --task.")
        fps = 20.0 if self.fps is None else self.fps
        for path, recording in recordings:
            with DatasetWriter(self.out, fps, robot.name, features_of(recording, joints, videos=self.videos)) as writer:
                number = add_bag(writer, recording, fps, self.task)
            print(f"{path} is episode {number} of {self.out}.")
        print("This dataset is for LeRobot's policies; rlstack train needs one imported with --task and a task's name.")
        return 0

    def _episodes(self) -> int:
        from rlstack.robots import load_robot
        from rlstack.sim.world import load_world
        from rlstack.tasks import TASKS
        from rlstack.training.bag_episodes import read_episodes, write_episodes

        if self.fps is not None or self.succeeded or self.videos:
            raise UserError(
                f"--fps, --succeeded and --videos are for arms; {self.task} has a rate and an end of its own."
            )
        if not self.world:
            raise UserError(
                f"A bag has no rewards, and those of {self.task} depend on where walls and ways are: give --world, the"
                " one that the robot moved in."
            )
        task = TASKS.load(self.task)()
        robot, world = task.reference(load_robot(self.robot)), load_world(self.world)
        lines = StageLines(after_s=AFTER_S)
        for number, path in enumerate(self.bags):
            lines("bags", number, len(self.bags))
            with working(f"converting {path}"):
                given: dict[str, Any] = {"goal": self.goal, "namespace": self.namespace, "command": self.command}
                found = read_episodes(path, task, robot, world, **given)
                write_episodes(self.out, found, task, robot)
            for sentence in found.notes:
                print(f"rlstack: {path}: {sentence}", file=sys.stderr, flush=True)
            print(f"{path} added to {self.out}: {found.describe()}.")
        return 0

    def _demonstrations(self, robot: Any, recordings: Iterator[tuple[Path, Any]]) -> int:
        from rlstack.data.lerobot import DatasetWriter
        from rlstack.demonstrations import from_bag, metadata
        from rlstack.demonstrations.task_file import write_task_file

        settings = {"rewards": "sparse", **({} if self.fps is None else {"rate_hz": self.fps})}
        task = metadata.task_called(self.task, settings)
        robot = task.reference(robot)
        metadata.check_metadata(self.out, self.task, task, robot)
        for path, recording in recordings:
            shown = from_bag.convert(recording, self.task, task, robot, goal=self.goal, succeeded=self.succeeded)
            features = from_bag.features_of(task, robot, videos=self.videos)
            with DatasetWriter(self.out, task.rate_hz, robot.name, features) as writer:
                write_task_file(self.out, self.task, task)
                number = shown.write(writer)
            print(f"{path} is episode {number} of {self.out}: {shown.describe()}.")
        return 0


@dataclass(frozen=True)
class DemoExport:
    """Write an episode into a ROS 2 bag (MCAP), as if it had been recorded from the robot's topics.

    With --robot, the dataset is one of LeRobot's own arm: its joints are converted from LeRobot's units, and what is
    written can be imported with `rlstack demo import`, for training here.
    """

    dataset: _Folder
    """Its folder."""
    out: _Out
    """The bag's folder, which must not exist yet."""
    episode: int = 0
    """Its number."""
    namespace: str = ""
    """Namespace of the topics; default: the robot's name."""
    robot: str = ""
    """The arm that LeRobot's so100_follower or another of its robots is here, a name or file; default: the dataset was
    recorded by rlstack, or in its units."""
    units: Literal["degrees", "range", "rad"] = "degrees"
    """With --robot: LeRobot's units: degrees, range (-100 to 100), or rad."""
    reverse: tuple[str, ...] = ()
    """With --robot: joints that count the other way in LeRobot."""
    cameras: Annotated[tuple[str, ...], tyro.conf.arg(metavar="THEIRS:=OURS ...")] = ()
    """With --robot: the robot's names of the dataset's cameras, such as front:=scene; default: unchanged."""

    def run(self) -> int:
        """Write it."""
        from rlstack.data.bags import write_bag
        from rlstack.data.lerobot import Dataset
        from rlstack.data.lerobot.units import LerobotMapping
        from rlstack.kinds.manipulator.spec import load_manipulator

        mapping, namespace = None, self.namespace
        if self.robot:
            robot = load_manipulator(self.robot)
            mapping = LerobotMapping(robot, self.units, self.reverse, self.cameras)
            namespace = namespace or robot.name
        elif self.reverse or self.cameras:
            raise UserError("--reverse and --cameras are for a dataset of LeRobot's own arm: give --robot as well.")
        lines = StageLines(after_s=AFTER_S)
        write_bag(self.out, Dataset(self.dataset), self.episode, namespace=namespace, mapping=mapping, on_stage=lines)
        print(f"Episode {self.episode} is in {self.out}.")
        return 0


def _loaded(path: Path, task: str, robot: Any) -> tuple[Any, dict[str, Any]]:
    """Return a policy for a task, loaded for a robot, and the task settings that it was trained with."""
    from rlstack.policies import load_policy
    from rlstack.tasks.core.trained_task import within

    policy = load_policy(path, robot=robot)
    if policy.contract.task != task:
        raise UserError(f"{path} is a policy for {policy.contract.task}: rlstack demo record {policy.contract.task}.")
    return policy, dict(within(policy.contract.training, "recipe", "task_settings") or {})


@contextlib.contextmanager
def _demonstrator(given: DemoRecord, robot: Any, task: Any, policy: Any, show: Callable[[Any], None]) -> Iterator[Any]:
    """Yield the demonstrator: expert, policy, operator, or two of them; the device stays open within the context."""
    from rlstack.bringup.teleop import teleop_device
    from rlstack.demonstrations import recording
    from rlstack.demonstrations.teleoperation import Teleoperator

    other: recording.Decide | None = recording.expert if given.expert else None
    if policy is not None:
        from rlstack.demonstrations.recording import PolicyDemonstrator

        other = PolicyDemonstrator(policy, task, robot)
    if other is not None and not given.teleop:
        yield _with_viewer(other, show)
        return
    device = teleop_device(given.teleop, robot, task.motion, given.namespace)
    try:
        device.open()
        print(device.keys, file=sys.stderr, flush=True)
        yield Teleoperator(device, other, _print, show)
    finally:
        device.close()


def _with_viewer(decide: Callable[[Any], Any], show: Callable[[Any], None]) -> Callable[[Any], Any]:
    def both(station: Any) -> Any:
        show(station)
        return decide(station)

    return both


def _print(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


@contextlib.contextmanager
def _viewer(wanted: bool) -> Iterator[Callable[[Any], None]]:
    """Yield a function that displays the simulation in a browser, or does nothing."""
    page: list[Any] = []

    def show(station: Any) -> None:
        if not wanted:
            return
        if not page:
            from rlstack.view.simulation import SimulationView

            page.append(SimulationView(station.environment.scene.worlds.model))
        page[0].show(station.state)

    try:
        yield show
    finally:
        for opened in page:
            opened.close()
