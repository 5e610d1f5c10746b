"""Training in the browser: its curves, and the best policy so far in held-out trials, in a process of its own.

The process has the lowest priority, and simulates only while a browser is open: training does not wait for it.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

import numpy as np

from rlstack.errors import UserError
from rlstack.processes import die_with_parent
from rlstack.robots import RobotSpec
from rlstack.training.run import Progress
from rlstack.verification.training_evaluation import verification_of
from rlstack.view.recording import ReplayedTrial
from rlstack.view.replay import ReplayScene, look_from
from rlstack.view.server import ViewServer

TRIALS = 3
"""Held-out trials in which a policy is shown."""
_TOLD_S = 0.5
"""Least time between the figures that are sent."""
_RATE_HZ = 20.0
_STAYS_S = 1.0
"""How long the end of a trial is shown."""
_NICE = 19


class TrainingView:
    """Context manager of the browser view of a run; a part that cannot be shown is left out.

    Args:
        task: The task with its settings.
        robot: The robot.
        port: Port of the page; the next free one if it is in use.

    Raises:
        UserError: viser is not installed, or the port cannot be listened on.
    """

    def __init__(self, task: Any, robot: RobotSpec, port: int = 8080) -> None:
        context = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork
        self._connection, theirs = context.Pipe()
        arguments = (theirs, task, robot, port, os.getpid())
        self._process = context.Process(target=_serve, args=arguments, name="training view", daemon=True)
        self._process.start()
        theirs.close()
        self._told_at = 0.0
        try:
            kind, content = self._connection.recv()
        except EOFError:
            kind, content = "error", "The browser view of training ended at its start."
        if kind == "error":
            raise UserError(content)
        self.url: str = content
        """What to open in a browser."""

    def __enter__(self) -> TrainingView:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connection.close()  # it ends then
        self._process.join(timeout=2.0)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join()

    def progress(self, progress: Progress) -> None:
        """Show a run's figures."""
        now = time.monotonic()
        if now - self._told_at >= _TOLD_S:
            self._told_at = now
            figures = {"return": progress.reward_per_s, "lost": progress.lost_share}
            if progress.success is not None:
                figures["success"] = progress.success
            self._send("figures", (progress.steps, figures))

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
            self._send("policy", (file.getvalue(), steps))

    def _send(self, kind: str, content: Any) -> None:
        with suppress(OSError):  # it has ended; training goes on
            self._connection.send((kind, content))


def _serve(connection: Connection, task: Any, robot: RobotSpec, port: int, parent: int) -> None:
    """Serve the page until the other end is closed."""
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for training, whose end ends this
    os.nice(_NICE)
    import torch

    torch.set_num_threads(1)
    try:
        server = ViewServer(port=port, label="training", width="medium")
    except UserError as error:
        connection.send(("error", str(error)))
        return
    connection.send(("open", server.url))
    page = _Page(server, task, robot)
    with suppress(EOFError, OSError):
        while True:
            while connection.poll():
                page.take(*connection.recv())
            page.draw()
            time.sleep(1.0 / _RATE_HZ)
    server.close()


class _Page:
    """The curves, and trials of the newest policy in a loop."""

    def __init__(self, server: ViewServer, task: Any, robot: RobotSpec) -> None:
        self._server, self._task, self._robot = server, task, robot
        self._gui, self._scene = server.viser.gui, server.viser.scene
        self._said = self._gui.add_markdown("Training begins.")
        self._steps: dict[str, list[float]] = {}
        self._values: dict[str, list[float]] = {}
        self._plots: dict[str, Any] = {}
        self._stale = False
        self._waiting: tuple[bytes, int] | None = None
        self._shown: ReplayScene | None = None
        self._trials: list[ReplayedTrial] = []
        self._number, self._since = 0, 0.0

    def take(self, kind: str, content: Any) -> None:
        """Take a message of training."""
        if kind == "policy":
            self._waiting = content
            return
        steps, figures = content
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
        if self._shown is not None:
            self._play(self._shown)

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
            scales: Mapping[str, Any] = {"x": uplot.Scale(time=False, auto=True), "y": uplot.Scale(auto=True)}
            self._plots[name] = self._gui.add_uplot(data, series, title=name, scales=scales, aspect=1.8)

    def _try(self, data: bytes, steps: int) -> None:
        """Run a policy in held-out trials."""
        import torch

        from rlstack.training.export import TorchPolicy

        verification = verification_of(self._task, self._robot.kind)
        try:
            graph, contract = torch.load(io.BytesIO(data), weights_only=False, map_location="cpu")
            trials = verification.draw_evaluation(self._task, self._robot, TRIALS, TRIALS)
            policy = TorchPolicy(graph, contract, self._robot)
            found = verification.record(policy, trials, self._task, self._robot, TRIALS)
        except Exception as error:  # whatever a half-trained policy does, the curves go on
            self._said.content = f"The best policy after {steps:,} steps cannot be shown: {error}"
            return
        if self._shown is not None:
            self._shown.remove()
            self._shown = None
        self._said.content = f"The best policy so far, after {steps:,} steps, in {len(found)} held-out trials."
        self._trials = [ReplayedTrial(f"After {steps:,} steps, trial {k}", (one,)) for k, one in enumerate(found, 1)]
        if not found:
            self._said.content = f"After {steps:,} steps. Trials of this task are not shown."
            return
        self._shown = ReplayScene(self._scene, self._trials)
        self._number, self._since = 0, time.monotonic()
        cameras = [self._server.viser.initial_camera, *(c.camera for c in self._server.viser.get_clients().values())]
        for camera in cameras:
            look_from(camera, self._shown.away_m)

    def _play(self, shown: ReplayScene) -> None:
        time_s = time.monotonic() - self._since
        if time_s > self._trials[self._number].duration_s + _STAYS_S:
            self._number, self._since, time_s = (self._number + 1) % len(self._trials), time.monotonic(), 0.0
        with self._server.viser.atomic():
            shown.show(self._number, time_s)
