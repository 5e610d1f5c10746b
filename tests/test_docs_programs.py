"""Every Python and YAML block of the documentation runs or is read in a test; this file has those of no other."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.support import docs

ELSEWHERE = {
    "docs/arms.md yaml": "tests/sim/test_obstacle_sliding.py",
    "docs/datasets.md python": "tests/data/test_page.py",
    "docs/fused.md python": "tests/fused/test_kernel.py",
    "docs/policy-file.md python": "tests/test_docs.py",
    "docs/robots.md yaml": "tests/test_docs.py",
    "docs/sensors.md python": "tests/perception/test_page.py",
    "docs/sensors.md yaml": "tests/perception/test_page.py",
    "docs/simulation.md python": "tests/test_docs.py",
    "docs/start.md python": "tests/test_docs.py",
    "docs/tasks.md python": "tests/test_docs.py",
    "docs/tasks.md yaml": "tests/test_docs.py",
    "docs/tutorials/my-arm.md python": "tests/test_tutorials.py",
    "docs/tutorials/my-arm.md yaml": "tests/test_tutorials.py",
    "docs/tutorials/my-base.md python": "tests/test_tutorials.py",
    "docs/tutorials/my-base.md yaml": "tests/test_tutorials.py",
    "docs/tutorials/my-drone.md python": "tests/test_tutorials.py",
    "docs/tutorials/my-drone.md yaml": "tests/test_tutorials.py",
    "docs/worlds.md python": "tests/sim/test_world.py",
    "docs/worlds.md yaml": "tests/sim/test_world.py",
}
"""The test that has the blocks of a page, by page and language."""

ONLY_COMPILED = {
    "docs/environments.md python 2": "the examples' third program is this one, with what it learns",
    "docs/environments.md python 3": "tests/environments has the environment over a running robot node",
    "docs/export.md python 0": "LEAPP's own reader is in tests/policies, on a bundle that is made there",
    "docs/guard.md python 0": "an excerpt of the guard",
    "docs/isaac.md python 0": "needs Isaac Sim",
    "docs/ros2.md python 0": "needs launch_ros, which a system ROS 2 brings",
    "docs/ros2.md python 1": "it answers a simulated robot until it is stopped",
}
"""Programs that test_docs.py compiles and no test runs as they are, and why."""


def named(kind: str) -> dict[str, str]:
    """Return the blocks in a language by page, language and number."""
    return {
        f"{path.relative_to(docs.ROOT)} {kind} {number}": block
        for path in docs.PAGES
        for number, block in enumerate(docs.blocks(path, kind))
    }


def test_each_block_has_its_test() -> None:
    blocks = {**named("python"), **named("yaml")}
    here = {*RUN, *READ}
    for name in blocks:
        page = name.rpartition(" ")[0]
        assert (name in here) + (name in ONLY_COMPILED) + (page in ELSEWHERE) == 1, name
    assert not ({*here, *ONLY_COMPILED} - blocks.keys()), "no page has these"
    for page, file in ELSEWHERE.items():
        assert any(name.startswith(f"{page} ") for name in blocks), page
        assert page.partition("docs/")[2].split()[0].rpartition("/")[2].split("-")[0] in docs.text(file), page


# Programs -----------------------------------------------------------------------------------------------------


def _tracks(said: str) -> None:
    assert float(said.split()[0]) < 0.3, "m off the figure of eight, at most"


def _reaches(said: str) -> None:
    assert float(said.split()[0]) < 10.0, "mm off after a second"


def _plans(said: str) -> None:
    assert "DRIVING" in said.upper() or "RUNNING" in said.upper() or "OK" in said.upper()


def _nothing(said: str) -> None:
    pass


RUN: dict[str, tuple[Callable[[str], None], str]] = {
    "docs/arms.md python 0": (lambda said: _same(said, "(84, 84, 3)"), ""),
    "docs/control.md python 0": (_tracks, ""),
    "docs/control.md python 1": (_reaches, "mujoco"),
    "docs/environments.md python 0": (_nothing, "gymnasium"),
    "docs/environments.md python 1": (_nothing, "gymnasium"),
    "docs/navigation.md python 0": (_plans, ""),
    "docs/recording.md python 0": (_nothing, "mcap"),
    "docs/training.md python 0": (_nothing, "gymnasium"),
}
"""What a program must print, and what it needs beside rlstack."""


def _same(said: str, expected: str) -> None:
    assert said.strip() == expected


@pytest.mark.parametrize("name", RUN)
def test_the_program_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check, needs = RUN[name]
    if needs:
        pytest.importorskip(needs)
    monkeypatch.chdir(tmp_path)
    program = re.sub(r"range\(500\)", "range(3)", named("python")[name])  # it learns for some iterations
    exec(compile(program, name, "exec"), {})
    check(capsys.readouterr().out)


# Files --------------------------------------------------------------------------------------------------------


def _robot_with(example: str, folder: Path) -> None:
    from rlstack.robots import load_robot
    from rlstack.robots.spec import robot_files

    data = yaml.safe_load(robot_files()["crazyflie"].read_text())
    (folder / "own.yaml").write_text(yaml.safe_dump({**data, **yaml.safe_load(example)}))
    load_robot(folder / "own.yaml")


def _world(example: str, folder: Path) -> None:
    from rlstack.sim.world import load_world

    (folder / "windy.yaml").write_text(f"generator: empty\n{example}")
    assert load_world(str(folder / "windy.yaml")).wind is not None


def _places(example: str, folder: Path) -> None:
    from rlstack.agent.grammar import RESERVED
    from rlstack.agent.places import read_places

    (folder / "places.yaml").write_text(example)
    assert read_places(folder / "places.yaml", RESERVED)["red door"] == (1.0, 2.0, 1.5)


def _mapping(example: str, folder: Path) -> None:
    from rlstack.importers.mapping import read_mapping, resolve
    from rlstack.robots import load_robot
    from rlstack.tasks import TASKS

    (folder / "mapping.yaml").write_text(example)
    mapping = read_mapping(folder / "mapping.yaml")
    robot = {"quadrotor": "crazyflie", "manipulator": "ur5e"}[TASKS.load(mapping.task).kind]
    resolve(mapping, load_robot(robot), "mapping.yaml")


def _parameters(example: str, folder: Path) -> None:
    from importlib import import_module

    for node, section in yaml.safe_load(example).items():
        module = import_module(f"rlstack.nodes.{node.rpartition('/')[2]}")
        known = {one.name for one in module.PARAMETERS}
        limits = {"linear_velocity_m_s"}  # of the guard, which declares those of its kind of robot
        assert set(section["ros__parameters"]) <= known | limits


def _script(example: str, folder: Path) -> None:
    from rlstack.hardware.devices.script import Script
    from rlstack.robots import load_robot

    (folder / "moves.yaml").write_text(example)
    Script(str(folder / "moves.yaml"), load_robot("so100"))  # type: ignore[arg-type]


def _leader(example: str, folder: Path) -> None:
    from rlstack import schema
    from rlstack.hardware.devices.leader import LeaderArm

    schema.load(LeaderArm, yaml.safe_load(example), "leader.yaml")


def _changes(example: str, folder: Path) -> None:
    from rlstack.training.recipe import load_recipe
    from rlstack.training.recipe_changes import read_changes

    settings = load_recipe("quadrotor_hover").algorithm_settings
    read = read_changes(yaml.safe_load(example)["changes"], "apg", settings, "quadrotor_hover")
    assert len(read) == 2 and read[0].after < read[1].after


READ: dict[str, Callable[[str, Path], None]] = {
    "docs/agent.md yaml 0": _places,
    "docs/import.md yaml 0": _mapping,
    "docs/import.md yaml 1": _mapping,
    "docs/physics.md yaml 0": _robot_with,
    "docs/physics.md yaml 1": _world,
    "docs/ros2.md yaml 0": _parameters,
    "docs/ros2.md yaml 1": _parameters,
    "docs/sweep.md yaml 0": _changes,
    "docs/teleop.md yaml 0": _leader,
    "docs/teleop.md yaml 1": _leader,
    "docs/teleop.md yaml 2": _script,
}
"""What reads a file that a page shows."""


@pytest.mark.parametrize("name", READ)
def test_the_file_is_read(name: str, tmp_path: Path) -> None:
    READ[name](named("yaml")[name], tmp_path)
