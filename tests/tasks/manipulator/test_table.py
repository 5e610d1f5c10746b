"""Instructed tasks on a table: sentences, trials, the expert, chunks of actions, and images only where observed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from rlstack.errors import UserError
from rlstack.interfaces.instruction import decoded, split_words
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import load_robot
from rlstack.sim.visual_randomization import AppearanceRange
from rlstack.tasks.catalog.table_drawer import TableDrawerTask
from rlstack.tasks.catalog.table_pick import TablePickTask
from rlstack.tasks.catalog.table_push import WAYS, TablePushTask, behind
from rlstack.tasks.catalog.table_stack import TableStackTask
from rlstack.tasks.catalog.table_suite import SuiteRandomisation, TableSuiteTask
from rlstack.tasks.core.chunk_environment import NOT_THERE
from rlstack.tasks.core.image_streams import CameraRange
from rlstack.tasks.core.phrases import COLOURS
from rlstack.tasks.manipulator.expert import ABOVE, grasp, grasp_by_degrees
from rlstack.tasks.manipulator.phrases import BLOCKS
from rlstack.tasks.manipulator.table_task import ActionShift, TableRandomisation, TableTask
from rlstack.tasks.manipulator.table_trials import TableTrials
from rlstack.tasks.manipulator.trials import ArmNoise
from rlstack.verification.manipulation_score import score_arm
from rlstack.verification.manipulation_trials import judged
from tests.support.arms import small, small_panda

PANDA = small_panda(16)
SO100 = small(load_robot("so100"), 16)
PUSH = TablePushTask(pictures=CameraRange(look=AppearanceRange(shadows=0.0)))


DRAWER = TableDrawerTask(pictures=PUSH.pictures)
SUITE = TableSuiteTask(pictures=PUSH.pictures)
LATE = replace(SUITE, randomisation=SuiteRandomisation(command_delay_s=(0.1, 0.1), gains=(2.0, 2.0)))


@pytest.fixture(autouse=True)
def few_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inverse kinematics for a thousand starts would take most of the time."""
    monkeypatch.setattr("rlstack.tasks.manipulator.environment.STARTS", 64)


def drawn(task: TableTask, count: int, seed: int = 0) -> TableTrials:
    trials = task.draw(PANDA, np.random.default_rng(seed), count)
    assert isinstance(trials, TableTrials)
    return trials


def made(task: TableTask, count: int, robot: Manipulator = PANDA) -> Any:
    return task.environment(robot, task.pipeline(robot), count, "cpu", 0)


def said(trials: TableTrials) -> list[list[str]]:
    return [split_words(decoded(text)) for text in trials.instruction]


def whole(task: TableTask) -> TableTask:
    """Return the task with colour and shape in every sentence."""
    return replace(task, short=0.0, halves=0.0)


def test_the_sentence_names_the_object_and_the_goals_direction() -> None:
    trials = drawn(whole(PUSH), 60)
    left = {"left": "left", "right": "right", "away": "away", "forward": "away", "back": "back", "backward": "back"}
    names = {colour: name for name, colour in COLOURS.items()}
    for k, words in enumerate(said(trials)):
        (way,) = {left[word] for word in words if word in left}
        moved = (trials.goal[k] - trials.position[k])[:2]
        np.testing.assert_allclose(moved, PUSH.push_m * np.array(WAYS[way]), atol=1e-9)
        assert names[tuple(trials.colour[k, 0])] in words
        flat = trials.half[k, 2] < 0.5 * trials.half[k, 0]
        assert ("cube" if flat else "tile") not in words
        assert set(words) <= set(PUSH.text.words)


