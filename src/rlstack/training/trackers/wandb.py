"""Weights & Biases: a project ``rlstack``, with runs grouped by the recipe's name and the policy file as an artifact.

``WANDB_PROJECT``, ``WANDB_ENTITY``, ``WANDB_MODE`` and its other variables say where; ``WANDB_MODE=offline`` keeps the
run in the run's folder, for ``wandb sync``.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlstack.errors import UserError
from rlstack.libraries import import_library

_OPENING_S, _CLOSING_S = 20, 50
"""Longest time to open a run, and to send the rest at its end, s."""


class WeightsAndBiases:
    """A run of Weights & Biases; see :class:`rlstack.training.trackers.Tracker`."""

    def __init__(self, name: str, folder: Path, recipe: Mapping[str, Any], run: str | None) -> None:
        self._wandb = wandb = import_library("wandb", "wandb")
        if wandb.setup().settings.mode == "online" and not wandb.login(prompt=False, verify=False):
            raise UserError("there is no key on this machine: run `wandb login`, or set WANDB_MODE=offline.")
        # neither what is printed nor sources and their changes are sent
        settings = wandb.Settings(
            console="off",
            silent=True,
            disable_git=True,
            disable_code=True,
            init_timeout=_OPENING_S,
            finish_timeout=_CLOSING_S,
        )
        try:
            self._run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "rlstack"),
                group=str(recipe["name"]),
                name=name,
                id=run,
                resume=None if run is None else "allow",
                dir=str(folder),
                config=dict(recipe),
                settings=settings,
            )
        except Exception:
            if run is None:  # its logs would keep the folder of a run that was refused
                shutil.rmtree(folder / "wandb", ignore_errors=True)
            raise
        self.run = str(self._run.id)
        kept = self._run.settings.sync_dir
        self.place = f"{kept} (send it with `wandb sync {kept}`)" if self._run.offline else str(self._run.url)

    def log(self, scalars: Mapping[str, float], step: int) -> None:
        """Add scalars at an environment step."""
        self._run.log(dict(scalars), step=step)

    def finish(self, figures: Mapping[str, float], policy: Path | None) -> None:
        """End the run."""
        self._run.summary.update(dict(figures))
        if policy is not None:
            artifact = self._wandb.Artifact(f"policy-{self.run}", type="model")
            artifact.add_file(str(policy))
            self._run.log_artifact(artifact)
        self._run.finish(exit_code=1 if policy is None else 0)


TRACKER = WeightsAndBiases
