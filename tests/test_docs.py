"""The documentation holds: links, pictures, command lines, programs, examples, and tables made from the code."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tyro

from rlstack import cli
from rlstack.bringup.robot_commands import estop
from rlstack.control.hover import HoverController
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.scan_messages import finite_ranges
from rlstack.interfaces.signals import COMMANDED, SENSED
from rlstack.kinds.quadrotor.guard_config import QuadrotorGuardConfig
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.policies import load_policy
from rlstack.robots import frames
from rlstack.sim.backends.mujoco import MujocoBackend
from tests.support import docs
from tests.support.bases import turtlebot, write_driving_policy
from tests.support.policies import write_constant_policy, write_hover_policy

NAMES = [str(page.relative_to(docs.ROOT)) for page in docs.PAGES]
EACH_PAGE = pytest.mark.parametrize("page", NAMES)

ELSEWHERE = ("https://github.com/leggedrobotics/rsl_rl",)
"""What pages link to outside the repository."""

KNOWN_PATHS = (
    *(
        "/dev/shm",
        "/opt/ros/",
        "/clock",
        "/real_time_factor",
        "/crazyflie",
        "/turtlebot",
        "/markers/",
        "/tf",
        "/home/me/",
    ),
    *("/colliders", "/dev/", "/etc/udev/", "/panda", "/so100", "/racer_rates", "/rlstack/", "/diagnostics"),
    *("/joint_states", "/controller_manager", "/robot_description", "/real_time_factor", "/rosout", "/replay"),
)
"""Absolute paths and topics that pages may name; those of one machine are none of theirs."""


@EACH_PAGE
def test_links_and_pictures_resolve(page: str) -> None:
    for target in docs.links(page):
        if target.startswith("https://"):
            assert target in ELSEWHERE, f"{page} links to {target}"
            continue
        name, _, anchor = target.partition("#")
        path = (docs.ROOT / page).parent / name if name else docs.ROOT / page
        inside = path.resolve().relative_to(docs.ROOT)  # ValueError: a link out of the repository
        assert path.exists(), f"{page} links to {target}, which is not there"
        assert not anchor or anchor in docs.anchors(inside), f"{page} links to {target}, which has no such heading"


def test_every_page_is_reached_from_the_readme() -> None:
    reached, ahead = {"README.md"}, ["README.md"]
    while ahead:
        here = ahead.pop()
        for target in docs.links(here):
            path = ((docs.ROOT / here).parent / target.partition("#")[0]).resolve()
            name = str(path.relative_to(docs.ROOT)) if path.is_relative_to(docs.ROOT) else ""
            if name in NAMES and name not in reached:
                reached.add(name)
                ahead.append(name)
    assert reached == set(NAMES)


@EACH_PAGE
def test_no_page_names_another_machines_paths(page: str) -> None:
    text = docs.text(page)
    for path in re.findall(r"(?:^|[\s`'\"(=])(/[\w.-]+[\w./-]*)", text):
        assert path.startswith(KNOWN_PATHS), f"{page} names {path}"
    # what this repository needs is in it: nothing is explained by a file beside it
    assert "../.." not in re.sub(r"\]\([^)]*\)", "]", text)


def test_the_readme_is_short() -> None:
    assert len(docs.text("README.md").splitlines()) < 150


# Command lines ------------------------------------------------------------------------------------------------


@pytest.fixture
def examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a folder, and work in it, with the pages' example files; what is imported of them is forgotten."""
    robot, task, recipe = robot_example(), task_example(), docs.blocks("docs/tasks.md", "yaml")[0]
    (tmp_path / "x500_gazebo.yaml").write_text(robot)
    (tmp_path / "catch.yaml").write_text(recipe)
    for page in NAMES:
        for name, content in docs.files(page).items():
            (tmp_path / name).write_text(content)
    (tmp_path / "quadrotor_catch.py").write_text(task)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for path in tmp_path.glob("*.py"):  # another test may have imported it from its own folder
        monkeypatch.delitem(sys.modules, path.stem, raising=False)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(path.stem, None)