def test_held_out_sentences_ask_for_blocks_that_training_never_asks_for() -> None:
    names = {colour: name for name, colour in COLOURS.items()}
    for words, expected in (("train", False), ("held_out", True)):
        trials = drawn(replace(whole(PUSH), words=words), 40)  # type: ignore[arg-type]
        for k in range(len(trials)):
            shape = "tile" if trials.half[k, 2] < 0.5 * trials.half[k, 0] else "cube"
            assert ((names[tuple(trials.colour[k, 0])], shape) in BLOCKS.held_out) == expected
    trained = {" ".join(words) for words in said(drawn(PUSH, 300))}
    assert not trained & {" ".join(words) for words in said(drawn(replace(PUSH, words="held_out"), 100))}


@pytest.mark.parametrize("task", [TablePickTask(), TableStackTask(), SUITE])
def test_goals_are_what_sentences_say(task: TableTask) -> None:
    task = whole(task)
    trials, names = drawn(task, 60), {colour: name for name, colour in COLOURS.items()}
    top = trials.position[:, 2] + trials.half[:, 2]
    seen = set()
    for k, words in enumerate(said(trials)):
        first, second = (names[tuple(trials.colour[k, n])] for n in (0, 1))
        goal = trials.goal[k]
        if "on" in words:
            seen.add("stack")
            assert words.index(first) < words.index(second, words.index(first) + 1)
            lower = trials.beside_position[k, 0]
            assert np.array_equal(goal[:2], lower[:2])
            assert goal[2] == pytest.approx(2.0 * lower[2] + trials.half[k, 2])
        elif {"left", "right", "away", "forward", "back", "backward"} & set(words):
            seen.add("push")
            assert np.linalg.norm((goal - trials.position[k])[:2]) == pytest.approx(PUSH.push_m)
        else:
            seen.add("pick")
            assert np.array_equal(goal[:2], trials.position[k, :2]) and goal[2] > top[k] + 0.05
        assert first in words and set(words) <= set(task.text.words)
        assert not task.done(task.achieved(np.ones((1, 3)), trials.position[k : k + 1]), goal[None])[0]
        assert task.done(task.achieved(np.ones((1, 3)), goal[None]), goal[None])[0]
    assert len(seen) == (3 if isinstance(task, TableSuiteTask) else 1)


def test_a_smaller_arm_has_smaller_blocks_and_shorter_ways() -> None:
    trials = PUSH.draw(SO100, np.random.default_rng(0), 20)
    moved = np.linalg.norm((trials.goal - trials.position)[:, :2], axis=1)
    np.testing.assert_allclose(moved, 0.5 * PUSH.push_m)
    assert trials.half.max() < 0.016 and PUSH.fitted(SO100).tolerance_m == 0.5 * PUSH.tolerance_m
    assert PUSH.fitted(PANDA) == PUSH
    with pytest.raises(UserError, match="so100 has 5 joints, and this task needs 6"):
        TablePickTask().reference(SO100)


def test_a_drawer_is_named_by_its_side_or_its_colour_and_shown_where_it_stands() -> None:
    trials, names = drawn(DRAWER, 40), {colour: name for name, colour in COLOURS.items()}
    sides = {"left": 1.0, "right": -1.0}
    by_side = 0
    for k, words in enumerate(said(trials)):
        (which,) = [word for word in words if word in sides or word in COLOURS]
        by_side += which in sides
        assert (
            np.sign(trials.position[k, 1]) == sides[which]
            if which in sides
            else names[tuple(trials.colour[k, 0])] == which
        )
        assert np.sign(trials.beside_position[k, 0, 1]) == -np.sign(trials.position[k, 1])
        assert not np.array_equal(trials.colour[k, 0], trials.colour[k, 1])
    assert 5 < by_side < 35
    np.testing.assert_allclose(np.linalg.norm(trials.goal - trials.position, axis=1), DRAWER.open_m)
    env = made(DRAWER, 4, small_panda(48))
    env.restart(torch.arange(4))
    seen, _ = env.observe()
    images = seen[:, -48 * 48 * 3 :].reshape(4, 48, 48, 3).numpy()
    for k in range(4):
        away = np.abs(images[k][:, :, None] / 255.0 - env.table.asked["colour"][k]).sum(
            axis=-1
        )  # rows, columns, drawers
        nearest = [np.argsort(away[..., n].ravel())[:30] % 48 for n in range(2)]
        left = np.sign(env.scene.handled()[k, 1])  # the camera looks back: the arm's left is its right
        assert left * (nearest[0].mean() - nearest[1].mean()) > 10.0
    env.close()


