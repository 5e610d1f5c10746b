"""`rlstack train` and `rlstack export`: options from the recipe, refusals, the printed task, the figures at the end."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import yaml

from rlstack import cli
from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.policies import family_departures, load_policy, write_policy
from rlstack.tasks import TASKS
from rlstack.training import ALGORITHMS
from rlstack.training.command import (
    export_command,
    for_a_family,
    parse_recipe,
    robot_option,
    train_command,
    verification_robot,
)
from rlstack.training.recipe import load_recipe, recipe_to_yaml
from rlstack.verification.training_evaluation import describe_evaluation
from tests.policies.graphs import family_contract, family_model
from tests.support.learning import small_recipe_data
from tests.training.conftest import Trained


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(small_recipe_data()))
    return str(path)


def test_without_options_it_is_the_recipe(recipe: str) -> None:
    options = parse_recipe(recipe)
    assert options.recipe == load_recipe(recipe)
    assert options.out is None and options.json is None and not options.show_task


def test_options_change_fields_at_every_depth(recipe: str, tmp_path: Path) -> None:
    text = f"""
        --seed 7 --envs 32 --selection.episodes 5 --task-settings.starts.tilt-rad 0.25 --out {tmp_path / "o"}
        --task-settings.randomisation.mass 0.5 1.5 --task-settings.observation.disturbance-estimate False
        --algorithm-settings.hidden 8 4 --algorithm-settings.network gru
    """
    options = parse_recipe(recipe, text.split())
    changed = options.recipe
    assert (changed.seed, changed.envs, changed.selection.episodes) == (7, 32, 5)
    assert changed.task_settings.starts.tilt_rad == 0.25
    assert changed.task_settings.randomisation.mass == (0.5, 1.5)
    assert changed.task_settings.observation.disturbance_estimate is False
    assert changed.algorithm_settings.hidden == (8, 4) and changed.algorithm_settings.network == "gru"
    assert options.out == tmp_path / "o"
    assert changed.task_settings.curriculum == load_recipe(recipe).task_settings.curriculum  # and nothing else


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--envs 0", "envs: 0 is not allowed: must be at least 1"),
        ("--algorithm-settings.gamma 2", "gamma: 2.0 is not allowed"),
        ("--task-settings.randomisation.mass 0 1", "mass: 0.0 is not allowed"),
        ("--robot crazyfly", "Unknown robot 'crazyfly'. Nearest: crazyflie"),
    ],
)
def test_ranges_are_checked_after_the_options(recipe: str, words: str, said: str) -> None:
    with pytest.raises(UserError, match=re.escape(said)):
        parse_recipe(recipe, words.split())


@pytest.mark.parametrize(
    "words",
    ["--evns 3", "--envs many", "--algorithm-settings.network cnn", "--task-settings.randomisation.mass 1", "extra"],
)
def test_a_field_that_does_not_exist_or_is_of_another_type_ends_with_status_2(
    recipe: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_recipe(recipe, words.split())
    assert ended.value.code == 2
    assert capsys.readouterr().err


def test_help_shows_every_field_with_the_recipes_value(recipe: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_recipe(recipe, ["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    for flag in ("--seed", "--envs", "--selection.episodes", "--task-settings.starts.tilt-rad", "--show-task", "--out"):
        assert flag in shown
    assert "(default: 64)" in shown and "Robots simulated in parallel" in shown


def test_another_task_and_algorithm_bring_their_own_settings(capsys: pytest.CaptureFixture[str]) -> None:
    words = "--task arm_reach --task arm_push --algorithm=rlpd --task-settings.apart-m 0.07"
    changed = parse_recipe("arm_pick_place_cloned", [*words.split(), "--algorithm-settings.hindsight", "0.4"]).recipe
    assert (changed.task, changed.algorithm) == ("arm_push", "rlpd")
    assert type(changed.task_settings) is TASKS.load("arm_push")
    assert type(changed.algorithm_settings) is ALGORITHMS.load("rlpd").Settings
    assert changed.task_settings.apart_m == 0.07 and changed.algorithm_settings.hindsight == 0.4
    # what the recipe says and fits comes along, the rest are defaults
    own = load_recipe("arm_pick_place_cloned").algorithm_settings
    assert changed.algorithm_settings.demonstrations == own.demonstrations
    assert replace(changed.algorithm_settings, demonstrations=20, hindsight=0.8) == ALGORITHMS.load("rlpd").Settings()
    assert changed.task_settings.rewards == "sparse"
    told = capsys.readouterr().err.splitlines()
    task_line, algorithm_line = told
    assert task_line.startswith("Of the recipe's task_settings the task arm_push takes over rewards, past_actions, ")
    assert algorithm_line == "Of the recipe's algorithm_settings the algorithm rlpd takes over demonstrations."
    assert parse_recipe("arm_pick_place_cloned", ["--task", "arm_pick_place"]) == parse_recipe("arm_pick_place_cloned")
    assert not capsys.readouterr().err


def test_settings_that_do_not_fit_are_left_out_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--algorithm", "bc"]
    changed = parse_recipe("arm_reach", words).recipe
    told = capsys.readouterr().err
    assert "the algorithm bc leaves out gamma, final_kl, activation, which" in told
    assert changed.algorithm_settings == ALGORITHMS.load("bc").Settings()
    # a run's recipe says everything; what it says by default does not come along either
    saved = tmp_path / "recipe.yaml"
    saved.write_text(recipe_to_yaml(load_recipe("arm_reach")))
    assert parse_recipe(str(saved), words).recipe == changed
    assert capsys.readouterr().err == told


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--task arm_psh", "Unknown task 'arm_psh'. Nearest: arm_push"),
        ("--algorithm=", "Unknown algorithm ''"),
        ("--algorithm apg", "the simulator of 'arm_reach' has none"),
    ],
)
def test_another_task_or_algorithm_that_cannot_be_is_refused(words: str, said: str) -> None:
    with pytest.raises(UserError, match=re.escape(said)):
        parse_recipe("arm_reach", words.split())


def test_help_and_the_printed_task_are_those_of_what_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert train_command(["arm_pick_place_cloned", "--task", "arm_reach", "--show-task"]) == 0
    assert capsys.readouterr().out.startswith("ReachTask: ")
    with pytest.raises(SystemExit) as ended:
        parse_recipe("arm_pick_place_cloned", ["--algorithm", "rlpd", "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert "--algorithm-settings.hindsight" in shown and "--algorithm-settings.chunk" not in shown
    assert "(default: rlpd)" in shown
    with pytest.raises(SystemExit) as ended:  # said as ever
        parse_recipe("arm_pick_place_cloned", ["--task", "--show-task"])
    assert ended.value.code == 2


def test_the_task_is_printed_and_nothing_is_trained(
    recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert train_command([recipe, "--show-task", "--out", str(out), "--task-settings.lost-m", "1.75"]) == 0
    shown = capsys.readouterr().out
    assert "observation of the policy" in shown and "beyond lost_m = 1.75 m" in shown
    assert not out.exists()


def test_no_recipe_shows_which_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert train_command([]) == 2
    assert "quadrotor_hover" in capsys.readouterr().err
    assert train_command(["--help"]) == 0
    assert "--resume RUN" in capsys.readouterr().out


@pytest.mark.parametrize("words", ["--resume --help", "--resume runs/x --help", "--help --resume"])
def test_going_on_has_its_own_help(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        train_command(words.split())
    assert ended.value.code == 0
    assert "Resume a run exactly from its latest checkpoint" in " ".join(capsys.readouterr().out.split())


def test_a_robot_that_nobody_would_take_by_itself_must_be_named_to_what_comes_next() -> None:
    assert robot_option("crazyflie") == ""
    assert robot_option("robots/x500.yaml") == " --robot robots/x500.yaml"
    assert robot_option("x500") == " --robot x500"  # deploy would take the crazyflie
    assert robot_option("crazyflie", family=True) == " --robot crazyflie"  # the file itself names none


def test_a_policy_for_a_family_is_proven_with_a_robot_inside_it(mlp: Trained, tmp_path: Path) -> None:
    plain = load_recipe("quadrotor_hover")
    assert verification_robot(plain, mlp.result.policy) == "crazyflie" and not for_a_family(plain)
    policy = tmp_path / "family.onnx"
    contract = write_policy(family_model(), family_contract({"mass_kg": (1.0, 3.0)}), policy)
    recipe = replace(plain, task_settings=TASKS.load("quadrotor_foundation")())
    assert for_a_family(recipe)
    name = verification_robot(recipe, policy)
    assert name != "crazyflie" and not family_departures(contract, load_quadrotor(name))
    assert verification_robot(replace(recipe, robot="x500"), policy) == "x500"  # which is inside
    nobodys = write_policy(family_model(), family_contract({"mass_kg": (90.0, 91.0)}), tmp_path / "heavy.onnx")
    assert nobodys.needs_robot and verification_robot(recipe, tmp_path / "heavy.onnx") == "crazyflie"


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("quadrotor_hover", "within 0.2 m of the goal from second 3 to second 8"),
        ("quadrotor_tracking", "within 0.3 m of the path from second 1 to second 5.5"),
        ("quadrotor_foundation", "within 1 m of the path from second 9 to second 10"),
    ],
)
def test_what_was_learned_is_told_by_the_tasks_own_measure(task: str, said: str) -> None:
    figures = {"episodes": 500, "success": 0.994, "within_0_1": 0.5, "lost": 0.002, "error_m": 0.0312}
    told = describe_evaluation(TASKS.load(task)(), figures)
    assert told.startswith(f"Of 500 held-out flights 99.4% stay {said}, 50.0% within 0.1 m, 0.2% are lost")
    assert "0.031 m" in told
    del figures["error_m"]  # all were lost
    assert describe_evaluation(TASKS.load(task)(), figures).endswith("0.2% are lost.")


def test_mistakes_are_one_sentence(recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (["train", "quadrotor_hver"], "Unknown recipe 'quadrotor_hver'. Nearest: quadrotor_hover"),
        (["train", recipe, "--out", str(tmp_path)], "exists already and is never overwritten"),
        (["train", "--resume", str(tmp_path / "none")], "cannot be resumed: it has no"),
        (["export", str(tmp_path)], "has no checkpoint.pt"),
    ):
        assert cli.main(words) == 2
        error = capsys.readouterr().err
        assert said in error and "Traceback" not in error and len(error.splitlines()) == 1


def test_going_on_with_a_finished_run_tells_its_figures_again(
    mlp: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = tmp_path / "figures.json"
    assert train_command(["--resume", str(mlp.folder), "--json", str(figures), "--no-view"]) == 0
    shown = capsys.readouterr().out
    assert "Trained after 2,048 steps" in shown and "Of 8 held-out flights" in shown
    assert f"rlstack verify {mlp.result.policy}" in shown
    written = json.loads(figures.read_text())
    assert written["finished"] is True and written["evaluation"] == mlp.result.evaluation
    assert written["policy"] == str(mlp.result.policy)


def test_export_writes_where_it_is_told(mlp: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "copy.onnx"
    assert export_command([str(mlp.folder), "--out", str(out)]) == 0
    assert capsys.readouterr().out.strip() == str(out)
    assert load_policy(out).contract.training == load_policy(mlp.result.policy).contract.training


def test_a_task_may_be_a_file_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import rlstack.tasks.catalog.quadrotor_hover as shipped

    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_hover_of_a_test.py").write_text(Path(shipped.__file__).read_text())
    recipe = parse_recipe("quadrotor_hover", ["--task", "my_hover_of_a_test.py"]).recipe
    assert recipe.task == str(tmp_path / "my_hover_of_a_test.py")
    assert asdict(recipe.task_settings.reward) == asdict(load_recipe("quadrotor_hover").task_settings.reward)
    monkeypatch.delitem(sys.modules, "my_hover_of_a_test")
