"""Aim: an experiment by the recipe's name, in the repository of the working folder, or that of ``AIM_REPO``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlstack.libraries import import_library


class Aim:
    """A run of Aim; see :class:`rlstack.training.trackers.Tracker`."""

    def __init__(self, name: str, folder: Path, recipe: Mapping[str, Any], run: str | None) -> None:
        aim = import_library("aim", "aim")
        where = os.environ.get("AIM_REPO", str(Path.cwd()))
        self._run = aim.Run(
            run_hash=run,
            repo=where,
            experiment=str(recipe["name"]),
            system_tracking_interval=None,
            capture_terminal_logs=False,
        )
        self._run.name = name
        self._run["recipe"] = dict(recipe)
        self.run = str(self._run.hash)
        self.place = f"{where} (look at it with `aim up --repo {where}`)"

    def log(self, scalars: Mapping[str, float], step: int) -> None:
        """Add scalars at an environment step."""
        for name, scalar in scalars.items():
            self._run.track(scalar, name=name, step=step)

    def finish(self, figures: Mapping[str, float], policy: Path | None) -> None:
        """End the run; Aim keeps no files, so that it has the policy's path."""
        if policy is not None:
            self._run["best"], self._run["policy"] = dict(figures), str(policy.resolve())
        self._run.close()


TRACKER = Aim