def test_another_instruction_leaves_the_trial_as_it_is() -> None:
    normal, swapped, blank = (drawn(replace(PUSH, instruction=one), 30) for one in ("normal", "swapped", "blank"))  # type: ignore[arg-type]
    for other in (swapped, blank):
        assert np.array_equal(normal.goal, other.goal) and np.array_equal(normal.colour, other.colour)
    assert not blank.instruction.any()
    assert not any(np.array_equal(a, b) for a, b in zip(normal.instruction, swapped.instruction))


def test_blocks_are_apart_and_off_the_way() -> None:
    trials = drawn(replace(PUSH, blocks=4), 50)
    place = np.concatenate([trials.position[:, None], trials.beside_position], axis=1)[..., :2]
    away = np.linalg.norm(place[:, :, None] - place[:, None], axis=-1) + np.eye(4)
    assert away.min() >= PUSH.apart_m
    ends = np.linalg.norm(trials.beside_position[..., :2] - trials.goal[:, None, :2], axis=-1)
    assert ends.min() > 0.085


def test_the_expert_of_pushes_goes_down_by_degrees_towards_the_place_behind_the_block() -> None:
    pipeline, expert = PUSH.pipeline(PANDA), PUSH.expert()
    far = behind(PUSH)
    ready, low, high = np.array([0.5 - far, 0.0]), 0.3 * far, 0.55 * far
    tool = np.array([[ready[0], ready[1] + gap, 0.11] for gap in (0.0, low, 0.4 * far, high, far)])
    seen = {"tool_position": tool, "target_position": tool}
    seen["object_position"], seen["goal_position"] = (
        np.tile([[0.5, 0.0, 0.02]], (5, 1)),
        np.tile([[0.57, 0, 0.02]], (5, 1)),
    )
    down = expert.act(seen, pipeline)[:, 2] / np.abs(expert.act(seen, pipeline)[:, :2]).max(axis=1).clip(1e-6)
    assert (np.diff(down) > 0.0).all()
    assert down[-1] == pytest.approx(0.0, abs=1e-6)


def test_the_expert_of_pushes_rises_from_a_block_that_is_at_its_goal_and_stays_there() -> None:
    pipeline, expert = PUSH.pipeline(PANDA), PUSH.expert()
    tool = np.array([[0.5 - behind(PUSH), 0.0, 0.02]])
    seen = {"tool_position": tool, "target_position": tool, "object_position": np.array([[0.5, 0.0, 0.02]])}
    there = expert.act({**seen, "goal_position": np.array([[0.502, 0.0, 0.02]])}, pipeline)
    assert np.abs(there[0, :2]).max() < 1e-6 and there[0, 2] > 0.5
    pushes = expert.act({**seen, "goal_position": np.array([[0.56, 0.0, 0.02]])}, pipeline)[0]
    assert 0.2 < pushes[0] < 0.5, "it pushes slowly, so that a plan in chunks can still stop it"
    high = tool + np.array([0.0, 0.0, 0.09])
    above = {**seen, "tool_position": high, "target_position": high}
    stays = expert.act({**above, "goal_position": np.array([[0.519, 0.0, 0.02]])}, pipeline)
    assert stays[0, 2] > -0.2, "it does not begin again within the tolerance"
    assert expert.act({**above, "goal_position": np.array([[0.54, 0.0, 0.02]])}, pipeline)[0, 2] < -0.5


