"""Recipes: every mistake is refused in words before anything is trained, and what is read is what is written."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from rlstack import cli
from rlstack.errors import UserError
from rlstack.robots.spec import robot_files
from rlstack.schema import to_data
from rlstack.training.recipe import (
    check_recipe,
    load_recipe,
    recipe_files,
    recipe_from_data,
    recipe_to_yaml,
    switched,
    with_robots_ranges,
)
from tests.support.learning import small_apg_data, small_recipe, small_recipe_data


@pytest.mark.parametrize("name", sorted(recipe_files()))
def test_every_shipped_recipe_is_valid_and_says_what_it_is(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.name == name
    assert recipe.task_settings.rate_hz > 0.0


def test_a_recipe_reads_back_as_it_was_written(tmp_path: Path) -> None:
    recipe = small_recipe()
    path = tmp_path / "again.yaml"
    path.write_text(recipe_to_yaml(recipe))
    assert load_recipe(path) == load_recipe(str(path)) == recipe
    written = yaml.safe_load(path.read_text())
    assert written["task_settings"]["curriculum"]["full_after"] == 0.8  # also what was left at its default
    assert written["algorithm_settings"]["gamma"] == recipe.algorithm_settings.gamma


def test_the_files_of_a_recipe_are_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "recipes").mkdir()
    path, robot = tmp_path / "recipes" / "mine.yaml", tmp_path / "mine_robot.yaml"
    path.write_text(yaml.safe_dump(small_recipe_data(robot="../mine_robot.yaml")))
    monkeypatch.chdir(tmp_path / "recipes")
    with pytest.raises(
        UserError, match=r"mine\.yaml: robot: there is no file .*mine_robot\.yaml\. Paths in a recipe are"
    ):
        load_recipe("mine.yaml")
    robot.write_text(robot_files()["crazyflie"].read_text())
    assert Path(load_recipe("mine.yaml").robot).samefile(robot)
    monkeypatch.chdir(tmp_path)
    recipe = load_recipe("recipes/mine.yaml")
    assert Path(recipe.robot).samefile(robot)
    run = tmp_path / "recipes" / "runs" / "recipe.yaml"
    run.parent.mkdir()
    run.write_text(recipe_to_yaml(recipe))  # a run is resumed from any folder
    assert load_recipe(run).robot == str(robot)


def test_an_algorithm_that_was_renamed_still_loads_by_its_former_name() -> None:
    data = yaml.safe_load(recipe_files()["base_exploration"].read_text())
    assert recipe_from_data({**data, "algorithm": "ppo_choice"}, "old") == load_recipe("base_exploration")


@pytest.mark.parametrize("first", ["table_push", "table_suite"])
def test_recipes_that_go_on_from_another_see_and_speak_as_it_does(first: str) -> None:
    begun = load_recipe(first)
    after = [load_recipe(name) for name in recipe_files() if name.startswith(f"{first}_")]
    assert len(after) >= 2
    for recipe in after:
        settings = recipe.algorithm_settings
        few = recipe.name.endswith(("perception", "few"))  # these begin anew
        if few:
            assert replace(settings.network, acts_without=()) == begun.algorithm_settings.network
        elif not settings.pretrained:  # a released policy's file says itself what its network is like
            assert settings.network == begun.algorithm_settings.network
        assert recipe.name.endswith("dsrl") or settings.head == begun.algorithm_settings.head  # that one's is flow
        assert recipe.task_settings.pictures == begun.task_settings.pictures
        assert recipe.task_settings.text == begun.task_settings.text


def test_a_run_from_before_updates_overlapped_no_longer_still_loads_unless_it_needs_that() -> None:
    data = yaml.safe_load(recipe_files()["table_push_ppo"].read_text())
    settings = data["algorithm_settings"]
    old = {**data, "algorithm_settings": {**settings, "overlap": False}}
    assert recipe_from_data(old, "old") == load_recipe("table_push_ppo")
    with pytest.raises(UserError, match=r"^old: algorithm_settings: overlap: True is not .* set workers to 2"):
        recipe_from_data({**data, "algorithm_settings": {**settings, "overlap": True}}, "old")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"task": "quadrotor_hove"}, r"Unknown task 'quadrotor_hove'. Nearest: quadrotor_hover"),
        ({"algorithm": "pp"}, r"Unknown algorithm 'pp'. Nearest: ppo"),
        ({"robot": "crazyfly"}, r"Unknown robot 'crazyfly'. Nearest: crazyflie"),
        ({"evns": 3}, r"Unknown key 'evns'. Nearest: envs"),
        ({"selection": {"epsiodes": 3}}, r"Unknown key 'selection.epsiodes'. Nearest: selection.episodes"),
        ({"task_settings": {"rate": 3}}, r"task_settings: Unknown key 'rate'. Nearest: rate_hz"),
        ({"algorithm_settings": {"gama": 3}}, r"algorithm_settings: Unknown key 'gama'. Nearest: gamma"),
        ({"envs": "many"}, r"envs: 'many' is not allowed: must be a whole number"),
        ({"envs": 2.5}, r"envs: 2.5 is not allowed"),
        ({"envs": 0}, r"envs: 0 is not allowed: must be at least 1"),
        ({"seed": -1}, r"seed: -1 is not allowed: must be at least 0"),
        ({"selection": {"every": 0.0}}, r"selection.every: 0.0 is not allowed: must be above 0"),
        ({"task_settings": {"rate_hz": 0}}, r"rate_hz: 0.0 is not allowed: must be above 0.0 Hz"),
        ({"task_settings": {"starts": {"tilt_rad": 9}}}, r"starts.tilt_rad: 9.0 is not allowed: must be at most"),
        ({"task_settings": {"randomisation": {"mass": [2, 1]}}}, r"randomisation: mass: .* lower end must come first"),
        ({"algorithm_settings": {"gamma": 1.5}}, r"gamma: 1.5 is not allowed: must be at most 1"),
        ({"algorithm_settings": {"network": "cnn"}}, r"network: 'cnn' is not allowed: one of mlp, gru"),
        ({"algorithm_settings": {"hidden": []}}, r"hidden: \[\] is not allowed: must be the widths"),
        ({"algorithm_settings": {"hidden": [64, 0]}}, r"hidden: 0 is not allowed: must be at least 1"),
        ({"task_settings": 3}, r"task_settings: the file must be a mapping"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_what_is_wrong_is_named(changes: dict, said: str) -> None:
    with pytest.raises(UserError, match=f"small.yaml.*{said}|{said}"):
        recipe_from_data(small_recipe_data(**changes), "small.yaml")


@pytest.mark.parametrize(
    ("task", "settings", "said"),
    [
        ("quadrotor_tracking", {"speed_share": [0.9, 0.2]}, r"speed_share: \[0.9, 0.2\] .* lower end must come first"),
        ("quadrotor_tracking", {"observation": {"ahead_s": []}}, r"observation: ahead_s: \[\] is not allowed"),
        ("quadrotor_foundation", {"observation": {"ahead_s": []}}, r"observation: ahead_s: \[\] is not allowed"),
    ],
)
def test_what_is_wrong_with_a_path_is_named(task: str, settings: dict, said: str) -> None:
    data = {"name": "small", "task": task, "robot": "crazyflie", "algorithm": "apg", "task_settings": settings}
    with pytest.raises(UserError, match=f"small.yaml: task_settings: {said}"):
        recipe_from_data(data, "small.yaml")


def test_a_missing_key_is_named() -> None:
    data = small_recipe_data()
    del data["robot"]
    with pytest.raises(UserError, match="the key 'robot' is missing"):
        recipe_from_data(data, "small.yaml")


def test_changes_in_code_are_checked_as_a_file_is() -> None:
    recipe = small_recipe()
    check_recipe(recipe, "here")
    with pytest.raises(UserError, match=r"here: envs: 0"):
        check_recipe(replace(recipe, envs=0), "here")
    with pytest.raises(UserError, match=r"here: task_settings: rate_hz"):
        check_recipe(replace(recipe, task_settings=replace(recipe.task_settings, rate_hz=-1.0)), "here")


def test_settings_of_another_task_or_algorithm_are_refused() -> None:
    recipe = small_recipe()
    with pytest.raises(
        UserError, match=r"here: task_settings: HoverTask is .* task 'quadrotor_tracking' has TrackingT"
    ):
        check_recipe(replace(recipe, task="quadrotor_tracking"), "here")
    with pytest.raises(UserError, match=r"here: algorithm_settings: PPOSettings is .* algorithm 'apg' has APGSettings"):
        check_recipe(replace(recipe, algorithm="apg"), "here")


def test_settings_come_along_to_another_task_where_they_fit() -> None:
    recipe = small_recipe(task_settings={"rate_hz": 50.0, "starts": {"tilt_rad": 0.3}})
    other, told = switched(recipe, "quadrotor_tracking", "ppo")
    assert other.task_settings.rate_hz == 50.0 and other.task_settings.starts.tilt_rad == 0.3
    assert other.algorithm_settings is recipe.algorithm_settings
    assert (
        len(told) == 1
        and "starts.tilt_rad" in told[0]
        and "leaves out observation.disturbance_estimate, which" in told[0]
    )
    check_recipe(other, "here")


def test_a_task_of_ones_own_keeps_the_whole_reward_of_the_recipe(tmp_path: Path) -> None:
    mine = tmp_path / "my_navigation.py"
    mine.write_text(
        "from rlstack.tasks.catalog.base_navigation import NavigationTask\n\n\n"
        "class Mine(NavigationTask):\n    verified_on = ('chairs',)\n\n\nTASK = Mine\n"
    )
    recipe = load_recipe("base_navigation")
    other, _ = switched(recipe, str(mine), recipe.algorithm)
    assert to_data(other.task_settings) == to_data(recipe.task_settings)


GLIDER = """
from dataclasses import dataclass
from rlstack.tasks.catalog.quadrotor_hover import HoverTask

