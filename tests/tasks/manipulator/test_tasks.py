"""Tasks of arms: their experts do them, and what is learned from is what is judged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.errors import UserError
from rlstack.robots import load_robot
from rlstack.sim.visual_randomization import AppearanceRange
from rlstack.tasks import TASKS
from rlstack.tasks.core.image_streams import CameraRange
from rlstack.tasks.core.learning_environment import GoalStep, failed
from rlstack.tasks.core.task_card import describe_task
from rlstack.tasks.manipulator import observations
from rlstack.tasks.manipulator.environment import ArmEnvironment
from rlstack.tasks.manipulator.trials import OBJECT, ObjectRange, Region, Starts, draw_objects
from tests.support.arms import small_panda

NAMES = [name for name in TASKS.names() if name.startswith("arm_")]


PANDA = small_panda(16)


@pytest.fixture(autouse=True)
def few_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding a thousand places of the arm takes longer than most tests."""
    monkeypatch.setattr("rlstack.tasks.manipulator.environment.STARTS", 64)


def environment(name: str, count: int = 4, seed: int = 0, **changes: Any) -> ArmEnvironment:
    task = replace(TASKS.load(name)(), **changes)
    if hasattr(task, "pictures"):  # few of them, which take most of the time
        task = replace(task, pictures=CameraRange(rate_hz=(2.0, 4.0), look=AppearanceRange(shadows=0.0)))
    made = task.environment(PANDA, task.pipeline(PANDA), count, "cpu", seed)
    assert isinstance(made, ArmEnvironment)
    return made


@pytest.mark.parametrize("name", NAMES)
def test_the_scripted_expert_does_it(name: str) -> None:
    # every trial is its own draw; 98% and more of 500 succeed, measured apart from this (benchmarks/arm_experts.py)
    count = 12
    some = environment(name, count, seed=1)
    some.restart(torch.arange(count))
    won, over = torch.zeros(count, dtype=torch.bool), torch.zeros(count, dtype=torch.bool)
    for _ in range(some.task.steps):
        step = some.step(some.expert_action())
        won, over = won | (step.success & ~over), over | step.done
    assert int(won.sum()) >= 11
    some.close()


@pytest.mark.parametrize("name", NAMES)
def test_steps_are_what_learning_needs(name: str) -> None:
    some = environment(name, rewards="sparse", episode_s=0.4)
    actor, critic = some.observe()
    assert actor.shape == (4, some.pipeline.size) == (4, some.critic_size) and torch.equal(actor, critic)
    generator = torch.Generator().manual_seed(0)
    ended = 0
    for _ in range(20):
        achieved, desired = some.achieved_goal(), some.desired_goal()
        again = some.relabelled(actor, achieved, desired)
        torch.testing.assert_close(again, actor, atol=1e-5, rtol=0.0)
        step = some.step(2.0 * torch.rand(4, some.pipeline.action_size, generator=generator) - 1.0)
        torch.testing.assert_close(step.reward, some.reward_of(step.achieved, step.desired))
        assert torch.equal(step.desired, desired)
        kept = ~step.done
        assert torch.equal(step.actor[kept], step.next_actor[kept])
        if step.done.any():
            assert not torch.equal(step.actor[step.done], step.next_actor[step.done])
        ended += int(step.timed_out.sum())
        actor = step.actor
    assert ended >= 8, "episodes of 8 steps"
    assert step.terms.keys() == set(some.term_names()) == {"sparse"}
    some.close()


@pytest.mark.parametrize("name", NAMES)
def test_it_goes_on_exactly_from_its_state(name: str) -> None:
    one, other = (environment(name, episode_s=0.4) for _ in range(2))
    actions = 2.0 * torch.rand(12, 4, one.pipeline.action_size, generator=torch.Generator().manual_seed(1)) - 1.0
    for action in actions[:5]:
        one.step(action)
    other.step(actions[0])
    other.load_state_dict(one.state_dict())
    for action in actions[5:]:
        mine, theirs = one.step(action), other.step(action)
        assert torch.equal(mine.actor, theirs.actor) and torch.equal(mine.reward, theirs.reward)
        assert torch.equal(mine.done, theirs.done)
    one.close()
    other.close()


