"""The printed task: index, name, shape and unit of everything."""

from __future__ import annotations

import re

import pytest

from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.robots import load_robot
from rlstack.tasks import TASKS
from rlstack.tasks.core.pipeline import term_table
from rlstack.tasks.core.task_card import describe_task
from rlstack.tasks.quadrotor.privileged import privileged_terms
from rlstack.tasks.quadrotor.sampling import Randomisation
from tests.support.learning import small_task
from tests.support.robots import large


@pytest.fixture(scope="module")
def robot() -> Quadrotor:
    return load_quadrotor("crazyflie")


def section(text: str, title: str) -> str:
    return next(part for part in text.split("\n\n") if part.startswith(title))


def test_every_column_of_both_observations_has_its_row(robot: Quadrotor) -> None:
    task = small_task()
    text = describe_task(task, robot)
    pipeline = task.pipeline(robot)
    privileged = privileged_terms(task, robot).terms(robot, path=False)
    rows = [*pipeline.table(), *term_table(privileged, pipeline.size)]
    own, critics = section(text, "observation of the policy"), section(text, "privileged observation of the critic")
    for term in rows:
        last = term.start + term.size - 1
        index = f"{term.start}..{last}" if term.size > 1 else f"{term.start}"
        shown = own if term.start < pipeline.size else critics
        row = rf"^  {re.escape(index)} +{term.name} +\[{term.size}\] +{re.escape(term.unit)} +\S"
        assert re.search(row, shown, re.MULTILINE), (term, shown)
    assert f"{pipeline.size} columns" in own


def test_inputs_actions_rewards_endings_and_settings_are_shown_with_units(robot: Quadrotor) -> None:
    task = small_task()
    text = describe_task(task, robot)
    assert "100 Hz" in text and "0.5 s (50 steps)" in text
    assert re.search(r"2 +linear_velocity +\[3\] +m/s +base_link +odom: twist", section(text, "inputs"))
    assert re.search(r"3 +m4 +0 +2272.6 +rad/s", section(text, "actions"))
    for name, (weight, _) in task.reward_terms().items():
        assert re.search(rf" {name} +{weight:g} +1/s", section(text, "reward"))
    assert re.search(rf" lost +{task.reward.lost:g} +once", section(text, "reward"))
    assert "beyond lost_m = 1 m" in section(text, "endings")
    assert re.search(r"mass +0.9 .. 1.1", section(text, "randomisation"))
    assert re.search(r"delay_s +0 .. 0.02 +s", section(text, "randomisation"))
    assert re.search(r"tilt_rad +0.5 +rad", section(text, "start states"))
    assert re.search(r"linear_velocity_m_s +0.002 +m/s", section(text, "noise"))
    assert max(map(len, text.splitlines())) <= 120


def test_it_describes_any_robot_and_a_task_without_privileged_terms() -> None:
    task = small_task(randomisation=Randomisation(force_sigma=0.0, torque_sigma_m=0.0))
    text = describe_task(task, large())
    assert re.search(r"front_left +100 +1000 +rad/s", text)
    privileged = section(text, "privileged observation of the critic")
    assert len(privileged.splitlines()) == 4  # title, header, rule, rotor speeds


@pytest.mark.parametrize("name", ["quadrotor_tracking", "quadrotor_foundation"])
def test_paths_families_and_what_is_judged_are_shown(robot: Quadrotor, name: str) -> None:
    task = TASKS.load(name)()
    text = describe_task(task, robot)
    assert re.search(r"path_position +\[points, 3\] +m +odom +goal_path:\s+poses", section(text, "inputs"))
    assert re.search(r" reference +\[3\] +m ", section(text, "privileged observation of the critic"))
    judged, c = section(text, "success of a held-out flight"), task.criteria
    assert f"never farther than {c.radius_m:g} m from {c.from_s:g} s to {c.to_s:g} s of {c.duration_s:g} s" in judged
    passing = section(text, "pass bounds")
    assert re.search(rf"success, at least +{100 * task.bounds.limits['success']:g}% ", passing)
    assert re.search(rf"interventions?, at most +- +{100 * task.bounds_over_topics.limits['intervened']:g}%", passing)
    assert re.search(r" ahead_s +0[.\d]*(, 0[.\d]*)+ +s$", section(text, "settings of the observation"), re.MULTILINE)
    assert max(map(len, text.splitlines())) <= 120


