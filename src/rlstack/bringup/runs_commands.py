"""The commands `rlstack runs list`, `runs compare` and `runs plot`: options and entry points."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from rlstack.errors import UserError
from rlstack.text_table import aligned

if TYPE_CHECKING:
    from rlstack.training.run_summaries import RunSummary

_Folders = Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="FOLDER ...")]
_Groups = Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=FOLDERS ...")]
_File = Annotated[Path | None, tyro.conf.arg(metavar="FILE")]


@dataclass(frozen=True)
class RunsList:
    """List training runs: name, task, robot, date, steps, success, seconds, and whether they finished."""

    folders: _Folders = ("runs",)
    """Runs, or folders with runs in them, also in an object store, as fsspec names it: s3://bucket/runs."""
    json: _File = None
    """Write the list to this file as well."""

    def run(self) -> int:
        """Print the table."""
        from rlstack.files import write_json
        from rlstack.training.run_summaries import find_runs

        runs = find_runs(self.folders)
        names = ("run", "name", "task", "robot", "date", "steps", "success", "seconds", "finished")
        print("\n".join(aligned([names, *(_row(run) for run in runs)])))
        if self.json is not None:
            data = [{**asdict(run), "folder": run.place, "began": run.began.isoformat()} for run in runs]
            write_json(self.json, data)
        return 0


@dataclass(frozen=True)
class RunsCompare:
    """Compare runs over seeds: interquartile mean with its 95% interval, and probability of improvement.

    As Agarwal et al. propose for few runs (NeurIPS 2021, arXiv 2108.13264): the interquartile mean is that of the
    middle half of all scores; intervals are percentiles of a bootstrap of 10,000 samples, stratified by task.
    """

    folders: _Folders = ("runs",)
    """Runs, or folders with runs in them; those with the same name are a group."""
    group: _Groups = ()
    """Groups by another name: tuned=runs/tuned-* plain=runs/a,runs/b. FOLDERS are not read then."""
    figure: str = "success"
    """Figure of the best policy's evaluation, as in training.json."""
    lower: bool = False
    """Whether a lower figure is better, such as an error."""
    json: _File = None
    """Write the figures to this file as well."""

    def run(self) -> int:
        """Print the table, beside the first group."""
        from rlstack.files import write_json
        from rlstack.training.run_statistics import interquartile_mean, probability_of_improvement

        scores = {name: _scores(name, runs, self.figure) for name, runs in _grouped(self.folders, self.group).items()}
        first, sign = next(iter(scores)), -1.0 if self.lower else 1.0
        rows: list[Sequence[str]] = [("group", "runs", f"{self.figure} (95%)", f"better than {first} (95%)")]
        data: dict[str, Any] = {}
        for name, own in scores.items():
            middle = interquartile_mean(list(own.values()))
            shared = [task for task in own if task in scores[first]]
            better = None
            if name != first and shared:
                ours, theirs = ([sign * one[task] for task in shared] for one in (own, scores[first]))
                better = probability_of_improvement(ours, theirs)
            count = sum(map(len, own.values()))
            data[name] = {"runs": count, self.figure: asdict(middle), "better": asdict(better) if better else None}
            rows.append((name, str(count), f"{middle:.4g}", f"{better:.0%}" if better else "-"))
        print("\n".join(aligned(rows)))
        if min(one["runs"] for one in data.values()) < 3:
            print("\nGroups of one or two runs: their intervals say nothing. Train more seeds (--seed).")
        if self.json is not None:
            write_json(self.json, data)
        return 0


@dataclass(frozen=True)
class RunsPlot:
    """Plot learning curves: a figure of each evaluation over the steps, by group, with 95% intervals over runs.

    With --profile, instead, which share of the runs is better than each value of the figure (a performance profile).
    """

    folders: _Folders = ("runs",)
    """Runs, or folders with runs in them; those with the same name are a group."""
    group: _Groups = ()
    """Groups by another name, as for `rlstack runs compare`."""
    figure: str = "success"
    """Figure of training.json's evaluations."""
    profile: bool = False
    """Plot performance profiles of the best policies' figures."""
    lower: bool = False
    """Whether a lower figure is better, such as an error; for --profile."""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("curves.png")
    """The picture, .png or .svg."""

    def run(self) -> int:
        """Draw and write the picture."""
        from rlstack.files import check_folder, write_atomically
        from rlstack.training.run_plots import learning_curves, profiles

        kind = self.out.suffix.removeprefix(".")
        if kind not in ("png", "svg"):
            raise UserError(f"--out {self.out}: its name must end in .png or .svg.")
        check_folder(self.out.expanduser().parent, "--out")
        groups = _grouped(self.folders, self.group)
        if self.profile:
            scores = {name: list(_scores(name, runs, self.figure).values()) for name, runs in groups.items()}
            picture = profiles(scores, self.figure, self.lower, kind)
        else:
            picture = learning_curves(groups, self.figure, kind)
        write_atomically(self.out.expanduser(), picture, what="the picture")
        print(self.out)
        return 0


