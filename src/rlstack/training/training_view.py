"""Training in the browser: its curves, and the best policy so far in held-out trials, in a process of its own.

The process has the lowest priority, and simulates only while a browser is open: training does not wait for it.
"""

from __future__ import annotations

import io
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from rlstack.robots import RobotSpec
from rlstack.training.run_result import Progress
from rlstack.verification.training_evaluation import verification_of
from rlstack.view.page_process import PageProcess
from rlstack.view.recording import ReplayedTrial
from rlstack.view.server import ViewServer
from rlstack.view.trial_loop import TrialLoop

TRIALS = 3
"""Held-out trials in which a policy is shown."""
_SHARE = (-0.05, 1.05)
"""Range of the curves of shares: by itself, one of zeros has 0 to 100."""

_TOLD_S = 0.5
"""Least time between the figures that are sent."""


class TrainingView(PageProcess):
    """Context manager of the browser view of a run; a part that cannot be shown is left out.

    Args:
        task: The task with its settings.
        robot: The robot.
        port: Port of the page; the next free one if it is in use.

    Raises:
        UserError: viser is not installed, or the port cannot be listened on.
    """

    def __init__(self, task: Any, robot: RobotSpec, port: int = 8080) -> None:
        super().__init__(_Page, task, robot, label="training", port=port)
        self._told_at = 0.0

    def progress(self, progress: Progress) -> None:
        """Show a run's figures."""
        now = time.monotonic()
        if now - self._told_at >= _TOLD_S:
            self._told_at = now
            figures = {"return": progress.reward_per_s, "lost": progress.lost_share}
            if progress.success is not None:
                figures["success"] = progress.success
            self.send("figures", (progress.steps, figures))

    def best(self, graph: Any, contract: Any, steps: int) -> None:
        """Show a new best policy.

        Args:
            graph: Its :class:`rlstack.training.export.PolicyGraph`.
            contract: Its contract.
            steps: Steps of training so far.
        """
        import torch

        file = io.BytesIO()
        with suppress(Exception):  # some graphs hold what cannot be pickled: then curves are all there is
            torch.save((graph, contract), file)
            self.send("policy", (file.getvalue(), steps))


class _Page:
    """The curves, and trials of the newest policy in a loop."""

    def __init__(self, server: ViewServer, task: Any, robot: RobotSpec) -> None:
        self._server, self._task, self._robot = server, task, robot
        self._gui = server.viser.gui
        self._said = self._gui.add_markdown("Training begins.")
        self._steps: dict[str, list[float]] = {}
        self._values: dict[str, list[float]] = {}
        self._plots: dict[str, Any] = {}
        self._stale = False
        self._waiting: tuple[bytes, int] | None = None
        self._loop = TrialLoop(server.viser)

    def take(self, kind: str, content: Any) -> None:
        """Take a message of training."""
        if kind == "policy":
            self._waiting = content
            return
        steps, figures = content
        if not self._steps:
            self._said.content = "A policy is shown in trials once the first evaluation has found the best so far."
        for name, value in figures.items():
            if np.isfinite(value):
                self._steps.setdefault(name, []).append(float(steps))
                self._values.setdefault(name, []).append(float(value))
        self._stale = True

    def draw(self) -> None:
        """Draw what is new, if anybody looks."""
        if not self._server.watched:
            return
        if self._stale:
            self._stale = False
            self._draw_curves()
        if self._waiting is not None:
            (data, steps), self._waiting = self._waiting, None
            self._try(data, steps)
        self._loop.play()

    def _draw_curves(self) -> None:
        from viser import uplot

        for name, values in self._values.items():
            if len(values) < 2:
                continue
            data = np.array(self._steps[name]), np.array(values)
            if name in self._plots:
                self._plots[name].data = data
                continue
            series = uplot.Series(label="steps"), uplot.Series(label=name, stroke="#0072b2", width=2)
            height = uplot.Scale(auto=True) if name == "return" else uplot.Scale(auto=False, range=_SHARE)
            scales: Mapping[str, Any] = {"x": uplot.Scale(time=False, auto=True), "y": height}
            self._plots[name] = self._gui.add_uplot(data, series, title=name, scales=scales, aspect=1.8)

    def _try(self, data: bytes, steps: int) -> None:
        """Run a policy in held-out trials."""
        import torch

        from rlstack.training.export import TorchPolicy

        torch.set_num_threads(1)
        verification = verification_of(self._task, self._robot.kind)
        try:
            graph, contract = torch.load(io.BytesIO(data), weights_only=False, map_location="cpu")
            trials = verification.draw_evaluation(self._task, self._robot, TRIALS, TRIALS)
            policy = TorchPolicy(graph, contract, self._robot)
            found = verification.record(policy, trials, self._task, self._robot, TRIALS)
        except Exception as error:  # whatever a half-trained policy does, the curves go on
            self._said.content = f"The best policy after {steps:,} steps cannot be shown: {error}"
            return
        self._loop.clear()
        self._said.content = f"The best policy so far, after {steps:,} steps, in {len(found)} held-out trials."
        if not found:
            self._said.content = f"After {steps:,} steps. Trials of this task are not shown."
            return
        self._loop.show([ReplayedTrial(f"After {steps:,} steps, trial {k}", (one,)) for k, one in enumerate(found, 1)])
