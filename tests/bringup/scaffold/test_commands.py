"""`rlstack new`: every file that it writes loads, and a robot, a task and a recipe of one's own train together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlstack import cli, schema
from rlstack.bringup.scaffold.recipe_file import source_of
from rlstack.bringup.scaffold.robot_file import robot_text
from rlstack.bringup.scaffold.task_file import scaffold_of
from rlstack.kinds import kind_names
from rlstack.robots import load_robot
from rlstack.robots.spec import robot_files
from rlstack.tasks.core.task_card import describe_task
from rlstack.training.command import parse_recipe


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("kind", kind_names())
def test_the_files_of_each_kind_belong_together(kind: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"own_{kind}"
    assert cli.main(["new", "robot", f"{name}_robot", "--kind", kind]) == 0
    assert cli.main(["new", "task", name, "--kind", kind]) == 0
    assert cli.main(["new", "recipe", name, "--task", f"{name}.py", "--robot", f"{name}_robot.yaml"]) == 0
    said = capsys.readouterr().out
    assert f"rlstack model {name}_robot.yaml" in said and f"rlstack train {name}.yaml" in said

    recipe = parse_recipe(f"{name}.yaml").recipe
    assert recipe.task == str(here / f"{name}.py") and recipe.robot == f"{name}_robot.yaml"
    robot = load_robot(recipe.robot)
    assert (robot.name, robot.kind) == (f"{name}_robot", kind)
    card = describe_task(recipe.task_settings, robot)
    (own,) = {"upright", "calm", "gentle"} & set(vars(recipe.task_settings))
    assert own in card, "the reward has the new term"


def test_a_new_robot_task_and_recipe_train(here: Path) -> None:
    from rlstack.training.run import start

    assert cli.main(["new", "robot", "own_drone"]) == 0
    assert cli.main(["new", "task", "own_hover"]) == 0
    assert cli.main(["new", "recipe", "own_hover", "--task", "own_hover.py", "--robot", "own_drone.yaml"]) == 0
    short = ["--steps", "2048", "--envs", "64", "--selection.episodes", "4"]
    result = start(parse_recipe("own_hover.yaml", short).recipe, here / "run")
    assert result.finished and result.policy.is_file()


def leaves(data: Any, keys: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value under its keys, those of lists of mappings without an index."""
    if isinstance(data, dict):
        for key, content in data.items():
            yield from leaves(content, f"{keys}.{key}" if keys else key)
    elif isinstance(data, list) and data and isinstance(data[0], dict):
        for entry in data:
            yield from leaves(entry, keys)
    else:
        yield keys, data


@pytest.mark.parametrize("source", sorted(robot_files()))
def test_every_robot_can_be_started_from_and_all_its_values_say_how_they_are_measured(source: str, here: Path) -> None:
    Path("own.yaml").write_text(robot_text("own", source))
    own, given = load_robot("own.yaml"), load_robot(source)
    same = {**schema.to_data(given), "name": "own", "description": own.description}
    assert schema.to_data(own) == same
    scaffold = scaffold_of(own.kind)
    for keys, content in leaves(yaml.safe_load(Path("own.yaml").read_text())):
        above = keys.split(".")
        said = any(scaffold.how(".".join(above[: count + 1])) for count in range(len(above)))
        assert said or isinstance(content, str), f"{keys}: nothing says how to find it"


def test_nothing_is_overwritten(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("own_base.yaml").write_text("mine")
    assert cli.main(["new", "robot", "own_base", "--kind", "wheeled_base"]) == 2
    assert "never overwritten" in capsys.readouterr().err
    assert Path("own_base.yaml").read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["robot", "My-Drone"], "lower-case letters"),
        (["robot", "crazyflie"], "rlstack has a robot crazyflie already"),
        (["robot", "own", "--kind", "quadrator"], "Nearest: quadrotor"),
        (["robot", "own", "--kind", "quadrotor", "--from", "panda"], "it is a manipulator"),
        (["task", "json"], "a Python module is called json already"),
        (["task", "own", "--from", "base_exploration"], "such as base_navigation"),
        (["recipe", "own", "--from", "quadrotor_hover", "--robot", "none.yaml"], "none.yaml"),
    ],
)
def test_bad_input(words: list[str], said: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["new", *words]) == 2
    assert said in capsys.readouterr().err
    assert not list(here.iterdir())


def test_a_recipe_starts_from_one_for_its_task() -> None:
    assert source_of("", "", "arm_push", "") == "arm_push"
    assert source_of("", "", "table_pick", "") == scaffold_of("manipulator").recipe
    assert source_of("", "", "", "husky") == "base_navigation"