def robot_example() -> str:
    (text,) = docs.blocks("docs/robots.md", "yaml")
    return text


def task_example() -> str:
    (text,) = (block for block in docs.blocks("docs/tasks.md", "python") if "TASK = " in block)
    return text


def verb(words: list[str]) -> tuple[str, list[str]]:
    """Return the verb that a command line begins with and the rest."""
    for count in (2, 1):
        name = " ".join(words[:count])
        if name in cli.VERBS:
            return name, words[count:]
    raise AssertionError(f"there is no `rlstack {' '.join(words)}`")


def parse(words: list[str]) -> None:
    """Read a command line as rlstack does, and run nothing."""
    from rlstack.bringup.export_command import ExportPolicy
    from rlstack.training.command import ExportOptions, ResumeOptions, parse_recipe

    name, rest = verb(words)
    if not rest or rest == ["--help"]:
        return
    action = cli.VERBS[name].action
    if name == "train" and rest[0] == "RECIPE":
        rest = ["quadrotor_hover", *rest[1:]]
    if rest[-1] == "--help":
        rest = rest[:-1]
    if name == "export" and "--format" in rest:
        tyro.cli(ExportPolicy, args=rest)
    elif name == "export":
        tyro.cli(ExportOptions, args=rest)
    elif name == "train" and rest[0] == "--resume":
        tyro.cli(ResumeOptions, args=rest, config=(tyro.conf.FlagCreatePairsOff,))
    elif name == "train":
        parse_recipe(rest[0], rest[1:])
    elif name == "estop":
        estop.parser().parse_args(rest)
    else:
        assert isinstance(action, type)
        tyro.cli(action, args=rest, config=(tyro.conf.FlagCreatePairsOff,))


GENERAL = (["<verb>"], ["--help"], ["--version"], ["up"])
"""Ways to speak of rlstack that are no command line to read."""