def test_a_task_for_a_family_is_shown_with_its_vehicles_and_what_the_robot_file_gives(robot: Quadrotor) -> None:
    task = TASKS.load("quadrotor_foundation")()
    text = describe_task(task, robot)
    assert re.search(r"rotor_position +\[4, 3\] +m +base_link +robot file:\s+rotors\[\]", section(text, "inputs"))
    assert re.search(r"thrust_to_weight +1.5 .. 5 ", section(text, "vehicles of the family"))
    assert re.search(r" 1 +back right in the common frame +slowest +fastest", section(text, "actions"))
    assert re.search(r" resting +0.5", section(text, "other settings"))
    assert "\n\nstarts" not in text


BASES = {
    "base_navigation": "turtlebot3_burger",
    "base_crowd": "turtlebot2",
    "base_exploration": "turtlebot3_burger",
    "base_racing": "racecar",
}


@pytest.mark.parametrize("name", BASES)
def test_tasks_of_bases_say_their_own_rows(name: str) -> None:
    task, robot = TASKS.load(name)(), load_robot(BASES[name])
    text = describe_task(task, robot)
    pipeline = task.pipeline(robot)
    for term in pipeline.table():
        assert re.search(rf" {term.name} +\[{term.size}\] +\S", section(text, "observation of the policy"))
    assert len(section(text, "inputs").splitlines()) == 3 + len(task.inputs)
    assert len(section(text, "actions").splitlines()) == 3 + pipeline.action_size
    assert re.search(rf" lost +{task.reward.lost:g} +once$", section(text, "reward"), re.MULTILINE)
    assert "timed out" in section(text, "endings")
    assert "succeeds" in section(text, "success of a held-out")
    assert max(map(len, text.splitlines())) <= 120


def test_what_only_a_critic_sees_of_a_base_is_what_its_environment_says() -> None:
    task, robot = TASKS.load("base_racing")(tracks=1), load_robot("racecar")
    environment = task.environment(robot, task.pipeline(robot), 2, "cpu", 0)
    rows = environment.critic_table()
    assert rows[-1].start + rows[-1].size == environment.critic_size
    shown = section(describe_task(task, robot), "privileged observation of the critic")
    for term in rows[len(task.pipeline(robot).table()) :]:
        assert re.search(rf"^  {term.start} +{term.name} ", shown, re.MULTILINE)


def test_what_a_base_must_reach_and_how_robots_answer_is_shown() -> None:
    task = TASKS.load("base_navigation")()
    text = describe_task(task, load_robot("turtlebot3_burger"))
    asked = section(text, "pass bounds")
    assert re.search(rf"success, at least +{100 * task.bounds.limits['success']:g}% ", asked)
    assert re.search(rf"time over the planner's, at most +{task.bounds.limits['time_ratio']:g} ", asked)
    assert re.search(r"command_delay_s +0 .. 0.1 +s", section(text, "response of each robot"))
    assert re.search(r" ahead +-0.22 +0.22 +m/s", section(text, "actions"))
    assert re.search(r"margin_m +0.1 +m", section(text, "settings of the reward"))


@pytest.mark.parametrize(
    ("task", "robot", "why"),
    [
        (
            "quadrotor_hover",
            "turtlebot3_burger",
            "task for quadrotors; turtlebot3_burger is a wheeled base",
        ),
        ("quadrotor_foundation", "husky", "quadrotor_foundation is a task for quadrotors; husky is a wheeled base"),
        ("base_navigation", "crazyflie", "base_navigation is a task for wheeled bases; crazyflie is a quadrotor"),
        ("base_racing", "turtlebot3_burger", "steer like a car"),
    ],
)
def test_a_robot_that_a_task_is_not_for_is_refused(task: str, robot: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        describe_task(TASKS.load(task)(), load_robot(robot))
