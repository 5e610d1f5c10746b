"""Prompts, plans and scores of the Embodied Agent Interface in a Python environment of its own, without rlstack."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

_DATASET = "virtualhome"
_SOLVER = "rlstack"
_PROCESSES = 2
"""Planners of an evaluator at once, which would start 32."""


class Worker:
    """What a connection's commands call."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="rlstack-embodied-"))
        os.chdir(self._folder)  # the package writes logs where it is

    def versions(self) -> dict[str, str]:
        """Return the installed versions."""
        from importlib.metadata import version

        return {name: version(name) for name in ("eai-eval", "up-fast-downward")}

    def prompts(self, module: str) -> list[tuple[str, str, str]]:
        """Return identifier, system prompt and prompt of each task of a module."""
        from virtualhome_eval import agent_eval

        agent_eval.agent_evaluation("generate_prompts", module, str(self._folder), _DATASET)
        file = self._folder / _DATASET / "generate_prompts" / module / "helm_prompt.json"
        system = ""
        if module == "subgoal_decomposition":
            setup = Path(agent_eval.default_evaluation_dir) / module / "prompts" / "system_setup.json"
            system = json.loads(setup.read_text())["system_prompt"]
        return [(made["identifier"], system, made["llm_prompt"]) for made in json.loads(file.read_text())]

    def plan(self, domain: str, problem: str, seconds: int) -> list[list[str]] | None:
        """Return the steps, action and objects, of a plan that Fast Downward finds; None if there is none in time."""
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            for name, text in (("domain", domain), ("problem", problem)):
                Path(folder, f"{name}.pddl").write_text(text)
            limits = ["--plan-file", "plan", "--overall-time-limit", f"{seconds}s"]
            search = ["--search", "lazy_greedy([ff()], preferred=[ff()])"]
            words = [sys.executable, _downward(), *limits, "domain.pddl", "problem.pddl", *search]
            subprocess.run(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            file = Path(folder, "plan")
            if not file.is_file():
                return None
            return [line.strip("()\n").split() for line in file.read_text().splitlines() if line.startswith("(")]

    def evaluate(self, module: str, answers: list[tuple[str, str]]) -> Any:
        """Return the summary of a module's own evaluator for identifiers and answers."""
        from virtualhome_eval.agent_eval import agent_evaluation

        _use_planner()
        given, scored = self._folder / "answers", self._folder / "scores"
        folder = given / _DATASET / module
        for some in (folder, scored):
            shutil.rmtree(some, ignore_errors=True)
        folder.mkdir(parents=True)
        rows = [{"identifier": identifier, "llm_output": answer} for identifier, answer in answers]
        (folder / f"{_SOLVER}_outputs.json").write_text(json.dumps(rows))
        agent_evaluation("evaluate_results", module, str(scored), _DATASET, str(given))
        return json.loads((scored / _DATASET / "evaluate_results" / module / _SOLVER / "summary.json").read_text())

    def __del__(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def _downward() -> str:
    import up_fast_downward

    return str(Path(up_fast_downward.__file__).parent / "downward" / "fast-downward.py")


def _use_planner() -> None:
    """Have evaluators use the installed Fast Downward, which they would fetch and build, and fewer processes."""
    from virtualhome_eval.simulation.evolving_graph.pddlgym_planners.fd import FD
    from virtualhome_eval.simulation.evolving_graph.pddlgym_planners.pddl_planner import PDDLPlanner

    class Planner(FD):  # type: ignore[misc]
        def __init__(self) -> None:
            PDDLPlanner.__init__(self)
            self._exec, self._alias_flag, self._final_flags = (
                f"{sys.executable} {_downward()}",
                "--alias lama-first",
                "",
            )

    module = import_module("virtualhome_eval.evaluation.transition_modeling.scripts.evaluate_results")
    module.FD = Planner  # type: ignore[attr-defined]
    pool = import_module("multiprocessing").Pool
    module.Pool = lambda processes: pool(min(processes, _PROCESSES))  # type: ignore[attr-defined]