def test_command_lines_are_what_rlstack_takes(examples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = {tuple(words): page for page in NAMES for words in docs.commands(page) if words not in GENERAL}
    for words, page in pages.items():
        try:
            parse(list(words))
        except (SystemExit, UserError) as error:
            raise AssertionError(f"{page}: `rlstack {' '.join(words)}`: {error}\n{capsys.readouterr().out}") from None


def test_there_are_command_lines_to_check() -> None:
    named = {verb(words)[0] for page in NAMES for words in docs.commands(page) if words not in GENERAL}
    assert named >= {"train", "show", "verify", "up deploy", "up train", "export", "doctor"}


@pytest.mark.parametrize("name", ["deploy", "simulate", "train_quadrotor", "train_base"])
def test_launch_arguments_exist(name: str) -> None:
    path = docs.ROOT / "launch" / f"{name}.launch.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    known = {argument.name for argument in module.LAUNCH_FILE.arguments}
    lines = [line for page in NAMES for line in docs.text(page).splitlines() if f"{name}.launch.py" in line]
    assert any("ros2" in line for line in lines)
    for line in lines:
        assert set(re.findall(r"(\w+):=", line)) <= known, line


def test_every_benchmark_is_described_and_those_named_exist() -> None:
    there = {path.name for path in (docs.ROOT / "benchmarks").glob("*.py")}
    described = set(re.findall(r"`python benchmarks/(\w+\.py)", docs.text("docs/benchmarks.md")))
    assert there == described
    for page in NAMES:
        assert set(re.findall(r"benchmarks/(\w+\.py)", docs.text(page))) <= there, page


def test_refusals_are_shown_as_they_are_said(examples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_hover_policy(examples / "mine.onnx", load_quadrotor("crazyflie"))
    shown = [(page, *pair) for page in NAMES for pair in docs.refusals(page)]
    assert len(shown) >= 2
    for page, words, sentence in shown:
        assert cli.main(words) == 2
        said = capsys.readouterr().err.strip().replace(str(examples), "/home/me")
        assert said == sentence, page


# Programs -----------------------------------------------------------------------------------------------------


def test_the_first_examples_are_the_programs_of_the_pages() -> None:
    for page, name in (("docs/policy-file.md", "01_run_a_policy.py"), ("docs/start.md", "02_send_a_goal.py")):
        assert docs.text(f"examples/{name}").endswith(f'"""\n\n{docs.blocks(page, "python")[0]}')


@EACH_PAGE
def test_programs_compile(page: str) -> None:
    for block in docs.blocks(page, "python"):
        compile(block, page, "exec")


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train for a moment, for a policy file of the very form that the recipe makes."""
    from rlstack.training.command import parse_recipe
    from rlstack.training.run import start

    short = ["--steps", "2048", "--envs", "64", "--selection.episodes", "4"]
    return start(parse_recipe("quadrotor_hover", short).recipe, tmp_path_factory.mktemp("run") / "run").policy


def test_the_policy_files_programs_run(policy: Path, examples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    running, _, writing = docs.blocks("docs/policy-file.md", "python")
    (examples / "policy.onnx").write_bytes(policy.read_bytes())
    exec(running, {})
    assert len(re.findall(r"\d+\.", capsys.readouterr().out)) == 4, "four rotor speeds"
    inputs = ("position", "orientation", "linear_velocity", "angular_velocity", "goal_position")
    write_constant_policy(examples / "mine.onnx", load_quadrotor("crazyflie"), 900.0, inputs)
    exec(writing, {})
    assert cli.main(["show", "policy.onnx"]) == 0
    assert "mine" in capsys.readouterr().out


def test_the_simulators_programs_run(examples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    several, isolated, batch, bases, model = docs.blocks("docs/simulation.md", "python")
    exec(several, {})
    ahead, aside, _ = _numbers(capsys.readouterr().out)
    assert 0.15 < ahead < 0.21 and abs(aside) < 0.01, "a second at 0.2 m/s"
    exec(isolated, {})
    heights = _numbers(capsys.readouterr().out)
    assert len(heights) == 16 and np.abs(np.array(heights) - 1.0).max() < 0.01, "they hover"
    exec(batch, {})
    height = _numbers(capsys.readouterr().out)[-1]
    assert -2.5 < height < -0.5, "it falls for a second while the rotors spin up"
    exec(bases, {})
    rays, clearance = re.findall(r"-?\d+\.?\d*", capsys.readouterr().out)[1:]
    assert int(rays) == 360 and float(clearance) < 0.0, "driven blindly, some of them touch something"
    exec(model, {})
    assert "<mujoco" in (examples / "crazyflie.xml").read_text()


def _numbers(printed: str) -> list[float]:
    return [float(number) for number in printed.strip().strip("[]").split()]


def test_the_robot_example_loads_and_flies(examples: Path) -> None:
    robot = load_quadrotor("x500_gazebo.yaml")
    assert f"thrust-to-weight {robot.thrust_to_weight:.2f}" in robot_example()
    assert f"2 * {robot.hover_speed_rad_s:.1f} / {robot.rotor_model.speed_max_rad_s:g}" in docs.text("docs/robots.md")
    QuadrotorGuardConfig.from_robot(robot)
    controller = HoverController(robot)
    backend = MujocoBackend(robot)
    backend.connect()
    hover = np.full(4, robot.hover_speed_rad_s)
    backend.reset({"position": np.array([0.5, 0.0, 1.0]), "rotor_speed": hover})
    controller.reset(robot.hover_speed_rad_s)
    period = 1.0 / robot.control_rate_hz
    for _ in range(600):
        s = backend.read().signals
        velocity = frames.rotate(s["orientation"], s["linear_velocity"])
        backend.write(
            {
                "rotor_speed": controller.command(
                    s["position"], s["orientation"], velocity, s["angular_velocity"], (0.0, 0.0, 1.5), 0.0, period
                )
            }
        )
        backend.step(period)
    assert np.linalg.norm(backend.read().signals["position"] - [0.0, 0.0, 1.5]) < 0.05
    backend.close()


def test_the_refusal_of_a_robot_file_is_shown_as_it_is_said(examples: Path) -> None:
    Path("x500_gazebo.yaml").write_text(robot_example().replace("mass_kg: 2.064", "mass_kg: -2"))
    with pytest.raises(UserError) as refused:
        load_quadrotor("x500_gazebo.yaml")
    assert f"rlstack: {refused.value}" in docs.text("docs/robots.md")


def test_the_task_example_trains_and_exports(examples: Path) -> None:
    from rlstack.policies import load_policy
    from rlstack.training.command import parse_recipe
    from rlstack.training.run import start

    short = ["--steps", "2048", "--envs", "64", "--selection.episodes", "4", "--task-settings.upright", "0.7"]
    result = start(parse_recipe("catch.yaml", short).recipe, examples / "run")
    contract = load_policy(result.policy, robot=load_quadrotor("crazyflie")).contract
    assert contract.task == str(examples / "quadrotor_catch.py")
    assert contract.training["recipe"]["task_settings"]["upright"] == 0.7
    assert contract.envelope.conditions["tilt_rad"] == pytest.approx(np.pi)


def test_a_policy_file_is_used_with_numpy_and_onnxruntime_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page's program against rlstack's own reader and runner, on scans with every kind of gap."""
    robot = turtlebot()
    write_driving_policy(tmp_path / "policy.onnx", robot)
    monkeypatch.chdir(tmp_path)
    program = docs.blocks("docs/policy-file.md", "python")[1]
    names: dict[str, Any] = {}
    exec(program, names)
    policy = load_policy(tmp_path / "policy.onnx", robot=robot)
    lidar, rng = robot.lidars["scan"], np.random.default_rng(0)
    for gaps in (0.0, 0.3, 0.97):
        ranges = rng.uniform(lidar.range_min_m, lidar.range_max_m, lidar.rays)
        ranges[rng.random(lidar.rays) < 0.1], ranges[rng.random(lidar.rays) < 0.1] = np.inf, -np.inf
        ranges[rng.random(lidar.rays) < gaps] = np.nan
        limits = {"range_min_m": lidar.range_min_m, "range_max_m": lidar.range_max_m, "turns": True}
        expected = finite_ranges(ranges, increment_rad=lidar.angle_increment_rad, **limits)
        (port,) = (one for one in names["contract"]["inputs"] if one["scan"])
        assert names["filled"](ranges, port) == pytest.approx(expected)
        inputs = {one.name: np.full(one.shape, 0.2) for one in policy.contract.inputs}
        found = names["step"]({**inputs, "scan": ranges})
        assert found == pytest.approx(policy.step({**inputs, "scan": expected})["twist"], abs=1e-6)


@pytest.mark.integration
def test_the_first_program_sends_a_flying_robot_elsewhere(tmp_path: Path) -> None:
    (program,) = docs.blocks("docs/start.md", "python")
    file = write_hover_policy(tmp_path / "policy.onnx", load_quadrotor("crazyflie"))
    with deployed(file):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=140)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"there: 0\.\d+ m from the goal\n", done.stdout)