def test_a_hand_comes_down_to_a_grasp_the_nearer_it_is_without_a_threshold() -> None:
    pipeline, level = SUITE.pipeline(PANDA), np.linspace(0.0, 0.04, 81)
    none = np.zeros(81)
    tool = np.stack([0.5 + level, none, none + 0.11], axis=1)
    seen = {"tool_position": tool, "target_position": tool, "object_position": np.tile([0.5, 0.0, 0.022], (81, 1))}
    for name in ("tool_yaw", "target_yaw"):
        seen[name] = np.tile([1.0, 0.0], (81, 1))
    seen["object_orientation"] = np.tile([0.0, 0.0, 0.0, 1.0], (81, 1))
    seen |= {name: np.ones((81, 1)) for name in ("opening", "opening_target")}
    seen["joint_velocity"] = np.zeros((81, pipeline.arm + 2))
    found = grasp_by_degrees(seen, pipeline)
    height = found.place[:, 2] - 0.022
    assert height[0] == pytest.approx(0.0) and height[-1] == pytest.approx(ABOVE)
    steps = np.diff(height)
    assert steps.min() >= 0.0 and steps.max() < 0.1 * ABOVE, "no step in what images tell to some millimetres"
    assert np.abs(np.diff(grasp(seen, pipeline).place[:, 2])).max() > 0.9 * ABOVE
    low = {**seen, "tool_position": tool - [0.0, 0.0, 0.08], "target_position": tool - [0.0, 0.0, 0.08]}
    place = grasp_by_degrees(low, pipeline).place[-1]
    assert place[0] == pytest.approx(0.54) and place[2] > 0.09, "up before across"


