"""DAgger for vision-language-action policies: a policy's own trials, in which an expert says what it would do.

Ross et al., "A Reduction of Imitation Learning and Structured Prediction to No-Regret Online Learning" (arXiv
1011.0686): demonstrations lack the states that the policy's own mistakes lead to.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rlstack.data.replay.storage import SPEC_FILE
from rlstack.errors import UserError
from rlstack.schema import value
from rlstack.tasks.core.learning_environment import LearningEnvironment, failed
from rlstack.training.algorithm import IterationResult, check_observation
from rlstack.training.algorithms.bc import checked_losses
from rlstack.training.algorithms.vla_sft import means
from rlstack.training.demonstrations import scripted
from rlstack.training.language import corrections, demonstrations
from rlstack.training.language.corrections import Corrections, joined, mixed
from rlstack.training.language.fine_tuning import FineTuning, FineTuningSettings, fix_eyes
from rlstack.training.language.rollouts import heard, reward_of
from rlstack.training.language.supervised import Known, Lesson, Supervised, SupervisedSettings
from rlstack.training.run_files import RECIPE
from rlstack.training.run_folder import recipe_of

_STILL = 0.5
"""Share of stills in what was shown, if there are any beside others."""
_GUESSED_BY = 1024
"""Largest number of own chunks by which the first guess of labels is found."""


@dataclass(frozen=True, kw_only=True)
class VLADAggerSettings(SupervisedSettings, FineTuningSettings):
    """Settings of DAgger."""

    looking: float = value(0.0, at_least=0.0, at_most=0.9)
    beta: float = value(0.4, at_least=0.0, at_most=1.0)
    """Share of the chunks of trials that the expert executes, so that they reach what the policy cannot do yet. All of
    its actions teach; where the policy acts, only the first one does: the others answer what it did."""
    stretch: float = value(1.0, at_least=1.0)
    """Chunks after which it is drawn anew who acts, on average: in long stretches the policy gets into what it does not
    get out of by itself, and the expert shows how to go on from there."""
    updates: int = value(60, at_least=1)
    """Updates in an iteration, after a trial of each robot."""
    stills: int = value(512, at_least=0)
    """Starts of further trials in an iteration, of which only labels and places are learned: more sentences, blocks
    and appearances than whole trials have."""
    demonstrated: float = value(0.5, at_least=0.0, at_most=1.0)
    """Share of each batch that is of the run to go on from, if it has some: its demonstrations, and its own trials'
    corrections."""
    fixed_eyes: bool = False
    """Whether what is seen in images stays as it is; updates then take half the time."""
    blind: float = value(0.0, at_least=0.0, at_most=1.0)
    """Share of the iterations, from the beginning, in which no image is rendered: the policy acts by what the simulator
    tells of things. It needs ``told``; the ``updates`` from images are of the runs before then."""
    capacity: int = value(50_000, at_least=1000)
    """Most chunks of own trials that are kept, with an image for each camera; the oldest are overwritten. Of trials
    without images as many are kept beside them."""

    def __post_init__(self) -> None:
        if self.blind and not self.told:
            raise ValueError(f"blind: {self.blind:g} is not allowed with told: 0: nothing would be learned.")


class VLADAgger(FineTuning):
    """Learns what an expert would do in its own trials; see :class:`rlstack.training.algorithm.Algorithm`.

    Raises:
        UserError: The task has no instruction or images, its rewards are not sparse, or it has no scripted expert.
    """

    Settings = VLADAggerSettings
    changeable = ("learning_rate",)

    def __init__(self, settings: VLADAggerSettings, environment: LearningEnvironment) -> None:
        super().__init__(settings, environment, "vla_dagger", 1.0)
        scripted(environment, "vla_dagger", "vla_ppo")
        self.settings = settings
        self._longest = -(-environment.task.steps // settings.chunk)
        self.steps_per_iteration = environment.count * environment.task.steps
        if settings.fixed_eyes:
            fix_eyes(self.policy, settings)
        demonstrations.check_told(environment, settings)
        self.learner = Supervised(settings, self.policy, self.generator, demonstrations.labels_size(environment))
        self.environment.autoreset = False
        self.own: Corrections | None = None
        """Chunks of its own trials; None: not opened."""
        self.unseen: Corrections | None = None
        """Those without images; None: not opened, or there are none."""
        self._shown: demonstrations.ChunkReplay | None = None
        self._begun = self._had_shown = False
        self._count = environment.count

    def open(self, folder: Path | None) -> None:
        """Load the policy to go on from, unless resuming, and open its demonstrations and the run's own trials."""
        super().open(folder)
        settings = self.settings
        self.own = Corrections(self.environment, self.policy, settings.capacity, folder)
        if settings.blind:
            self.unseen = Corrections(self.environment, self.policy, settings.capacity, folder, images=False)
        shown = shown_by(settings.pretrained)
        if settings.demonstrated and shown:
            weights = demonstrations.weights_of(shown, _STILL)
            self._shown = demonstrations.ChunkReplay(shown, self.policy, weights)
        elif self._had_shown:
            raise UserError(
                f"algorithm_settings: pretrained: the demonstrations of {settings.pretrained} are gone, from which this"
                " run learns: restore them, or go on without them with demonstrated: 0."
            )
        self._had_shown = self._shown is not None

    def iterate(self, done: float) -> IterationResult:
        """Try with all robots, and learn; raise ``NotFinite`` naming the term that is not finite."""
        if self.own is None:
            self.open(None)
        assert self.own is not None
        settings, learner = self.settings, self.learner
        own = self.own if done >= settings.blind or self.unseen is None else self.unseen
        self.environment.render(own.images)
        result = self._try(own)
        if not self._begun:
            learner.guess_by(self._first(own))
        self._begun = True
        looked, learned = list[dict[str, Tensor]](), list[dict[str, Tensor]]()
        if own.images:
            stills = self._stills()
            looked = [learner.update(stills, done, stills=True) for _ in range(settings.stills // self._count)]
        if own.images or self._shown is not None:
            share = settings.demonstrated if own.images else 1.0
            drawn = mixed(self._shown, share, own, settings.batch, self.generator)
            alone = learner.sees_alone and not own.images
            learned = [learner.update(drawn, done, stills=alone) for _ in range(settings.updates)]
        heard = self._told(self.unseen or self.own)
        told = [learner.update(heard, done, told=True) for _ in range(settings.told * settings.updates)]
        losses = {**means(looked, "stills_"), **means(learned), **means(told, "told_")}
        return IterationResult(result.reward_per_s, result.lost_share, {**result.scalars, **checked_losses(losses)})

    def _first(self, own: Corrections) -> Lesson:
        """Return some of the first own chunks, with what is seen, or told."""
        lesson = own.draw(min(_GUESSED_BY, len(own)), self.generator)
        return lesson if own.images else lesson.told(self.settings.told_error, self.generator)

    def _told(self, own: Corrections) -> Iterator[Lesson]:
        """Yield random chunks with what the simulator tells in place of images."""
        settings, shown = self.settings, self._shown
        share = settings.demonstrated if shown is not None else 0.0
        if not len(own):  # a run of such trials alone has begun again without them
            share = 1.0
        count = round(share * settings.told_batch)
        while True:
            parts = list[Lesson]()
            if count < settings.told_batch:
                mine = own.draw(settings.told_batch - count, self.generator)
                parts.append(mine.told(settings.told_error, self.generator))
            if shown is not None and count:
                parts.append(shown.told(count, settings.told_error, self.generator))
            yield parts[0] if len(parts) == 1 else joined(*parts)

    def _try(self, own: Corrections) -> IterationResult:
        """Let each robot try once, and keep what the expert would have done."""
        environment, policy, count = self.environment, self.policy, self._count
        environment.restart(torch.arange(count))
        observation = environment.observe()[0]
        own.begin(observation)
        going, earned, shown = torch.ones(count, dtype=torch.bool), torch.zeros(()), list[Tensor]()
        won, lost = torch.zeros(2)
        beta, stretch = self.settings.beta, self.settings.stretch
        expert = torch.rand(count, generator=self.generator) < beta
        policy.eval()
        for _ in range(self._longest):
            with torch.no_grad():
                if own.images:
                    seen = policy.seen(observation)
                else:
                    error = self.settings.told_error
                    seen = heard(policy, observation, environment.image_places(), error, self.generator)
                planned = policy.planned(seen)
            drawn, anew = torch.rand((2, count), generator=self.generator) < torch.tensor([[beta], [1.0 / stretch]])
            expert = torch.where(anew, drawn, expert)
            shown.clear()

            def act(planned: Tensor = planned, expert: Tensor = expert) -> Tensor:
                shown.append(environment.expert_action().clamp(-1.0, 1.0))
                return torch.where(expert[:, None], shown[-1], planned[:, len(shown) - 1])

            result = environment.roll(act, policy.chunk)
            observation = result.actor
            inside = (torch.arange(policy.chunk) < result.steps[:, None]).float()
            inside[:, 1:] *= expert[:, None]
            own.add(going, torch.stack(shown, dim=1), inside, observation)
            earned = earned + (reward_of(result, environment.task.steps) * going).mean()
            won = won + (result.done & result.success & going).sum()
            lost = lost + (failed(result) & going).sum()
            going = going & ~result.done
            if not going.any():
                break
        policy.train()
        check_observation(observation, environment.pipeline.table(), "The observation term '{}' is not finite")
        per_s = float(earned) * environment.task.rate_hz / environment.task.steps
        return IterationResult(per_s, float(lost) / count, {"train/success": float(won) / count})

    def _stills(self) -> Iterator[Lesson]:
        """Yield starts of further trials, of which only labels and places are to be learned."""
        environment, policy, count = self.environment, self.policy, self._count
        nothing = torch.zeros(count, policy.chunk, policy.actions)
        while True:
            environment.restart(torch.arange(count))
            seen = policy.seen(environment.observe()[0])
            known = Known(demonstrations.labels_of(environment), environment.image_places())
            yield Lesson(seen, nothing, nothing[..., 0], known)

    def close(self) -> None:
        """Close the files of own trials."""
        for own in (self.own, self.unseen):
            if own is not None:
                own.close()
        self.own = self.unseen = None

    def change(self, settings: VLADAggerSettings) -> None:
        """Go on with other settings; see :class:`rlstack.training.algorithm.ChangesInRun`."""
        self.settings = self.learner.settings = settings

    def state_dict(self) -> dict[str, Any]:
        """Return network, optimiser, environment and random state; own trials stay in their files."""
        parts = {"learner": self.learner.state_dict(), "begun": self._begun, "had_shown": self._had_shown}
        return {**super().state_dict(), **copy.deepcopy(parts)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        super().load_state_dict(state)
        self.learner.load_state_dict(state["learner"])
        self._begun, self._had_shown = state["begun"], state["had_shown"]


def shown_by(run: str) -> list[Path]:
    """Return the folders of demonstrations, stills and corrections of a run, and of those that it went on from."""
    found = list[Path]()
    while run and Path(run).is_dir():
        names = (demonstrations.FOLDER, demonstrations.STILLS)
        before = [place for name in names for place in demonstrations.places_of(Path(run), name)]
        before.append(Path(run) / corrections.FOLDER)
        found += [one for one in before if (one / SPEC_FILE).is_file()]
        whole = (Path(run) / RECIPE).is_file()
        run = getattr(recipe_of(Path(run)).algorithm_settings, "pretrained", "") if whole else ""
    return found


ALGORITHM = VLADAgger
