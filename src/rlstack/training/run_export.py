"""Every figure of runs in one table, for whoever compares across machines, versions and projects.

One row for each figure, as Open RL Benchmark (arXiv 2402.03046) keeps them: with the run, its seed and settings, how
far it was, what it cost by then, and what computed it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from rlstack.errors import UserError
from rlstack.libraries import import_library
from rlstack.training.run_files import RECIPE, SCALARS
from rlstack.training.run_summaries import RunSummary
from rlstack.yaml_files import read_yaml

_PER_RUN = ("seconds", "cpu_seconds", "evaluation_cpu_seconds", "setup_cpu_seconds", "steps")
"""Figures of a whole run."""


def figure_rows(runs: Sequence[RunSummary], scalars: bool = False) -> Iterator[list[dict[str, Any]]]:
    """Yield, for each run, a row for each figure of each evaluation, of its best policy and of its end.

    Runs that have not ended are left out. Columns: ``run``, ``name``, ``task``, ``robot``, ``algorithm``, ``seed``,
    ``began``, ``finished``; ``of`` (``evaluation``, ``best``, ``run`` or ``scalar``), ``step`` and ``cpu_seconds`` by
    then, ``figure``, ``value``; ``recipe`` as JSON; ``rlstack``, ``versions`` as JSON, ``python``, ``system``,
    ``processor``, ``gpu``, ``cores`` and ``memory_gib``. What a run of an earlier version did not record is empty.

    Args:
        runs: The runs.
        scalars: Whether to add every scalar that TensorBoard shows, whose ``cpu_seconds`` are not known.

    Raises:
        UserError: No run has ended.
    """
    ended = [run for run in runs if run.figures]
    if not ended:
        raise UserError("No run has ended yet: there are no figures to write.")
    return (list(_of_run(run, scalars)) for run in ended)


def _of_run(run: RunSummary, scalars: bool) -> Iterator[dict[str, Any]]:
    figures, made = run.figures, run.figures.get("machine") or {}
    versions = made.get("versions", {})
    whole = {
        "run": run.place,
        "name": run.name,
        "task": run.task,
        "robot": run.robot,
        "algorithm": run.algorithm,
        "seed": run.seed,
        "began": run.began,
        "finished": run.finished,
    }
    about = {
        "recipe": json.dumps(read_yaml(run.folder / RECIPE, "the recipe")),
        "rlstack": versions.get("rlstack", ""),
        "versions": json.dumps(versions),
        **{name: made.get(name, "") for name in ("python", "system", "processor", "gpu")},
        **{name: made.get(name) for name in ("cores", "memory_gib")},
    }
    end = {"step": _number(figures.get("steps")), "cpu_seconds": _number(figures.get("cpu_seconds"))}
    rows = [("evaluation", row) for row in figures.get("evaluations", ())]
    rows += [("best", figures.get("evaluation", {})), ("run", {name: figures.get(name) for name in _PER_RUN})]
    for of, found in rows:
        when = {name: _number(found[name]) for name in end if name in found} if of == "evaluation" else {}
        for name, value in found.items():
            if _number(value) is not None and name not in when:
                yield {**whole, "of": of, **end, **when, "figure": name, "value": _number(value), **about}
    for name, step, value in _scalars(run) if scalars else ():
        yield {**whole, "of": "scalar", "step": step, "cpu_seconds": None, "figure": name, "value": value, **about}


def _scalars(run: RunSummary) -> Iterator[tuple[str, float, float]]:
    """Yield name, step and value of each scalar, those of a resumed run that it repeated once."""
    if not any(run.folder.glob(f"{SCALARS}*")):
        return
    events = import_library("tensorboard.backend.event_processing.event_accumulator", "train")
    held = events.EventAccumulator(str(run.folder), size_guidance={events.SCALARS: 0})
    held.Reload()
    for name in sorted(held.Tags()[events.SCALARS]):
        for one in held.Scalars(name):
            yield name, float(one.step), float(one.value)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
