"""A point on a plane that is to come to a goal: a task small enough to be learned in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from rlstack.tasks.core.learning_environment import GoalStep


@dataclass(frozen=True)
class ReachTask:
    """Sparse: -1 a step, 0 within 0.1 of the goal."""

    rate_hz: float = 10.0
    steps: int = 20
    rewards: str = "sparse"


class Reaching:
    """N points, each with a goal; an action moves them by a tenth."""

    def __init__(self, count: int = 8, seed: int = 0) -> None:
        self.task, self.count, self.device = ReachTask(), count, torch.device("cpu")
        self.pipeline: Any = SimpleNamespace(
            size=4, action_size=2, table=lambda: [SimpleNamespace(name="all", start=0, size=4)]
        )
        self.critic_size, self.autoreset = 4, True
        self.generator = torch.Generator().manual_seed(seed)
        self.place, self.goal = torch.zeros(count, 2), torch.zeros(count, 2)
        self.age = torch.zeros(count, dtype=torch.long)
        self.reset_all()

    def seed(self, seed: int) -> None:
        self.generator.manual_seed(seed)

    def set_progress(self, done: float) -> None:
        """There is no curriculum."""

    def reset_all(self) -> None:
        self.restart(torch.arange(self.count))

    def restart(self, index: Tensor) -> None:
        self.place[index], self.goal[index] = (
            2.0 * torch.rand(len(index), 2, generator=self.generator) - 1.0 for _ in range(2)
        )
        self.age[index] = 0

    def observe(self) -> tuple[Tensor, Tensor]:
        seen = torch.cat([self.place, self.goal - self.place], dim=1)
        return seen, seen

    def step(self, action: Tensor) -> GoalStep:
        self.place = self.place + 0.1 * action.clamp(-1.0, 1.0)
        self.age += 1
        reward = self.reward_of(self.place, self.goal)
        success = reward == 0.0
        timed_out = (self.age >= self.task.steps) & ~success
        after, achieved, desired = self.observe()[0], self.place.clone(), self.goal.clone()
        done = success | timed_out
        if self.autoreset:
            self.restart(done.nonzero().flatten())
        seen, _ = self.observe()
        return GoalStep(seen, seen, reward, done, timed_out, {"sparse": reward}, after, achieved, desired, success)

    def achieved_goal(self) -> Tensor:
        return self.place.clone()

    def desired_goal(self) -> Tensor:
        return self.goal.clone()

    def reward_of(self, achieved: Tensor, desired: Tensor) -> Tensor:
        return torch.where((achieved - desired).norm(dim=-1) < 0.1, 0.0, -1.0)

    def relabelled(self, observation: Tensor, achieved: Tensor, desired: Tensor) -> Tensor:
        return torch.cat([observation[:, :2], desired - achieved], dim=1)

    def expert_action(self) -> Tensor:
        return (10.0 * (self.goal - self.place)).clamp(-1.0, 1.0)

    def rollout(self, steps: int, steepest: float) -> Any:
        raise NotImplementedError

    def ended(self, lost: Tensor) -> Tensor:
        return (self.age >= self.task.steps) & ~lost

    def critic_table(self) -> list[Any]:
        return self.pipeline.table()

    def term_names(self) -> tuple[str, ...]:
        return ("sparse",)

    def state_dict(self) -> dict[str, Any]:
        arrays = {"place": self.place.clone(), "goal": self.goal.clone(), "age": self.age.clone()}
        return {**arrays, "generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.place, self.goal, self.age = (state[name].clone() for name in ("place", "goal", "age"))
        self.generator.set_state(state["generator"])


def success(algorithm: Any) -> float:
    """Return the share of 200 points that the algorithm's actor brings to their goals."""
    test, actor = Reaching(200, seed=9), algorithm.actor()
    seen, won = test.observe()[0], torch.zeros(200, dtype=torch.bool)
    over = torch.zeros(200, dtype=torch.bool)
    memory = {name: torch.zeros(200, *shape) for name, shape in actor.memory.items()}
    for _ in range(test.task.steps):
        action, memory = actor(seen, memory)
        result = test.step(action)
        won |= result.success & ~over
        over |= result.done
        seen = result.actor
    return won.float().mean().item()
