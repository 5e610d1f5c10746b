"""MLflow: an experiment by the recipe's name, with the recipe as parameters and the policy file as an artifact.

``MLFLOW_TRACKING_URI`` says where, and ``MLFLOW_EXPERIMENT_NAME`` in which experiment.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlstack.libraries import import_library
from rlstack.schema import leaves

_PARAMETERS = 100
"""Most parameters that MLflow takes at once (https://mlflow.org/docs/latest/rest-api: Log Batch)."""
_LONGEST = 500
"""Characters of a parameter that every store takes."""


class MLflow:
    """A run of MLflow; see :class:`rlstack.training.trackers.Tracker`."""

    def __init__(self, name: str, folder: Path, recipe: Mapping[str, Any], run: str | None) -> None:
        mlflow = import_library("mlflow", "mlflow")
        self._entities = import_library("mlflow.entities", "mlflow")
        self._client = mlflow.MlflowClient()
        self.place = f"{mlflow.get_tracking_uri()}"
        if run is not None:
            self._client.update_run(run, status="RUNNING")
            self.run = run
            return
        experiment = os.environ.get("MLFLOW_EXPERIMENT_NAME", str(recipe["name"]))
        found = self._client.get_experiment_by_name(experiment)
        number = self._client.create_experiment(experiment) if found is None else found.experiment_id
        self.run = self._client.create_run(number, run_name=name).info.run_id
        parameters = [self._entities.Param(key, str(one)[:_LONGEST]) for key, one in leaves(recipe)]
        for first in range(0, len(parameters), _PARAMETERS):
            self._client.log_batch(self.run, params=parameters[first : first + _PARAMETERS])

    def log(self, scalars: Mapping[str, float], step: int) -> None:
        """Add scalars at an environment step."""
        now = int(1000 * time.time())
        self._client.log_batch(self.run, [self._entities.Metric(key, x, now, step) for key, x in scalars.items()])

    def finish(self, figures: Mapping[str, float], policy: Path | None) -> None:
        """End the run."""
        if figures:
            self.log(figures, 0)
        if policy is not None:
            self._client.log_artifact(self.run, str(policy))
        self._client.set_terminated(self.run, "KILLED" if policy is None else "FINISHED")


TRACKER = MLflow
