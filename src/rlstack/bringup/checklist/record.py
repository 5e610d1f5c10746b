"""The record of a bring-up: what was answered and measured, when, with which versions; a JSON file."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from rlstack.bringup.checklist.steps import Step
from rlstack.errors import UserError
from rlstack.files import write_json
from rlstack.schema import to_data

Result = Literal["passed", "failed", "open"]


class Record:
    """The record of one robot, written anew after every step.

    Args:
        file: Where it is; it need not exist yet.
        header: What it says of the robot.

    Raises:
        UserError: The file is not such a record.
    """

    def __init__(self, file: Path, header: Mapping[str, Any]) -> None:
        self.file = file
        self._steps: dict[str, Any] = {}
        if file.exists():
            try:
                self._steps = dict(json.loads(file.read_text(encoding="utf-8"))["steps"])
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise UserError(f"{file} is no record of a bring-up ({error!r}): give another --record.") from error
        self._header = {**header, "versions": _versions()}

    def done(self, step: Step, context: Mapping[str, str]) -> str:
        """Return when a step has passed, as it is now and in the same context; empty: it has not."""
        entry = self._steps.get(step.name, {})
        same = entry.get("step") == _plain(step) and entry.get("context") == dict(context)
        return str(entry.get("date", "")) if same and entry.get("result") == "passed" else ""

    def note(
        self, step: Step, context: Mapping[str, str], result: Result, said: str, measured: Mapping[str, Any]
    ) -> None:
        """Note a step's result, and write the file.

        Args:
            step: The step.
            context: What it holds for: if this changes, it is to be done again.
            result: The result.
            said: The person's answer, or why it failed.
            measured: Numbers and texts by name.
        """
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._steps[step.name] = {
            "result": result,
            "date": now,
            "said": said,
            "measured": dict(measured),
            "context": dict(context),
            "step": _plain(step),
        }
        write_json(self.file, {**self._header, "written": now, "steps": self._steps})


def _plain(step: Step) -> Any:
    """Return a step as it is read back from JSON."""
    return json.loads(json.dumps(to_data(step)))


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "system": platform.platform()}
    for package in ("rlstack", "numpy", "onnxruntime"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "run from its sources"
    return found
