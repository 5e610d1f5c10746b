"""What the algorithms share that go on from a supervised vision-language-action policy."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast, get_args

import torch

from rlstack.errors import UserError
from rlstack.policies.released import released_policies
from rlstack.schema import value
from rlstack.tasks.core.chunk_environment import ChunkEnvironment
from rlstack.tasks.core.curriculum import SuccessCurriculum
from rlstack.tasks.core.learning_environment import LearningEnvironment
from rlstack.training.algorithm import Actor
from rlstack.training.language.actor import LanguageActor, PolicySettings, layout_of
from rlstack.training.language.file_weights import weights_of_file
from rlstack.training.language.heads import HeadName
from rlstack.training.language.predecessor import WHERE, Predecessor, first_run, recipe_in
from rlstack.training.language.rollouts import Rollouts, check_sparse
from rlstack.training.run_folder import load_checkpoint

_CELLS = ".where.grid"
"""Where the cells of maps are: no weights, but what follows from settings, by which maps may become finer."""
_CODES = "tokeniser.codes"
"""The vocabulary's words."""


@dataclass(frozen=True, kw_only=True)
class FineTuningSettings(PolicySettings):
    """Settings of learning from one's own trials; network, head and chunk are those of the run to go on from, but for
    ``fine``, ``rows`` and ``sharpness`` of the network, which have no weights."""

    pretrained: str = value("")
    """Folder of the run to go on from, of vla_sft or another algorithm of this family, or its policy file; empty: from
    the checkpoint."""
    curriculum: bool = False
    """Whether trials of a kind that succeeds about half the time come more often; see
    :class:`rlstack.tasks.core.curriculum.SuccessCurriculum`."""


class FineTuning:
    """A policy that goes on from another run's, and its rollouts.

    Args:
        settings: Where to go on from.
        environment: Its robots.
        algorithm: The algorithm's name.
        temperature: Of the samples in rollouts.
        places: Whether rollouts keep where named things are in the images.

    Raises:
        UserError: The task has no instruction or images, or its rewards are not sparse.
    """

    needs_gradients = False
    heads: ClassVar[tuple[str, ...]] = get_args(HeadName)
    """Heads that it can go on with."""

    def __init__(
        self,
        settings: FineTuningSettings,
        environment: LearningEnvironment,
        algorithm: str,
        temperature: float,
        places: bool = False,
    ) -> None:
        self.environment = cast(ChunkEnvironment, environment)
        self._name, self._pretrained, self._loaded = algorithm, settings.pretrained, False
        layout = layout_of(environment.pipeline, algorithm)
        check_sparse(environment.task, algorithm)
        if settings.curriculum:
            if not self.environment.trial_kinds:
                raise UserError(
                    "algorithm_settings: curriculum: true is not allowed: this task has no kinds of trials."
                )
            self.environment.curriculum = SuccessCurriculum(self.environment.trial_kinds, environment.count)
        words = environment.task.text.words
        self.policy = LanguageActor(layout, words, environment.pipeline.action_size, settings)
        self.generator = torch.Generator().manual_seed(torch.initial_seed() % 2**63)
        self.rollouts = Rollouts(environment, self.policy, temperature, self.generator, places)

    def check(self) -> None:
        """Load the policy to go on from; see :class:`rlstack.training.algorithm.ChecksFirst`."""
        self.load_pretrained()

    def open(self, folder: Path | None) -> None:
        """Load the policy to go on from, unless resuming."""
        self.load_pretrained()

    def load_pretrained(self) -> None:
        """Load the policy to go on from, unless one is loaded.

        Raises:
            UserError: No run is named, or its policy is missing, or of another robot, size or vocabulary.
        """
        if not self._loaded:
            whole = self.policy.settings.checkpoint
            if self._pretrained or not (whole.folder and whole.statistics == "checkpoint"):
                self.policy.load_state_dict(pretrained(self._pretrained, self.policy, self.environment, self.heads))
            self._loaded = True
            self.refer()

    def refer(self) -> None:
        """Keep the loaded policy as a reference, if the algorithm needs one."""
        return None

    def actor(self) -> Actor:
        """Return a copy of the current actor."""
        return self.policy.for_file()

    def state_dict(self) -> dict[str, Any]:
        """Return policy, environment and random state."""
        parts: dict[str, Any] = {"actor": self.policy.state_dict(), "environment": self.environment.state_dict()}
        parts["observation"], parts["told_error"] = self.rollouts.observation, self.rollouts.told_error
        return copy.deepcopy({**parts, "random": self.generator.get_state(), "loaded": self._loaded})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        self.policy.load_state_dict(state["actor"])
        self.environment.load_state_dict(state["environment"])
        self.generator.set_state(state["random"])
        self._loaded = state["loaded"]
        self.rollouts.observation, self.rollouts.told_error = state["observation"], state.get("told_error")
        if self.rollouts.told_error is not None:
            self.environment.render(False)


def fix_eyes(policy: LanguageActor, settings: Any) -> None:
    """Keep what a policy sees from changing, where the settings allow it: ``shift``, ``brightness``, ``checkpoint``.

    Raises:
        UserError: They do not.
    """
    if settings.shift or settings.brightness or settings.checkpoint.folder:
        raise UserError("algorithm_settings: fixed_eyes: true is not allowed with shift, brightness or a checkpoint.")
    policy.fix_eyes()


def pretrained(
    name: str, policy: LanguageActor, environment: Any, heads: tuple[str, ...] = get_args(HeadName)
) -> dict[str, Any]:
    """Return the weights of a policy file, of a released policy, of a run's best policy, or else of its latest.

    Args:
        name: The file, the released policy's name or the run's folder.
        policy: Of the same form.
        environment: Of its task and robot.
        heads: Heads that the algorithm learns.

    Raises:
        UserError: No run is named, or its policy is missing, of another robot or does not fit.
    """
    if not name:
        raise UserError(
            f"{WHERE} is empty: name the folder of a run on this task, such as runs/table_push-001, or a policy file;"
            f" {first_run(environment, policy.settings)}. A checkpoint without such a run needs its own statistics"
            " (checkpoint: {statistics: checkpoint})."
        )
    path = Path(name)
    if not path.exists():
        path = released_policies().get(name, path)
    if path.is_file():
        return weights_of_file(path, policy, environment, heads)
    before = Predecessor(path, recipe_in(path, environment, policy.settings), environment, policy, heads)
    before.check_robot()
    before.check_acting()
    state = load_checkpoint(path)
    learned = state["algorithm"]
    best = state.get("best") or {}
    weights: dict[str, Any] = best.get("actor") or learned.get("actor") or learned.get("learner", {}).get("actor", {})
    own = policy.state_dict()
    weights = {**weights, **{cells: own[cells] for cells in own if cells.endswith(_CELLS) and cells in weights}}
    held, wanted = ({n: tuple(t.shape) for n, t in one.items()} for one in (weights, own))
    if _CODES not in held:
        raise before.misfit("it has no policy with an instruction")
    different = sorted(one for one in {**held, **wanted} if held.get(one) != wanted.get(one))
    if _CODES in different or not torch.equal(weights[_CODES], own[_CODES]):
        raise before.misfit("it has another vocabulary than this task")
    if different:
        first = different[0]
        raise before.misfit(
            f"{len(different)} tensors differ, first '{first}', which is {held.get(first, 'missing')} there and"
            f" {wanted.get(first, 'missing')} here"
        )
    return weights