@pytest.mark.parametrize("name", NAMES)
def test_another_goal_changes_the_goals_columns_alone_and_what_is_there_is_rewarded(name: str) -> None:
    some = environment(name)
    actor, _ = some.observe()
    achieved, goal = some.achieved_goal(), some.achieved_goal()
    seen = some.relabelled(actor, achieved, goal)
    (row,) = (term for term in some.pipeline.table() if term.name == "goal_offset")
    changed = slice(row.start, row.start + row.size)
    here = observations.DECIMETRES * (goal - torch.tensor(some.task.workspace.middle))  # where a goal stands by itself
    # what the policy sees is noisy; arm_insert sees closely
    noise = 5.0 * some.task.noise.object_m / (0.005 if name == "arm_insert" else 0.1)
    would = here if hasattr(some.task, "pictures") else torch.zeros(4, row.size)
    torch.testing.assert_close(seen[:, changed], would, atol=noise, rtol=0.0)
    seen[:, changed] = actor[:, changed]
    assert torch.equal(seen, actor)
    assert (some.reward_of(achieved, goal) == 0.0).all()
    assert (some.reward_of(achieved, goal + 0.2) == -1.0).all()
    some.close()


@pytest.mark.parametrize("name", NAMES)
def test_the_table_shows_it(name: str) -> None:
    text = describe_task(TASKS.load(name)(), PANDA)
    assert "joint_states: position" in text and "commanded as joint_target" in text and "goal_offset" in text


def test_a_world_whose_numbers_broke_is_lost_and_starts_anew() -> None:
    some = environment("arm_push")
    some.observe()
    some.scene.worlds.state[2, -1] = np.nan
    step = some.step(torch.zeros(4, 3))
    assert step.done.tolist() == [False, False, True, False] and not step.timed_out[2]
    assert torch.isfinite(step.actor).all() and torch.isfinite(step.next_actor).all()
    assert torch.isfinite(step.reward).all()
    some.close()


MADE = {name: TASKS.load(name)() for name in NAMES}
POINT = st.tuples(st.floats(0.2, 0.8), st.floats(-0.4, 0.4), st.floats(0.0, 0.6))


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(NAMES), POINT, POINT, st.floats(0.0, 1.0))
def test_rewards_are_told_from_what_is_achieved(name: str, at: Any, goal: Any, share: float) -> None:
    task = MADE[name]
    here, there = np.array([at]), np.array([goal])
    done = bool(task.done(here, there)[0])
    assert task.reward_of(here, there)[0] == (0.0 if done else -1.0)
    assert task.done(there, there)[0] and task.reward_of(there, there)[0] == 0.0
    # seen from above: a box that is pushed has no height to reach
    if np.linalg.norm((here - there)[0, :2]) > task.tolerance_m:
        assert not done
    # nearer on the straight way is never worse, and so many at once are each what they are alone
    between = share * here + (1.0 - share) * there
    both = task.reward_of(np.concatenate([here, between]), np.concatenate([there, there]))
    assert both[0] == task.reward_of(here, there)[0] and both[1] >= both[0]
    tool, thing = here, there
    achieved = task.achieved(tool, thing)
    assert achieved.shape == (1, 3) and np.isfinite(achieved).all()


def test_what_is_held_to_the_end_is_a_success_in_the_last_step() -> None:
    some = environment("arm_reach", 6, seed=3)
    some.restart(torch.arange(6))
    for _ in range(some.task.steps):
        step = some.step(some.expert_action())
    assert step.timed_out.all() and step.success.all()
    some.close()


def ended(name: str, **changes: Any) -> GoalStep:
    """Return the step in which the first of two boxes is lost, and the second is where it should be."""
    some = environment(name, 2, hold_s=0.05, ends=True, **changes)
    some.restart(torch.arange(2))
    where = some.scene.goal.copy()
    where[0, 0] = 2.0
    some.scene.worlds.place(np.arange(2), OBJECT, where, np.tile([0.0, 0.0, 0.0, 1.0], (2, 1)))
    step = some.step(torch.zeros(2, 3))
    some.close()
    return step


@pytest.mark.parametrize("rewards", ["sparse", "dense"])
def test_to_lose_the_object_is_no_way_out_and_to_be_done_no_loss(rewards: str) -> None:
    step = ended("arm_push", rewards=rewards)
    assert step.done.tolist() == [True, True] and step.success.tolist() == [False, True]
    assert failed(step).tolist() == [True, False]
    if rewards == "dense":
        # what would be earned by staying there counts: an end would take it away
        assert step.timed_out.tolist() == [False, True]
        assert step.terms["lost"].tolist() == [-5.0, 0.0] and step.reward[0] < -5.0
    else:
        assert step.timed_out.tolist() == [False, False] and step.reward.tolist() == [-1.0, 0.0]


@pytest.mark.parametrize(
    ("rate_hz", "said"), [(30.0, "panda is controlled at 100 Hz"), (1000.0, "is controlled at 100")]
)
def test_a_rate_that_does_not_come_out_even_is_refused(rate_hz: float, said: str) -> None:
    with pytest.raises(UserError, match=rf"rate_hz: {rate_hz:g} is not allowed: .*{said}.*no whole multiple"):
        replace(TASKS.load("arm_reach")(), rate_hz=rate_hz).reference(PANDA)
    with pytest.raises(UserError, match=r"rate_hz: 80 is not allowed: arms are simulated at 200 Hz"):
        replace(TASKS.load("arm_reach")(), rate_hz=80.0).reference(replace(PANDA, control_rate_hz=400.0))


