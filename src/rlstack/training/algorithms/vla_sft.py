"""Supervised fine-tuning of a vision-language-action policy from demonstrations.

The policy plans chunks of actions (Zhao et al., arXiv 2304.13705) as tokens, by a flow or by regression; see
:mod:`rlstack.training.language`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlstack.schema import value
from rlstack.tasks.core.learning_environment import LearningEnvironment
from rlstack.training.algorithm import Actor, IterationResult
from rlstack.training.algorithms.bc import checked_losses
from rlstack.training.language.actor import LanguageActor, layout_of
from rlstack.training.language.copied_demonstrations import copy_chunks, parts_of
from rlstack.training.language.demonstrations import (
    FOLDER,
    STILLS,
    ChunkReplay,
    check_told,
    labels_size,
    lessons,
    place_of,
    record_chunks,
    record_stills,
    recorded,
    told_lessons,
    weights_of,
)
from rlstack.training.language.fine_tuning import fix_eyes, pretrained
from rlstack.training.language.parallel import Workers
from rlstack.training.language.recording_processes import RecordingProcesses
from rlstack.training.language.strays import Disturbance
from rlstack.training.language.supervised import Supervised, SupervisedSettings
from rlstack.training.run_files import WORKERS

_UPDATES = 10
"""Updates in an iteration."""
_STILL = 0.4
"""Share of stills in a batch."""
_STATISTICS = 512
"""Images from which the standardisation of pixels is computed."""


@dataclass(frozen=True, kw_only=True)
class VLASFTSettings(SupervisedSettings):
    """Settings of supervised fine-tuning."""

    pretrained: str = value("")
    """Folder of a run of this family to go on from, its policy file, or a released policy's name; empty: begin anew."""
    fixed_eyes: bool = False
    """Whether what is seen in images stays as it is, as where nobody knows where things are in frames of a dataset."""
    demonstrations: int = value(2000, at_least=0)
    """Number of successful episodes to learn from; of datasets: at most so many of each. 0: learn to see alone, from
    ``stills``, for runs that go on from there with ``fixed_eyes``."""
    dataset: tuple[str, ...] = ()
    """Folders of LeRobot datasets or ROS 2 bags that hold them, each with its weight in a mixture or without, such as
    runs/a:0.7; empty: from the task's scripted expert."""
    stray: float = value(0.3, at_least=0.0)
    """Standard deviation of the noise on the expert's executed actions, 0 to 1."""
    kicks: float = value(0.0, at_least=0.0, at_most=0.5)
    """Share of the expert's chunks in which it executes a random action instead, also where noise is switched off."""
    stills: int = value(0, at_least=0)
    """Moments of further trials, of which only labels and places are learned, in two fifths of each batch: more
    sentences, things and appearances than demonstrations have, for a picture each."""
    wander: int = value(0, at_least=0)
    """Largest number of steps of random motion before each of these moments, so that what is seen is known wherever the
    robot is; 0: they are the trials' starts."""
    processes: int = value(1, at_least=1)
    """Processes that record demonstrations and learn together. Each records its share with ``envs`` robots of its own,
    and learns from batches of its own; gradients are averaged."""

    def __post_init__(self) -> None:
        parts_of(self.dataset)
        by_labels: dict[str, float] = {"stills": self.stills, "told": self.told}
        if not self.fixed_eyes:
            by_labels["network.looks"] = self.network.looks
            by_labels |= {"network.offsets": self.network.offsets, "network.sees_apart": self.network.sees_apart}
        if self.checkpoint.folder:  # its network learns from actions alone, whatever the labels
            by_labels = {"told": self.told}
        elif self.dataset:
            by_labels = {"labels": self.labels, **by_labels}
        if self.dataset:
            seen = "" if self.fixed_eyes else "; or go on from a policy that sees: pretrained, and fixed_eyes: true"
            _check_none(by_labels, "dataset, in whose frames nobody knows where things are", seen)
        elif not self.labels:
            _check_none(by_labels, "labels: 0, from which alone they learn", ", or labels above 0")
        elif self.network.looks and not (self.places or self.fixed_eyes or self.checkpoint.folder):
            raise ValueError(
                f"places: 0 is not allowed with network.looks: {self.network.looks}: nothing else teaches such a"
                " network to see. Set places above 0, such as 1, or network.looks to 0."
            )
        if self.wander and not self.stills:
            raise ValueError(f"wander: {self.wander} is not allowed with stills: 0: it is before them.")
        if not self.demonstrations and (self.dataset or not self.stills):
            raise ValueError(
                "demonstrations: 0 is not allowed with dataset, or with stills: 0: nothing would be learned from."
            )
        if self.told and self.accumulated > 1:
            raise ValueError(f"told: {self.told} is not allowed with accumulated: {self.accumulated}: set it to 1.")


