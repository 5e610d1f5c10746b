"""Rollouts of a vision-language-action policy, one step for each chunk of actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from rlstack.errors import UserError
from rlstack.tasks.core.learning_environment import failed
from rlstack.training.algorithm import check_observation
from rlstack.training.language.actor import LanguageActor, Seen
from rlstack.training.language.grounding import told


@dataclass(frozen=True)
class Chunks:
    """Chunks of T steps of N robots; (T, N, ...) each."""

    seen: Seen
    privileged: Tensor
    """(T, N, columns) what a critic may know."""
    places: Tensor
    """(T, N, cameras, things, 2) where named things are in the images; no things if they are not kept."""
    choice: Tensor
    """What the head sampled; see :class:`rlstack.training.language.heads.Head`."""
    action: Tensor
    """(T, N, chunk, actions)."""
    log_prob: Tensor
    """(T, N, chunk, actions) of the choice."""
    inside: Tensor
    """(T, N, chunk) 1 for actions before the end of the episode, and 0 after."""
    reward: Tensor
    """(T, N): of the chunk, 0 to 1 in an episode; see :func:`reward_of`."""
    nearer: Tensor
    """(T, N) dm by which the chunk brought what is moved nearer to its goal."""
    done: Tensor
    """(T, N) bool: whether the episode ended in the chunk."""
    success: Tensor
    """(T, N) bool: whether it ended with success."""
    lost: Tensor
    """(T, N) bool: whether it failed before its time was out."""
    last_privileged: Tensor
    """(N, columns) what a critic may know after the last chunk."""

    def flat(self) -> dict[str, Any]:
        """Return all steps of all robots, (T * N, ...) each, by name."""
        named = {name: part for name, part in vars(self).items() if name not in ("seen", "last_privileged")}
        seen = Seen(*(part.flatten(end_dim=1) for part in self.seen))
        return {"seen": seen, **{name: part.flatten(end_dim=1) for name, part in named.items()}}


def beside(parts: Sequence[Chunks]) -> Chunks:
    """Return the chunks of further robots beside each other; where T is smaller, nothing counts after it."""
    longest = max(len(one.reward) for one in parts)

    def joined(name: str, of: Sequence[Any]) -> Tensor:
        tensors = [getattr(one, name) for one in of]
        if name == "last_privileged":
            return torch.cat(tensors)
        missing = [longest - len(one) for one in tensors]
        padded = [torch.cat([one, one.new_zeros(more, *one.shape[1:])]) for one, more in zip(tensors, missing)]
        return torch.cat(padded, dim=1)

    seen = Seen(*(joined(name, [one.seen for one in parts]) for name in Seen._fields))
    return Chunks(seen, **{name: joined(name, parts) for name in vars(parts[0]) if name != "seen"})


class CollectsChunks(Protocol):
    """Whoever rolls out a policy that samples its actions."""

    def collect(self, steps: int, alike: int = 0, told_error: float | None = None) -> Chunks:
        """Return the next chunks.

        Args:
            steps: Largest T.
            alike: 0: robots go on where they are. Else all begin anew, each ``alike`` neighbouring ones with the same
                trial, and end at most one episode each; T is then no larger than that needs. The environment must not
                reset them.
            told_error: Error with which the simulator tells what would be seen, in place of images; None: the policy
                sees images. Where one follows the other, all robots begin anew.
        """


class Rollouts:
    """Rolls out a policy in this process.

    Args:
        environment: N robots; see :meth:`rlstack.tasks.core.chunk_environment.ChunkEnvironment.chunk_step`.
        policy: The policy.
        temperature: Of its samples; above 1 they explore more.
        generator: Draws the samples.
        places: Whether it is kept where named things are in the images.
    """

    def __init__(
        self,
        environment: Any,
        policy: LanguageActor,
        temperature: float,
        generator: torch.Generator,
        places: bool = False,
    ) -> None:
        self.environment, self.policy, self._places = environment, policy, places
        self._temperature, self._generator = temperature, generator
        self.observation: Tensor | None = None
        """(N, columns) of the present; None: not observed yet."""
        self.told_error: float | None = None
        """That of the last chunks; see :meth:`collect`."""

    def begin(self) -> None:
        """Observe the present, after the environment was reset."""
        self.observation = self.environment.observe()[0]

    def collect(self, steps: int, alike: int = 0, told_error: float | None = None) -> Chunks:
        """Return the next chunks; see :class:`CollectsChunks`."""
        if (told_error is None) != (self.told_error is None):
            self.environment.render(told_error is None)
            self.environment.reset_all()
            self.begin()
        self.told_error = told_error
        environment, policy = self.environment, self.policy
        if alike:
            environment.restart_alike(alike)
            self.begin()
        observation = environment.observe()[0] if self.observation is None else self.observation
        going = torch.ones(environment.count, dtype=torch.bool)
        kept: list[dict[str, Any]] = []
        for _ in range(steps):
            privileged = environment.privileged()
            nowhere = torch.zeros(environment.count, policy.layout.images[0], 0, 2)
            places = environment.image_places() if self._places else nowhere
            with torch.no_grad():
                seen = self._seen(observation)
                features = policy.features(seen)
                action, choice = policy.head.sample(features, self._temperature, self._generator)
                log_prob, _ = policy.head.log_prob(features, choice, self._temperature)
            before = _distance(environment.achieved_goal(), environment.desired_goal())
            result = environment.chunk_step(action)
            observation = result.actor
            inside = (torch.arange(policy.chunk) < result.steps[:, None]) & going[:, None]
            done = result.done & going
            kept.append(
                {
                    "seen": seen if policy.fixed_eyes else seen._replace(images=seen.images.to(torch.uint8)),
                    "privileged": privileged,
                    "places": places,
                    "choice": choice,
                    "action": action.clamp(-1.0, 1.0),
                    "log_prob": log_prob,
                    "inside": inside.float(),
                    "reward": reward_of(result, environment.task.steps) * going.float(),
                    "nearer": (before - _distance(result.achieved, result.desired)) * going.float(),
                    "done": done,
                    "success": done & result.success,
                    "lost": done & failed(result),
                }
            )
            if alike:
                going = going & ~done
                if not going.any():
                    break
        self.observation = observation
        check_observation(observation, environment.pipeline.table(), "The observation term '{}' is not finite")
        seen = Seen(*(torch.stack(parts) for parts in zip(*(one["seen"] for one in kept))))
        names = [name for name in kept[0] if name != "seen"]
        named = {name: torch.stack([one[name] for one in kept]) for name in names}
        return Chunks(seen, **named, last_privileged=environment.privileged())

    def _seen(self, observation: Tensor) -> Seen:
        if self.told_error is None:
            return self.policy.seen(observation)
        return heard(self.policy, observation, self.environment.image_places(), self.told_error, self._generator)


def heard(policy: LanguageActor, observation: Tensor, places: Tensor, error: float, generator: torch.Generator) -> Seen:
    """Return what a policy gets of observations (N, columns) if the simulator tells what is seen.

    Args:
        policy: The policy.
        observation: Its images do not matter.
        places: (N, cameras, things, 2 + looks); see :func:`.grounding.told`, like ``error``.
        error: Standard deviation with which positions are told, of half an image.
        generator: Draws the errors.
    """
    state, text, _ = policy.layout.split(observation)
    return Seen(state, policy.tokeniser(text), told(places, error, generator))


def reward_of(result: Any, steps: int) -> Tensor:
    """Return the reward (N,) of a chunk: 1 for an episode that ends with success, and its share of successful steps.

    Unlike the task's, which is -1 for each step without success, it does not make losing an episode early attractive.

    Args:
        result: Of the chunk.
        steps: Steps of an episode.
    """
    achieved = (result.reward + result.steps) / steps
    return achieved + (result.done & result.success).float()


def _distance(achieved: Tensor, desired: Tensor) -> Tensor:
    """Return the distances (N,) dm of (N, axes) m."""
    return 10.0 * (achieved - desired).norm(dim=-1)


def check_sparse(task: Any, algorithm: str) -> None:
    """Raise ``UserError`` if a task's rewards are not sparse."""
    if getattr(task, "rewards", "sparse") != "sparse":
        raise UserError(
            f"task_settings: rewards: {task.rewards} is not allowed with {algorithm}, which learns from success alone:"
            " set it to sparse."
        )


