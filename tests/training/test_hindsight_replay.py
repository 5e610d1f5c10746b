"""Steps kept on disk: what comes back is what was, or what it would have been with another goal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from rlstack.errors import UserError
from rlstack.tasks.core.learning_environment import GoalStep
from rlstack.training.hindsight_replay import HindsightReplay
from tests.support.reaching import Reaching


def filled(environment: Reaching, steps: int, folder: Path | None = None) -> HindsightReplay:
    experience = HindsightReplay(environment, 4000, folder)
    experience.begin(environment.observe()[0])
    for _ in range(steps):
        action = 2.0 * torch.rand(environment.count, 2, generator=environment.generator) - 1.0
        experience.add(action, environment.step(action))
    return experience


def test_what_comes_back_is_what_was() -> None:
    environment = Reaching()
    experience = filled(environment, 50)
    assert len(experience) == 50 * environment.count
    batch = experience.sample(500)
    moved = batch["observation"][:, :2] + 0.1 * batch["action"]
    assert torch.allclose(batch["next_observation"][:, :2], moved, atol=1e-6)  # also at the end of an episode
    goal, after = (batch[n][:, :2] + batch[n][:, 2:] for n in ("observation", "next_observation"))
    assert torch.allclose(goal, after, atol=1e-6)  # never across episodes
    there = (batch["next_achieved"] - goal).norm(dim=1) < 0.1
    assert torch.equal(batch["reward"] == 0.0, there)
    assert torch.equal(batch["goes_on"] == 0.0, there)  # running out of time ends nothing for good


def test_hindsight_asks_for_what_was_reached_later_in_the_same_episode() -> None:
    environment = Reaching()
    experience = filled(environment, 60)
    batch = experience.sample(400, hindsight=0.5)
    other, own = slice(0, 200), slice(200, 400)
    goal = batch["observation"][:, :2] + batch["observation"][:, 2:]
    assert torch.allclose(
        goal[other], (batch["next_observation"][:, :2] + batch["next_observation"][:, 2:])[other], atol=1e-6
    )
    assert torch.equal(batch["reward"], environment.reward_of(batch["next_achieved"], goal))
    assert (batch["reward"][other] == 0.0).float().mean() > 0.2 > (batch["reward"][own] == 0.0).float().mean()
    assert (batch["goes_on"][other] == 1.0).all()
    # what is asked for was reached from there: no farther than the rest of the episode goes
    assert ((goal - batch["achieved"])[other].abs().amax(dim=1) < 0.1 * environment.task.steps + 1e-6).all()


class Cliff(Reaching):
    """Points beyond 1 are lost, at a price of 10."""

    def step(self, action: torch.Tensor) -> GoalStep:
        result = super().step(action)
        lost = (result.achieved > 1.0).any(dim=1) & ~result.success
        self.restart((lost & ~result.done).nonzero().flatten())
        reward = torch.where(lost, -10.0, result.reward)
        return replace(result, reward=reward, done=result.done | lost, timed_out=result.timed_out & ~lost)


@pytest.mark.parametrize("ahead", [1, 3])
def test_hindsight_gives_no_lost_step_back(ahead: int) -> None:
    environment = Cliff()
    experience = filled(environment, 200)
    batch = experience.sample(2000, hindsight=1.0, ahead=ahead)
    lost = (batch["next_achieved"] > 1.0).any(dim=1)
    assert lost.sum() > 20, "there are lost steps to learn from"
    assert (batch["goes_on"][lost] == 0.0).all() and (batch["reward"][lost] <= -10.0).all()
    assert (batch["goes_on"][~lost] > 0.0).all() and (batch["reward"][~lost] > -10.0).all()


def test_steps_outlive_the_object(tmp_path: Path) -> None:
    environment = Reaching()
    first = filled(environment, 20, tmp_path / "replay")
    drawn = first.buffer.gather(first.buffer.indices())
    first.close()
    again = HindsightReplay(environment, 4000, tmp_path / "replay")
    for name, array in again.buffer.gather(again.buffer.indices()).items():
        np.testing.assert_array_equal(array, drawn[name])


def test_several_steps_rewards_are_added_up_to_the_end_of_the_episode() -> None:
    environment = Reaching()
    experience = filled(environment, 60)
    gamma = 0.9
    for hindsight in (0.0, 1.0):
        state = experience.state_dict()
        one = experience.sample(300, hindsight)
        experience.load_state_dict(state)
        some = experience.sample(300, hindsight, 3, gamma)
        assert torch.equal(one["observation"], some["observation"])
        buffer, lanes = experience.buffer, experience.buffer.spec.lanes
        goal = one["observation"][:, :2] + one["observation"][:, 2:]
        _, last = buffer.bounds(one["index"].numpy())
        for k, index in enumerate(one["index"].tolist()):
            steps = [i for i in (index, index + lanes, index + 2 * lanes) if i < last[k]]
            rows = [buffer.gather(np.array([i])) for i in steps]
            after = [torch.from_numpy(row["next_achieved"][0]) for row in rows]
            rewards = [float(environment.reward_of(place, goal[k])) for place in after]
            assert some["reward"][k].item() == pytest.approx(sum(gamma**i * r for i, r in enumerate(rewards)), abs=1e-5)
            assert torch.allclose(some["next_observation"][k, :2], after[-1])
            assert torch.allclose(some["next_observation"][k].view(2, 2).sum(dim=0), goal[k], atol=1e-5)
            ends = 1.0 if hindsight else float(rows[-1]["goes_on"][0])
            assert some["goes_on"][k].item() == pytest.approx(ends * gamma ** (len(rows) - 1), abs=1e-6)


def test_a_capacity_that_holds_no_step_of_each_is_refused_in_words() -> None:
    environment = Reaching()
    with pytest.raises(UserError, match=rf"{environment.count} robots need at least two steps each"):
        HindsightReplay(environment, 3)
