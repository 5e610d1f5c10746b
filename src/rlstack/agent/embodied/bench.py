"""The benchmark from prompts to figures, in stages that go on where they were interrupted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlstack.agent.embodied.answers import answer
from rlstack.agent.embodied.suite import FIGURES, PACKAGE, Module
from rlstack.agent.model import AnswerError, Completion, Model
from rlstack.errors import UserError
from rlstack.files import lock, write_atomically, write_json
from rlstack.foreign.workers import Workers

RESULTS, REPORT = "results.json", "report.md"
WITHOUT_MODEL = "grammar and planner"

OnProgress = Callable[[str, int, int], None]

_MOST_TOKENS = 2048
"""Longest answer of a model, as in the benchmark's own evaluations."""


@dataclass(frozen=True)
class Options:
    """What is run.

    Args:
        modules: The benchmark's modules.
        model: A language model that answers; None: the agent's grammar and a planner.
        every: Of so many tasks only the first is run; figures of all are those of 1.
        seconds: Time limit of a plan of the planner, s.
    """

    modules: tuple[Module, ...]
    model: Model | None = None
    every: int = 1
    seconds: int = 20


def bench(options: Options, folder: Path, python: Path, on_progress: OnProgress) -> dict[str, Any]:
    """Run what is left, write ``results.json`` and ``report.md`` in the folder, and return the results.

    Args:
        options: What is run.
        folder: Where prompts, answers and figures are kept.
        python: Interpreter of an environment with the benchmark.
        on_progress: Called with a stage, and how much of it is done.

    Raises:
        UserError: The benchmark is missing, the folder is of other options, or a model's endpoint cannot be used.
    """
    held = lock(folder, ".lock", f"--out {folder} is not allowed: another benchmark runs in it.")
    try:
        solver = options.model.name if options.model else WITHOUT_MODEL
        kept = {"solver": solver, "every": options.every}
        _check(folder / "options.json", kept)
        found: dict[str, Any] = {}
        with Workers(PACKAGE, python) as workers:
            for module in options.modules:
                found[module] = _run(module, options, folder, workers, on_progress)
            results = {**kept, "versions": workers.versions, "modules": found}
        write_json(folder / RESULTS, results)
        write_atomically(folder / REPORT, report_of(results))
        return results
    finally:
        os.close(held)


def _check(file: Path, kept: dict[str, Any]) -> None:
    if file.is_file() and (before := json.loads(file.read_text())) != kept:
        raise UserError(f"--out {file.parent} is not allowed: it is of other options, {json.dumps(before)}.")
    write_json(file, kept)


def _run(module: Module, options: Options, folder: Path, workers: Workers, on_progress: OnProgress) -> dict[str, Any]:
    """Return the figures of a module."""
    prompts = _prompts(module, folder, workers, on_progress)[:: options.every]
    answers = _Answers(folder / f"{module}.answers.jsonl")

    def plan(domain: str, problem: str) -> Any:
        return workers.ask(0, "plan", domain, problem, options.seconds)

    for number, (identifier, system, prompt) in enumerate(prompts):
        if identifier not in answers.held:
            said = _asked(options.model, system, prompt) if options.model else answer(module, prompt, plan)
            answers.add(identifier, said)
        on_progress(f"{module}: answers", number + 1, len(prompts))
    file = folder / f"{module}.summary.json"
    if not file.is_file():
        on_progress(f"{module}: evaluation", 0, 1)
        given = [(identifier, answers.held[identifier]) for identifier, _, _ in prompts]
        write_json(file, workers.ask(0, "evaluate", module, given))
    summary: dict[str, Any] = json.loads(file.read_text())
    return {
        "tasks": len(prompts),
        "answered": sum(bool(answers.held[identifier]) for identifier, _, _ in prompts),
        "figures": {figure.title: figure.of(summary) for figure in FIGURES[module]},
        "summary": summary,
    }


def _prompts(module: Module, folder: Path, workers: Workers, on_progress: OnProgress) -> list[tuple[str, str, str]]:
    file = folder / f"{module}.prompts.json"
    if not file.is_file():
        on_progress(f"{module}: prompts", 0, 1)
        write_json(file, workers.ask(0, "prompts", module))
    found: list[tuple[str, str, str]] = json.loads(file.read_text())
    return found


def _asked(model: Model, system: str, prompt: str) -> str:
    """Return a model's answer; empty if it has none, which counts as a wrong one."""
    messages = [("system", system)] if system else []
    try:
        return Completion(model, [*messages, ("user", prompt)], _MOST_TOKENS).wait()
    except AnswerError:
        return ""


class _Answers:
    """Answers by identifier in a file, to which each is added when it is there."""

    def __init__(self, file: Path) -> None:
        self._file = file
        lines: Sequence[str] = file.read_text().splitlines(keepends=True) if file.is_file() else ()
        whole = [line for line in lines if line.endswith("\n")]
        if len(whole) < len(lines):
            file.write_text("".join(whole))  # the last one was cut off
        self.held: dict[str, str] = dict(json.loads(line) for line in whole)

    def add(self, identifier: str, said: str) -> None:
        """Keep an answer."""
        with self._file.open("a") as file:
            file.write(json.dumps([identifier, said]) + "\n")
        self.held[identifier] = said


def report_of(results: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    some = "" if results["every"] == 1 else f", every {results['every']}th task"
    lines = [
        f"# Embodied Agent Interface, VirtualHome: {results['solver']}",
        "",
        f"{versions}{some}. Figures are those of the package's own evaluators.",
        "",
        "| module | tasks | answered | |",
        "| --- | --- | --- | --- |",
    ]
    for module, found in results["modules"].items():
        figures = ", ".join(f"{title} {value:.1f}%" for title, value in found["figures"].items())
        lines.append(f"| {module.replace('_', ' ')} | {found['tasks']} | {found['answered']} | {figures} |")
    if results["solver"] == WITHOUT_MODEL:
        lines += [
            "",
            "Grammar and planner get the prompts that a language model gets, and nothing else. Goals are interpreted by"
            " the agent's grammar. Transition models are the planner's own, written by hand.",
        ]
    return "\n".join(lines) + "\n"