@pytest.mark.parametrize(
    ("task", "robot", "count", "steps"),
    [
        (PUSH, PANDA, 6, 45),
        (PUSH, SO100, 6, 55),
        (DRAWER, PANDA, 4, 60),
        (SUITE, PANDA, 12, 110),
        (LATE, PANDA, 12, 115),
    ],
)
def test_the_expert_does_what_the_sentence_says_and_moves_no_other_block(
    task: TableTask, robot: Manipulator, count: int, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = made(task, count, robot)
    black = np.zeros((16, 16, 3), np.uint8)  # the expert does not look
    monkeypatch.setattr(env.scene.cameras.renderer, "render", lambda *arguments: black)
    env.restart(torch.arange(count))
    env.autoreset = False
    env.observe()
    lost, result = np.zeros(count, bool), None
    for _ in range(steps):
        result = env.chunk_step(env.expert_action()[:, None])
        lost |= (result.done & ~result.timed_out).numpy()
    env.close()
    assert result is not None and result.success.float().mean() >= 0.9 and lost.mean() < 0.1


def test_moving_another_block_fails_the_trial() -> None:
    env = made(PUSH, 2)
    env.restart(torch.arange(2))
    env.observe()
    name = env.scene.names[0]
    place, turn = env.worlds.pose(name)
    env.worlds.place(np.array([1]), name, place[1:] + np.array([0.03, 0.0, 0.0]), turn[1:])
    result = env.chunk_step(torch.zeros(2, 1, 3))
    assert result.done.tolist() == [False, True] and not result.timed_out.any()
    env.close()


def test_a_sentence_of_training_for_a_held_out_block_says_half_of_what_it_is() -> None:
    rng, nouns, seen = np.random.default_rng(0), {"cube", "tile", "block"}, set()
    for _ in range(300):
        blocks = BLOCKS.draw(rng, "train", 3, SUITE.alike, SUITE.named, SUITE.halves)
        held_out = [BLOCKS.is_held_out(block) for block in blocks]
        for which in range(SUITE.named):
            words = set(SUITE.describe(rng, blocks, which).split())
            colours, things = words & set(COLOURS), words & nouns
            assert words <= set(SUITE.text.words)
            assert held_out[which] <= (len(colours) + len(things) == 1)
            fits = [
                block for block in blocks if colours <= {block.colour} and things <= set(BLOCKS.shapes[block.shape])
            ]
            assert fits == [blocks[which]]
            seen.add((held_out[which], len(colours), len(things)))
    assert seen == {(True, 1, 0), (True, 0, 1), (False, 1, 1), (False, 1, 0), (False, 0, 1)}
    blocks = BLOCKS.draw(rng, "held_out", 3, 0.1, SUITE.named, SUITE.halves)
    said = replace(SUITE, words="held_out").describe(rng, blocks, 0).split()
    assert BLOCKS.is_held_out(blocks[0]) and blocks[0].colour in said and nouns & set(said)


def test_named_blocks_and_the_hand_are_followed_in_images_rendered_or_not() -> None:
    env = made(SUITE, 12)
    env.restart(torch.arange(12))
    env.observe()
    known, stacks = env.image_places(), SUITE.kinds_of(env.scene.goal) == "stack"
    assert known.shape == (12, 1, 3, 5), "two blocks and the hand: right, down, tile or cube, cos and sin of four yaws"
    places = known[..., :2]
    assert (places[:, 0, 0].abs() < 1.0).all() and 0 < stacks.sum() < 12
    assert (places[~stacks, 0, 1] == NOT_THERE).all()
    np.testing.assert_allclose(places[stacks, 0, 1], env.scene.cameras.places()[stacks, 0, 1], atol=1e-6)
    across = np.stack([env.scene.handled()[:, 1], env.scene.tool()[:, 1]], axis=1)  # to the left, here to the right
    assert np.corrcoef(across.flatten(), places[:, 0, [0, 2], 0].flatten())[0, 1] > 0.95
    half, (_, turned) = env.scene.drawn["half"], env.worlds.pose("object")
    assert torch.equal(known[:, 0, 0, 2] > 0.0, torch.from_numpy(half[:, 2] < half[:, 0]))
    yaw = 2.0 * np.arctan2(turned[:, 2], turned[:, 3])
    np.testing.assert_allclose(known[:, 0, 0, 3:], np.stack([np.cos(4.0 * yaw), np.sin(4.0 * yaw)], axis=1), atol=1e-3)
    assert not known[:, 0, 2, 2:].any()
    env.render(False)
    env.seed(7)
    env.restart(torch.arange(12))
    assert not env.observe()[0][:, -300:].any()
    unseen = env.image_places()
    env.render(True)
    env.seed(7)
    env.restart(torch.arange(12))
    assert env.observe()[0][:, -300:].any()
    assert torch.equal(env.image_places(), unseen)
    env.close()


def test_training_may_draw_harder_scenes_than_trials() -> None:
    more = SuiteRandomisation(alike=1.0, kinds=("stack",))
    task = replace(SUITE, short=0.0, halves=0.0, randomisation=more)
    assert task.practised() == replace(task, alike=1.0, kinds=("stack",)) and SUITE.practised() == SUITE
    assert replace(SUITE, alike=0.3).practised().alike == 0.3
    env = made(task, 16)
    env.restart(torch.arange(16))
    assert (env.task.kinds_of(env.scene.goal) == "stack").all()
    colours = env.scene.asked["colour"]
    assert (colours[:, 0] == colours[:, 2]).all(), "a twin of the instructed block"
    judged_by = drawn(task.judged(), 60)
    assert set(task.kinds_of(judged_by.goal)) == {"push", "pick", "stack"}
    assert (judged_by.colour[:, 0] == judged_by.colour[:, 2]).all(axis=1).mean() < 0.3
    env.close()
    assert replace(task, kinds=("push",)).practised().kinds == ("push",)
    with pytest.raises(ValueError, match=r"randomisation: alike: 0\.5 is not allowed: drawers"):
        TableDrawerTask(randomisation=TableRandomisation(alike=0.5))


def test_results_are_told_apart_by_what_was_asked() -> None:
    trials = drawn(SUITE, 30)
    kinds = SUITE.kinds_of(trials.goal)
    achieved = np.where((kinds == "pick")[:, None], trials.goal, trials.position)
    record = judged(SUITE, np.tile(achieved, (30, 1, 1)), trials.goal, np.zeros((30, 30), bool), "batch")
    figures = record.figures()
    assert (figures["success_pick"], figures["success_push"], figures["success_stack"]) == (1.0, 0.0, 0.0)
    groups = score_arm(record, "there").groups
    assert groups["pick"]["success"] == 1.0 and groups["stack"]["episodes"] == (kinds == "stack").sum()
    assert not any(
        name.startswith("success_")
        for name in judged(
            PUSH, np.tile(achieved, (30, 1, 1)), trials.goal, np.zeros((30, 30), bool), "batch"
        ).figures()
    )


def test_a_chunk_is_its_steps_with_one_rendering_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = replace(PUSH, noise=ArmNoise(joint_rad=0.0, joint_velocity_rad_s=0.0))
    one, other = made(quiet, 3), made(quiet, 3)
    actions = torch.rand(3, 8, 3, generator=torch.Generator().manual_seed(0)) * 2.0 - 1.0
    for env in (one, other):
        env.restart(torch.arange(3))
        env.observe()
    rendered, render = [], one.scene.cameras.renderer.render

    def counted(*arguments: Any) -> Any:
        rendered.append(arguments)
        return render(*arguments)

    monkeypatch.setattr(one.scene.cameras.renderer, "render", counted)
    chunk = one.chunk_step(actions)
    assert len(rendered) == 3, "one camera of each arm, though six images were taken"
    steps = [other.step(action) for action in actions.unbind(dim=1)]
    torch.testing.assert_close(chunk.actor, steps[-1].actor, atol=1e-5, rtol=0.0)
    torch.testing.assert_close(chunk.reward, torch.stack([step.reward for step in steps]).sum(dim=0))
    assert chunk.steps.tolist() == [8, 8, 8] and not chunk.done.any()
    torch.testing.assert_close(one.privileged(), chunk.privileged)
    one.close()
    other.close()


def test_an_episode_that_ends_within_a_chunk_counts_until_then() -> None:
    env = made(PUSH, 2)
    env.restart(torch.arange(2))
    env.observe()
    env._age[:] = PUSH.steps - np.array([3, 100])
    result = env.chunk_step(torch.zeros(2, 8, 3))
    assert result.steps.tolist() == [3, 8] and result.done.tolist() == result.timed_out.tolist() == [True, False]
    assert result.reward.tolist() == [-3.0, -8.0] and env._age.tolist() == [0, PUSH.steps - 92]
    assert not result.next_actor[0, -100:].any() and result.actor[0, -100:].any()
    assert not torch.equal(result.next_privileged[0], result.privileged[0])
    assert torch.equal(result.next_privileged[1], result.privileged[1])
    env.close()


def test_a_run_goes_on_with_its_blocks_and_sentences() -> None:
    one, other = made(PUSH, 2), made(replace(PUSH, words="held_out"), 2)
    one.observe()
    other.load_state_dict(one.state_dict())
    action = torch.full((2, 4, 3), 0.5)
    mine, theirs = one.chunk_step(action), other.chunk_step(action)
    assert torch.equal(mine.actor, theirs.actor) and torch.equal(mine.privileged, theirs.privileged)
    one.close()
    other.close()


def test_the_shift_turns_and_scales_the_tools_motion() -> None:
    shifted = replace(PUSH, action_shift=ActionShift(yaw_rad=np.pi / 2, gain=0.5))
    quiet = {"noise": ArmNoise(joint_rad=0.0, joint_velocity_rad_s=0.0)}
    moved = []
    for task, action in ((PUSH, (0.0, 0.5, 0.25)), (shifted, (1.0, 0.0, 0.5))):
        env = made(replace(task, **quiet), 1)
        env.restart(torch.arange(1))
        env.observe()
        env.chunk_step(torch.tensor([[action] * 3]))
        moved.append(env.scene.tool())
        env.close()
    np.testing.assert_allclose(*moved, atol=1e-6)