class deployed:
    """`rlstack up deploy` in lock step, as long as the context lasts."""

    def __init__(self, policy: Path) -> None:
        self.words = ["up", "deploy", "--policy", str(policy), "--force", "--lock-step"]

    def __enter__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rlstack", *self.words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: types.TracebackType | None
    ) -> None:
        self.process.terminate()
        try:
            self.process.wait(timeout=30)
        finally:
            self.process.kill()


# Tables and facts ---------------------------------------------------------------------------------------------


def tables() -> Iterator[str]:
    from rlstack.nodes import (
        adapt,
        agent,
        goal_action,
        guard,
        map,
        nav2,
        odometry,
        people,
        planner,
        play,
        policy,
        record,
        remote_policy,
        robot,
        train,
        view,
    )

    yield from (docs.signal_table(SENSED), docs.robot_file_table(), docs.signal_table(COMMANDED))
    yield from (
        docs.parameter_table(node.PARAMETERS)
        for node in (
            robot,
            policy,
            guard,
            planner,
            remote_policy,
            nav2,
            goal_action,
            agent,
            map,
            people,
            odometry,
            train,
            view,
            record,
            adapt,
            play,
        )
    )


def test_tables_are_those_of_the_code() -> None:
    page = docs.text("docs/topics.md")
    for expected in tables():
        assert expected in page, f"docs/topics.md needs this table:\n{expected}"