def advantages(reward: Tensor, value: Tensor, last: Tensor, done: Tensor, gamma: float, decay: float) -> Tensor:
    """Return generalised advantage estimates (T, N) (Schulman et al., arXiv 1506.02438).

    An episode's end is final, also by time: the critic knows its age, and nothing is earned after it.

    Args:
        reward: (T, N).
        value: (T, N) of the states before.
        last: (N,) value of the states after the last step.
        done: (T, N) bool.
        gamma: Discount for each step.
        decay: Lambda.
    """
    found, following, estimate = torch.zeros_like(reward), last, torch.zeros_like(last)
    for k in reversed(range(len(reward))):
        goes_on = 1.0 - done[k].float()
        wrong = reward[k] + gamma * goes_on * following - value[k]
        estimate = wrong + gamma * decay * goes_on * estimate
        found[k], following = estimate, value[k]
    return found


def group_advantages(earned: Tensor, least: float, most: float) -> tuple[Tensor, Tensor]:
    """Return the advantages (groups, members) within groups, and (groups,) bool which groups teach anything.

    Args:
        earned: (groups, members) return of each episode, 0 to 1 or a bit more.
        least: Least mean of a group's success to be kept.
        most: Largest mean of it.
    """
    mean, spread = earned.mean(dim=1, keepdim=True), earned.std(dim=1, keepdim=True)
    share = mean[:, 0].clamp(max=1.0)
    return (earned - mean) / (spread + 1e-4), (share >= least) & (share <= most) & (spread[:, 0] > 1e-4)


def totals(parts: Sequence[Chunks]) -> dict[str, float]:
    """Return success, share of lost episodes, and number of episodes that ended in rollouts."""
    names = ("done", "success", "lost")
    done, success, lost = (sum(float(getattr(one, name).sum()) for one in parts) for name in names)
    return {"success": success / max(done, 1.0), "lost": lost / max(done, 1.0), "episodes": done}