def _check_none(settings: Mapping[str, float], what: str, instead: str = "") -> None:
    """Raise ``ValueError`` if some settings are not 0, with the options that set all of them to 0."""
    some = {name: number for name, number in settings.items() if number}
    if some:
        told = ", ".join(f"{name}: {'true' if number is True else f'{number:g}'}" for name, number in some.items())
        none = {name: "False" if number is True else "0" for name, number in some.items()}
        options = " ".join(f"--algorithm-settings.{name} {off}" for name, off in none.items())
        raise ValueError(f"{told} is not allowed with {what}: give {options}{instead}.")


class VLASFT:
    """Learns from demonstrations alone; see :class:`rlstack.training.algorithm.Algorithm`.

    Its steps count chunks of demonstrations: the robots do not move.

    Raises:
        UserError: The task's observation does not end with an instruction and images.
    """

    Settings = VLASFTSettings
    changeable = ("learning_rate",)
    needs_gradients = False

    def __init__(self, settings: VLASFTSettings, environment: LearningEnvironment) -> None:
        self.settings, self.environment = settings, environment
        self.steps_per_iteration = _UPDATES * settings.batch * settings.accumulated * settings.processes
        layout = layout_of(environment.pipeline, "vla_sft")
        check_told(environment, settings)
        words = environment.task.text.words
        self.policy = LanguageActor(layout, words, environment.pipeline.action_size, settings)
        if settings.fixed_eyes:
            fix_eyes(self.policy, settings)
        self.generator = torch.Generator().manual_seed(torch.initial_seed() % 2**63)
        self.learner = Supervised(settings, self.policy, self.generator, labels_size(environment))
        self._shown: ChunkReplay | None = None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._begun = False
        self._workers: Workers | None = None

    def check(self) -> None:
        """Load the policy to go on from; see :class:`rlstack.training.algorithm.ChecksFirst`."""
        if (self.settings.pretrained or self.settings.fixed_eyes) and not self._begun:  # none: it says which run
            self.policy.load_state_dict(pretrained(self.settings.pretrained, self.policy, self.environment))
            self._begun = True

    def open(self, folder: Path | None) -> None:
        """Open the demonstrations in a run's folder; existing ones are reused."""
        self.check()
        settings = self.settings
        processes = settings.processes if folder is not None else 1  # others know the run by its folder
        if folder is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="rlstack-chunks-")
            folder = Path(self._temporary.name)
        self._logs = folder / WORKERS
        if settings.dataset:
            self._shown = copy_chunks(self.environment, self.policy, folder, settings.demonstrations, settings.dataset)
        else:
            places = self._recorded(folder, processes)
            self._shown = ChunkReplay(places, self.policy, weights_of(places, _STILL))
        if not self._begun:
            normalise(self.policy, self._shown)

    def iterate(self, done: float) -> IterationResult:
        """Learn from demonstrations; raise ``NotFinite`` naming the term that is not finite."""
        if self._shown is None:
            self.open(None)
        assert self._shown is not None
        self._begun = True
        settings, shown = self.settings, self._shown
        drawn, told = lessons(shown, settings.batch, self.generator), told_lessons(shown, settings, self.generator)
        try:
            self._begin_others(done)
            alone = self.learner.sees_alone
            made = [self.learner.update(drawn, done, stills=alone) for _ in range(_UPDATES)]
            more = [self.learner.update(told, done, told=True) for _ in range(settings.told * _UPDATES)]
        except RuntimeError as error:
            if self._workers is None or "gloo" not in str(error).lower():
                raise
            raise self._workers.ended() from error
        return IterationResult(0.0, 0.0, checked_losses({**means(made), **means(more, "told_")}))

    def record(self, folder: Path, rank: int, size: int) -> None:
        """Record a share of the demonstrations; see :class:`.RecordsShares`."""
        settings, policy = self.settings, self.policy
        for name, place, wanted in self._share(folder, rank, size):
            drawing = torch.Generator().manual_seed(torch.initial_seed() % 2**63)  # resuming draws batches as before
            if name == FOLDER:
                noise = Disturbance(settings.stray, settings.kicks)
                record_chunks(self.environment, policy, place, wanted, noise, drawing)
            else:
                record_stills(self.environment, policy, place, wanted, settings.wander, drawing)

    def _recorded(self, folder: Path, processes: int) -> list[Path]:
        """Record what is missing of all shares, side by side; return where they are."""
        shares = [self._share(folder, rank, processes) for rank in range(processes)]
        whole = all(recorded(place, name) >= wanted for share in shares[1:] for name, place, wanted in share)
        others = RecordingProcesses(folder, 1 if whole else processes)
        try:
            self.record(folder, 0, processes)
            others.wait()
        finally:
            others.close()
        return [place for share in shares for _, place, _ in share]

    def _share(self, folder: Path, rank: int, size: int) -> list[tuple[str, Path, int]]:
        """Return the kinds of recordings that a process makes: each one's name, where, and how many it has."""
        kinds = (FOLDER, self.settings.demonstrations), (STILLS, self.settings.stills)
        shares = ((name, place_of(folder, name, rank), share_of(whole, rank, size)) for name, whole in kinds)
        return [share for share in shares if share[2]]

    def _begin_others(self, done: float) -> None:
        """Begin an iteration in the other processes, if there are some."""
        processes = self.settings.processes
        if processes == 1:
            return
        if self._workers is None:
            assert self._shown is not None
            labels = labels_size(self.environment)
            self._workers = Workers(processes, self.learner, self._shown, labels, self._logs)
        self._workers.begin(_UPDATES, self.settings.told * _UPDATES, done, self.generator)

    def close(self) -> None:
        """End the other processes."""
        if self._workers is not None:
            self._workers.close()
            self._workers = self.learner.averaged = None

    def actor(self) -> Actor:
        """Return a copy of the current actor."""
        return self.policy.for_file()

    def change(self, settings: VLASFTSettings) -> None:
        """Go on with other settings; see :class:`rlstack.training.algorithm.ChangesInRun`."""
        self.settings = self.learner.settings = settings

    def state_dict(self) -> dict[str, Any]:
        """Return network, optimiser and random state; the demonstrations stay in their files."""
        return {"learner": self.learner.state_dict(), "begun": self._begun}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        self.learner.load_state_dict(state["learner"])
        self._begun = state["begun"]


def share_of(whole: int, rank: int, size: int) -> int:
    """Return how many of a number of things one of several processes gets."""
    return whole // size + (rank < whole % size)


def means(losses: list[dict[str, Tensor]], prefix: str = "") -> dict[str, float]:
    """Return the means of losses by name."""
    names = losses[0] if losses else ()
    return {f"{prefix}{name}": torch.stack([one[name] for one in losses]).mean().item() for name in names}


def normalise(policy: LanguageActor, shown: ChunkReplay) -> None:
    """Set a policy's normalisation to that of demonstrations."""
    some = np.linspace(0, len(shown) - 1, min(_STATISTICS, len(shown))).astype(np.intp)
    policy.normalise_by(shown.state, shown.images(some), shown.action[shown.inside > 0.0])


ALGORITHM = VLASFT
