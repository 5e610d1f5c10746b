"""What finished and unfinished runs are, read from their folders without torch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rlstack.errors import UserError
from rlstack.training.remote_runs import fetched_runs, is_remote
from rlstack.training.run_files import FIGURES, RECIPE
from rlstack.yaml_files import read_yaml


@dataclass(frozen=True)
class RunSummary:
    """One run.

    Args:
        place: Its folder, or its address in an object store.
        folder: Its folder, or one with copies of its small files.
        name: Of its recipe, which runs over several seeds share.
        task, robot, algorithm, seed: As in its recipe.
        began: When its folder was written.
        figures: Those of training.json; empty while it trains, or if it was killed.
    """

    place: str
    folder: Path
    name: str
    task: str
    robot: str
    algorithm: str
    seed: int
    began: datetime
    figures: dict[str, Any]

    @property
    def finished(self) -> bool:
        """Whether it trained to its last step."""
        return bool(self.figures.get("finished"))

    def figure(self, name: str) -> float | None:
        """Return a figure of its best policy's evaluation, such as ``success``; None if it has none."""
        found = self.figures.get("evaluation", {}).get(name)
        return None if found is None else float(found)

    def curve(self, name: str) -> tuple[list[float], list[float]]:
        """Return steps and a figure of each evaluation, in order."""
        rows = [row for row in self.figures.get("evaluations", ()) if name in row]
        return [float(row["step"]) for row in rows], [float(row[name]) for row in rows]


def find_runs(places: Sequence[Path | str]) -> list[RunSummary]:
    """Return the runs that are, or are anywhere in, ``places``, by name and seed.

    A place is a folder, or an address that fsspec reads, such as ``s3://bucket/runs``.

    Raises:
        UserError: A place is not there or cannot be read, or no run is in any of them.
    """
    found: dict[str, Path] = {}
    for place in places:
        if is_remote(str(place)):
            found |= dict(fetched_runs(str(place)))
            continue
        folder = Path(place)
        if not folder.is_dir():
            raise UserError(f"There is no folder {folder}: name a run's folder, or one with runs in it.")
        found |= {str(path.parent): path.parent for path in sorted(folder.rglob(RECIPE))}
    runs = [_run(place, folder) for place, folder in found.items()]
    if not runs:
        raise UserError(f"No run is in {', '.join(map(str, places))}: `rlstack train RECIPE` makes one.")
    return sorted(runs, key=lambda run: (run.name, run.seed, run.place))


def _run(place: str, folder: Path) -> RunSummary:
    recipe = folder / RECIPE
    data = read_yaml(recipe, "the recipe")
    if not isinstance(data, dict) or not {"name", "task", "robot"} <= set(data):
        raise UserError(f"{place}/{RECIPE} is no run's recipe: name, task or robot is missing.")
    return RunSummary(
        place=place,
        folder=folder,
        name=str(data["name"]),
        task=str(data["task"]),
        robot=str(data["robot"]),
        algorithm=str(data.get("algorithm", "ppo")),
        seed=int(data.get("seed", 0)),
        began=datetime.fromtimestamp(recipe.stat().st_mtime),
        figures=_figures(folder / FIGURES),
    )


def setup_s(folder: Path) -> float | None:
    """Return what it took to set the run in ``folder`` up, CPU-seconds; None: it is not known yet."""
    found = _figures(folder / FIGURES).get("setup_cpu_seconds")
    return float(found) if isinstance(found, (int, float)) else None


def _figures(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}. Train again, or move the run away.") from error
    return found if isinstance(found, dict) else {}