def test_the_parameters_of_a_family_are_those_of_the_code() -> None:
    from rlstack.kinds.quadrotor.spec_family import PARAMETERS

    rows = [(f"`{name}`", meaning) for name, meaning in PARAMETERS.items()]
    assert docs.table(("parameter", "meaning"), rows) in docs.text("docs/policy-file.md")


def test_every_topic_and_service_is_described() -> None:
    page = docs.text("docs/topics.md")
    for name, kind in topics.TYPES.items():
        assert f"\n| `{name}` | `{kind}` |" in page
    for name in (
        topics.RESET,
        topics.ARM,
        topics.ESTOP,
        topics.CLEAR_ESTOP,
        topics.REST,
        topics.GOAL_HOLD,
        topics.AGENT_STOP,
    ):
        assert f"\n| `{name}` | `std_srvs/srv/" in page


def test_every_task_reward_term_and_disturbance_is_described() -> None:
    from rlstack.robots import load_robot
    from rlstack.tasks import TASKS
    from rlstack.tasks.quadrotor.task import DISTURBANCES
    from rlstack.training.recipe import load_recipe, recipe_files

    tasks, verification = docs.text("docs/tasks.md"), docs.text("docs/verification.md")
    for name in TASKS.names():
        assert f"\n## {name}\n" in tasks
    for name in recipe_files():
        recipe = load_recipe(name)
        task = recipe.task_settings
        robot = task.reference(load_robot(recipe.robot))
        assert f"`{name}`" in tasks
        for term, *_ in task.card(robot, task.pipeline(robot)).rewards:
            assert f"`{term}`" in tasks, f"docs/tasks.md does not describe {term} of {name}"
    for label in DISTURBANCES:
        assert f"| `{label}` |" in verification


def test_every_recipe_and_every_setting_of_the_gradients_is_described() -> None:
    import dataclasses

    from rlstack.training.algorithms.apg import APGSettings
    from rlstack.training.recipe import recipe_files

    page = docs.text("docs/training.md")
    for name in recipe_files():
        assert f"[`{name}`](../policies/{name}.yaml)" in page
    rows = [line.split("|")[1:3] for line in page.splitlines() if line.startswith("| `")]
    told = {n: d for names, defaults in rows for n, d in zip(_words(names), _words(defaults))}
    for field in dataclasses.fields(APGSettings):
        default = " ".join(map(str, field.default)) if isinstance(field.default, tuple) else str(field.default)
        assert told[field.name] == default.removesuffix(".0"), field.name


def _words(cell: str) -> list[str]:
    return [word.strip(" `") for word in cell.split(",")]


def test_thresholds_are_those_of_the_code() -> None:
    from rlstack.tasks.catalog.quadrotor_hover import HoverTask

    batch, topic = (bounds.limits for bounds in (HoverTask().bounds, HoverTask().bounds_over_topics))
    page = docs.text("docs/verification.md")
    assert f"| success, at least | {100 * batch['success']:g}% | {100 * topic['success']:g}% |" in page
    assert f"| lost, at most | {100 * batch['lost']:g}% | {100 * topic['lost']:g}% |" in page
    assert f"| episodes, at least | {batch['episodes']} | {topic['episodes']} |" in page
    assert f"| episodes with an intervention, at most | - | {100 * topic['intervened']:g}% |" in page


