"""The command `rlstack bench agent`: options and progress."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from rlstack.agent.embodied.bench import REPORT, Options, bench
from rlstack.agent.embodied.suite import MODULES, PACKAGE, Module
from rlstack.agent.model import ANSWERED_WITHIN_S, KEY_VARIABLE, Model
from rlstack.errors import UserError
from rlstack.progress import StageLines, say


@dataclass(frozen=True)
class BenchAgent:
    """Score how the agent plans without a robot: the Embodied Agent Interface on VirtualHome.

    With --model-url a language model answers its prompts; without, the agent's grammar and a planner, which get the
    same prompts. docs/agent.md explains them. Run again with the same options, it goes on where it was interrupted. It
    leaves results.json and report.md in --out.
    """

    modules: tuple[Module, ...] = MODULES
    """What is scored."""
    out: Path | None = None
    """Folder of all that is kept. Default: runs/embodied-MODEL."""
    model_url: str = ""
    """Base of an OpenAI-compatible endpoint, such as http://localhost:8000/v1."""
    model: str = ""
    """The model's name there."""
    model_key: Annotated[str, tyro.conf.arg(metavar="VARIABLE")] = KEY_VARIABLE
    """Environment variable with the endpoint's key, if it needs one."""
    model_timeout: Annotated[float, tyro.conf.arg(metavar="SECONDS")] = ANSWERED_WITHIN_S
    """Time limit for each answer."""
    every: int = 1
    """Run only every so many tasks."""
    python: Path | None = None
    """Interpreter of an environment with the benchmark. Default: one in the user's cache, made if it is missing."""

    def run(self) -> int:
        """Run what is left and print the report."""
        if self.every < 1:
            raise UserError(f"--every {self.every} is not allowed: give 1 or more.")

        model = Model(self.model_url, self.model, self.model_key, self.model_timeout) if self.model_url else None
        name = "".join(letter if letter.isalnum() or letter in ".-" else "-" for letter in self.model) or "planner"
        folder = self.out or Path("runs") / f"embodied-{name}"
        options = Options(self.modules, model, self.every)
        bench(options, folder, self.python or PACKAGE.own_python(say=say), StageLines())
        print((folder / REPORT).read_text(), end="")
        return 0