@dataclass(frozen=True)
class RunsExport:
    """Write every figure of runs to one Parquet file, with seeds, settings, versions, hardware and cost.

    A row is a figure of an evaluation or of the end of a run; pandas, Polars and DuckDB read it.
    """

    folders: _Folders = ("runs",)
    """Runs, or folders with runs in them, such as a sweep's."""
    out: Annotated[str, tyro.conf.arg(metavar="FILE")] = "runs.parquet"
    """The file, .parquet; also in an object store, as fsspec names it: s3://bucket/runs.parquet"""
    scalars: bool = False
    """Also every scalar that TensorBoard shows, thousands a run."""

    def run(self) -> int:
        """Write the file."""
        from rlstack.data.lerobot.tables import groups_to_bytes
        from rlstack.files import check_folder, write_atomically
        from rlstack.libraries import import_library
        from rlstack.training.remote_runs import is_remote
        from rlstack.training.run_export import figure_rows
        from rlstack.training.run_summaries import find_runs

        if not self.out.endswith(".parquet"):
            raise UserError(f"--out {self.out}: its name must end in .parquet.")
        remote = is_remote(self.out)
        if remote:
            store = import_library("fsspec", "train")
        else:
            check_folder(Path(self.out).expanduser().parent, "--out")
        count, data = groups_to_bytes(figure_rows(find_runs(self.folders), self.scalars))
        if remote:
            try:
                with store.open(self.out, "wb") as file:
                    file.write(data)
            except (OSError, ValueError, ImportError) as error:
                raise UserError(f"--out {self.out} cannot be written: {error}") from error
        else:
            write_atomically(Path(self.out).expanduser(), data, what="the figures")
        print(f"{count} figures: {self.out}")
        return 0


def _matched(pattern: str) -> list[str]:
    """Return the folders of a pattern; an address in an object store is taken as it is."""
    from rlstack.training.remote_runs import is_remote

    return [pattern] if is_remote(pattern) else sorted(glob.glob(pattern))


def _grouped(folders: Sequence[str], groups: Sequence[str]) -> dict[str, list[RunSummary]]:
    """Return runs by group: as given, or by their recipes' names.

    Raises:
        UserError: A group is not NAME=FOLDERS, matches nothing, or no run is there.
    """
    from rlstack.training.run_summaries import find_runs

    found: dict[str, list[RunSummary]] = {}
    for text in groups:
        name, equals, patterns = text.partition("=")
        if not (name and equals and patterns):
            raise UserError(f"--group: {text!r} is not allowed: give NAME=FOLDERS, such as tuned=runs/tuned-*.")
        matched = [one for pattern in patterns.split(",") for one in _matched(pattern)]
        if not matched:
            raise UserError(f"--group: {text!r} matches no folder.")
        found[name] = find_runs(matched)
    if not groups:
        for run in find_runs(folders):
            found.setdefault(run.name, []).append(run)
    return found


def _scores(name: str, runs: Sequence[RunSummary], figure: str) -> dict[tuple[str, str], Any]:
    """Return the figure of a group's runs by task and robot; runs that have not ended are left out.

    Raises:
        UserError: No run has the figure.
    """
    import numpy as np

    by_task: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        if (score := run.figure(figure)) is not None:
            by_task.setdefault((run.task, run.robot), []).append(score)
    if not by_task:
        known = sorted({key for run in runs for key in run.figures.get("evaluation", {})})
        raise UserError(f"No run of {name} has the figure {figure}. Figures: {', '.join(known) or 'none yet'}.")
    return {task: np.array(scores) for task, scores in by_task.items()}


def _row(run: RunSummary) -> tuple[str, ...]:
    success, seconds = run.figure("success"), run.figures.get("seconds")
    ended = "yes" if run.finished else "no" if run.figures else "not yet"
    return (
        run.place,
        run.name,
        Path(run.task).name,
        Path(run.robot).name,
        f"{run.began:%Y-%m-%d %H:%M}",
        f"{run.figures['steps']:,}" if "steps" in run.figures else "-",
        "-" if success is None else f"{100 * success:.1f}%",
        "-" if seconds is None else f"{seconds:.0f}",
        ended,
    )