def test_what_is_asked_of_bases_is_that_of_the_code() -> None:
    from rlstack.tasks.catalog.base_navigation import NavigationTask

    inside, other, topic = (
        getattr(NavigationTask, name).limits for name in ("bounds", "bounds_elsewhere", "bounds_over_topics")
    )
    page = docs.text("docs/verification.md")
    assert other == NavigationTask.bounds_among.limits
    assert f"| episodes, at least | {inside['episodes']} | {other['episodes']} | {topic['episodes']} |" in page
    shares = [f"{100 * asked['success']:g}%" for asked in (inside, other, topic)]
    assert f"| success, at least | {' | '.join(shares)} |" in page
    assert "collided" not in other
    assert f"| contact, at most | {100 * inside['collided']:g}% | - | {100 * topic['collided']:g}% |" in page
    assert f"at most | {inside['time_ratio']:g} | - | {topic['time_ratio']:g} |" in page
    assert f"took over, at most | - | - | {100 * topic['intervened']:g}% |" in page


def test_what_other_tasks_ask_is_that_of_the_code() -> None:
    from rlstack.tasks import TASKS
    from rlstack.tasks.quadrotor.task import QuadrotorTask

    flown = [name for name in TASKS.names() if issubclass(TASKS.load(name), QuadrotorTask)]
    others = [name for name in flown if name != "quadrotor_hover"]
    expected = docs.judgement_table(sorted(others, reverse=True))
    assert expected in docs.text("docs/verification.md"), f"docs/verification.md needs this table:\n{expected}"


def test_recipe_defaults_are_those_of_the_code() -> None:
    import dataclasses

    from rlstack.training.recipe import Recipe

    page = docs.text("docs/training.md")
    for field in dataclasses.fields(Recipe):
        assert f"`{field.name}`" in page
        if isinstance(field.default, int):
            assert re.search(rf"\| `{field.name}` \| {field.default:,}\s|\| `{field.name}` \| {field.default}\s", page)


def test_the_guards_times_are_those_of_the_code() -> None:
    config = QuadrotorGuardConfig.from_robot(load_quadrotor("crazyflie"))
    page = docs.text("docs/guard.md")
    assert f"older than {config.staleness_periods:g} control periods" in page
    assert f"after {config.hover_before_landing_s:g} s it descends at {config.landing_speed_m_s:g} m/s" in page
    assert f"climbs to {config.takeoff_height_m:g} m above it at {config.takeoff_speed_m_s:g} m/s" in page
    assert f"| no valid observation | {config.observation_timeout_s:g} s |" in page
    assert f"tilt {config.tilt_rad:g} rad" in page and f"{config.angular_velocity_rad_s:g} rad/s" in page


def test_floors_are_those_of_the_architecture_test() -> None:
    from tests.test_architecture import FLOORS

    page = docs.text("docs/architecture.md")
    existing = {p.stem for p in (docs.ROOT / "src" / "rlstack").iterdir()}
    for name, floor in FLOORS.items():
        if floor and name in existing and not name.startswith("_"):
            assert re.search(rf"^\| {floor} \| [^|]*`{name}`", page, re.MULTILINE), name


def test_the_environment_is_that_of_the_nodes() -> None:
    page = docs.text("docs/ros2.md")
    code = "import os; from rlstack.nodes.runtime import prepare_environment as p; b = dict(os.environ); p();"
    code += "print(*sorted(k for k in os.environ if k not in b))"
    bare = {k: v for k, v in os.environ.items() if not k.startswith(("ROS_AUTO", "FASTRTPS_", "FASTDDS_"))}
    done = subprocess.run([sys.executable, "-c", code], env=bare, capture_output=True, text=True, timeout=60)
    names = done.stdout.split()
    assert names, done.stderr
    for name in names:
        assert f"| `{name}` |" in page