def test_settings_that_nothing_would_come_of_are_refused() -> None:
    drawer = TASKS.load("arm_drawer")()
    for wrong, said in (
        (
            {"goals": Region(x_m=(0.5, 0.6))},
            "goals is not allowed with arm_drawer: how far drawers are pulled is open_m",
        ),
        ({"places": Region(z_m=(0.2, 0.25))}, "places: z_m is not allowed .* 0.1 m above the table"),
        ({"tab": replace(drawer.tab, yaw_rad=0.3)}, "tab: yaw_rad is not allowed .* cabinets face the arm"),
    ):
        with pytest.raises(UserError, match=said):
            replace(drawer, **wrong).reference(PANDA)
    with pytest.raises(ValueError, match=r"hold_s: 6 is not allowed: .* 5 s"):
        replace(TASKS.load("arm_push")(), hold_s=6.0)
    with pytest.raises(ValueError, match=r"half_m: .* the lower end must come first"):
        ObjectRange(half_m=(0.023, 0.018))
    with pytest.raises(ValueError, match=r"latency_s: .* the lower end must come first"):
        CameraRange(latency_s=(0.1, 0.0))
    with pytest.raises(ValueError, match=r"sun: .* the lower end must come first"):
        AppearanceRange(sun=(0.7, 0.2))


def test_what_a_policy_was_trained_for_names_no_height_that_was_not_drawn() -> None:
    for name, axes in (("arm_push", "xy"), ("arm_stack", "xy"), ("arm_pick_place", "xyz")):
        told = {key for key in TASKS.load(name)().envelope() if key.startswith("goal_")}
        assert told == {f"goal_{axis}_{end}_m" for axis in axes for end in ("min", "max")}


def test_the_script_that_pushes_goes_on_until_it_is_as_near_as_asked() -> None:
    some = environment("arm_push", 8, seed=1, tolerance_m=0.01)
    some.restart(torch.arange(8))
    won = torch.zeros(8, dtype=torch.bool)
    for _ in range(some.task.steps):
        won |= some.step(some.expert_action()).success
    assert int(won.sum()) >= 6  # and 3 or 4 where it stops 15 mm away
    some.close()


def test_a_policy_that_sees_is_asked_for_no_more_over_topics() -> None:
    task = TASKS.load("arm_pick_place_camera")()
    assert task.bounds_over_topics.limits["success"] < task.bounds.limits["success"]
    assert task.bounds_over_topics.limits["lost"] == task.bounds.limits["lost"]


def test_bad_settings_and_robots_are_refused_in_words() -> None:
    task = TASKS.load("arm_pick_place")()
    with pytest.raises(UserError, match=r"for manipulators; crazyflie is a quadrotor\. Give --robot one of .*panda"):
        task.reference(load_robot("crazyflie"))
    with pytest.raises(UserError, match="panda_pair is 2 arms; this task is for one: --robot panda"):
        task.reference(load_robot("panda_pair"))
    with pytest.raises(UserError, match="panda has no gripper, which this task needs"):
        task.reference(replace(PANDA, gripper=()))
    with pytest.raises(UserError, match="panda has no gripper, which this task needs"):
        TASKS.load("arm_insert")().reference(replace(PANDA, gripper=()))
    endless = replace(PANDA.joints[6], position_min_rad=None, position_max_rad=None)
    with pytest.raises(UserError, match="panda: panda_joint7 can turn without limit, and a policy file needs"):
        task.reference(replace(PANDA, joints=(*PANDA.joints[:6], endless)))
    with pytest.raises(UserError, match=r"There is no device 'cuda:99'|CUDA needs Warp"):
        task.environment(PANDA, task.pipeline(PANDA), 2, "cuda:99", 0)
    with pytest.raises(UserError, match="cannot hold its tool in most of the region"):
        far = replace(task, starts=Region(x_m=(1.5, 1.6), y_m=(0.0, 0.1), z_m=(0.2, 0.3)))
        far.draw(PANDA, np.random.default_rng(0), 10)
    with pytest.raises(ValueError, match=r"x_m: .* the lower end must come first"):
        Region(x_m=(0.5, 0.4))
    with pytest.raises(UserError, match="apart_m: 5 is not allowed"):
        draw_objects(task.box, task.places, task.goals, 5.0, np.random.default_rng(0), _nowhere())


def _nowhere() -> Starts:
    return Starts(np.zeros((3, 9)), np.zeros((3, 3)))