@dataclass(frozen=True, kw_only=True)
class Glider(HoverTask):
    differentiable = False
"""


@pytest.fixture
def glider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the name of a task that another installed package adds, whose simulator has no gradients."""
    (tmp_path / "gliders_of_a_test.py").write_text(GLIDER)
    info = tmp_path / "gliders_of_a_test-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: gliders-of-a-test\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[rlstack.tasks]\nglider = gliders_of_a_test:Glider\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "glider"
    sys.modules.pop("gliders_of_a_test", None)


def test_gradients_through_a_simulator_that_has_none_are_refused_with_those_that_have(glider: str) -> None:
    with pytest.raises(UserError, match=r"^small.yaml: algorithm: 'apg' needs gradients") as refused:
        recipe_from_data(small_apg_data(task=glider), "small.yaml")
    said = str(refused.value)
    assert "the simulator of 'glider' has none. Tasks with gradients: " in said and "ppo" in said.rpartition(":")[2]
    for name in ("base_navigation", "quadrotor_foundation", "quadrotor_hover", "quadrotor_tracking"):
        assert name in said
    assert recipe_from_data(small_recipe_data(task=glider), "small.yaml").task == "glider"  # ppo learns it
    assert recipe_from_data(small_apg_data(), "small.yaml").algorithm == "apg"


