"""A classifier of success against the task's own measure."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from rlstack.errors import UserError
from rlstack.training.reward_classifier import ClassifiedEnvironment, RewardClassifierSettings
from tests.support.reaching import Reaching, ReachTask

QUICK = RewardClassifierSettings(shown=3000, updates=400, threshold=0.85, hidden=(32, 32), learning_rate=5e-3)


class Endless(Reaching):
    """Success does not end it."""

    def step(self, action: torch.Tensor):  # type: ignore[no-untyped-def]
        kept = self.goal.clone(), self.place.clone(), self.age.clone()
        result = super().step(action)
        won = result.success
        place = kept[1] + 0.1 * action.clamp(-1.0, 1.0)
        self.goal[won], self.place[won], self.age[won] = kept[0][won], place[won], kept[2][won] + 1
        out = won & (self.age >= self.task.steps)
        self.restart(out.nonzero().flatten())
        timed_out = result.timed_out | out
        seen = self.observe()[0]
        return replace(result, actor=seen, critic=seen, done=timed_out, timed_out=timed_out)


@pytest.fixture(scope="module")
def judged() -> ClassifiedEnvironment:
    torch.manual_seed(0)
    environment = ClassifiedEnvironment(Endless(32), QUICK, seed=3)
    environment.learn()
    return environment


@pytest.mark.parametrize("count", [1, 3])
def test_half_of_the_episodes_it_is_shown_are_blunders(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = ClassifiedEnvironment(Endless(count), replace(QUICK, shown=800 * count, stray=0.0), seed=3)
    expert, steps = environment.inner.expert_action, []
    step = environment.inner.step

    def stepped(action: torch.Tensor):  # type: ignore[no-untyped-def]
        steps.append((action - expert().clamp(-1.0, 1.0)).abs().amax(dim=1) > 1e-6)
        return step(action)

    monkeypatch.setattr(environment.inner, "step", stepped)
    environment._examples()
    assert 0.25 < torch.stack(steps).float().mean() < 0.75


def test_it_tells_what_is_done_of_steps_it_was_not_shown(judged: ClassifiedEnvironment) -> None:
    assert judged.figures["precision"] > 0.9
    assert judged.figures["recall"] > 0.5  # it must be sure
    offset = torch.tensor([[0.0, 0.0], [0.02, 0.01], [0.5, 0.0], [0.0, -0.4]])
    assert judged.predict(torch.cat([torch.zeros(4, 2), offset], dim=1)).tolist() == [True, True, False, False]


def test_it_ends_episodes_and_earns_by_the_classifier_alone(judged: ClassifiedEnvironment) -> None:
    judged.restart(torch.arange(32))
    judged.observe()
    finished = 0
    for _ in range(40):
        before = judged.inner.desired_goal().clone()
        result = judged.step(judged.expert_action())
        told = judged.predict(result.next_actor)
        assert torch.equal(result.reward == 0.0, told)
        assert torch.equal(result.success, told)  # this task asks for one step
        assert (result.done >= result.success).all()
        assert not (result.timed_out & result.success).any()
        changed = (judged.inner.desired_goal() != before).any(dim=1)
        assert torch.equal(changed, result.done)
        assert torch.equal(result.actor, judged.inner.observe()[0])
        finished += int(result.success.sum())
    assert finished > 50


def test_it_goes_on_from_its_state(judged: ClassifiedEnvironment) -> None:
    other = ClassifiedEnvironment(Endless(32), QUICK, seed=4)
    other.load_state_dict(judged.state_dict())
    seen = torch.randn(50, 4)
    assert torch.equal(other.judge(seen), judged.judge(seen))
    assert other.figures == judged.figures


def test_a_task_that_ends_by_itself_is_refused() -> None:
    environment = Reaching()
    environment.task = type("Ending", (ReachTask,), {"ends": True})()
    with pytest.raises(UserError, match="ends: false"):
        ClassifiedEnvironment(environment, QUICK, seed=0)


def test_nothing_but_failure_is_refused() -> None:
    environment = Endless(8)
    environment.reward_of = lambda achieved, desired: torch.full((len(achieved),), -1.0)  # type: ignore[method-assign]
    with pytest.raises(UserError, match="0 were successful"):
        ClassifiedEnvironment(environment, replace(QUICK, shown=200), seed=0).learn()