def test_the_refusal_comes_before_anything_is_made(
    glider: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "small.yaml", tmp_path / "run"
    file.write_text(yaml.safe_dump(small_apg_data(task=glider)))
    assert cli.main(["train", str(file), "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert "has none. Tasks with gradients: " in error and "Traceback" not in error and len(error.splitlines()) == 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"name: [", "is not valid YAML"),
        (b"- a\n- b\n", "must be a mapping"),
        (b"", "must be a mapping"),
        (b"\xff\xfe\x00\x01", "line 1 is not UTF-8 text"),
    ],
    ids=["yaml", "list", "empty", "binary"],
)
def test_a_file_that_is_no_recipe_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "broken.yaml"
    path.write_bytes(content)
    with pytest.raises(UserError, match=said):
        load_recipe(path)


def test_what_is_not_there_is_said() -> None:
    with pytest.raises(UserError, match=r"Unknown recipe 'quadrotor_hver'. Nearest: quadrotor_hover"):
        load_recipe("quadrotor_hver")
    with pytest.raises(UserError, match=r"Cannot read the recipe .*nowhere.yaml: No such file"):
        load_recipe("/nowhere.yaml")


def test_another_robot_may_be_a_file(tmp_path: Path) -> None:
    assert small_recipe(robot=str(tmp_path / "mine.yaml")).robot.endswith("mine.yaml")  # read when the run starts


def test_a_robot_files_ranges_widen_the_recipes(tmp_path: Path) -> None:
    recipe = load_recipe("quadrotor_hover")
    assert with_robots_ranges(recipe, "crazyflie") == (recipe, [])
    path = tmp_path / "mine.yaml"
    text = robot_files()["crazyflie"].read_text().replace("name: crazyflie", "name: mine")
    path.write_text(text + "\nrandomisation: {mass: [0.97, 1.03]}\n")
    assert with_robots_ranges(recipe, str(path)) == (recipe, [])  # it may be narrower, but the proof's margins stay
    path.write_text(text + "\nrandomisation: {mass: [0.97, 1.03], delay_s: [0.03, 0.05]}\n")
    own, said = with_robots_ranges(recipe, str(path))
    before = recipe.task_settings.randomisation
    assert own.task_settings.randomisation == replace(before, delay_s=(0.0, 0.05)) != before
    assert said == ["The robot file widens the recipe's ranges: delay_s [0.0, 0.05]."]
    path.write_text(text + "\nrandomisation: {mass: [1.03, 0.97]}\n")
    with pytest.raises(UserError, match="mine"):
        with_robots_ranges(recipe, str(path))
