"""The train node: runs training and publishes its progress on topics."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import signal
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar

from rlstack.errors import UserError
from rlstack.nodes.parameters import Parameter
from rlstack.nodes.runtime import ManagedNode
from rlstack.nodes.train_action import POLL_S, TrainAction, missing
from rlstack.processes import die_with_parent
from rlstack.yaml_files import parse_yaml

PROGRESS = "train/progress"
"""std_msgs/String with JSON: the fields of :class:`rlstack.training.run.Progress`."""

STOP = "train/stop"
"""std_srvs/Trigger: save and stop."""

STOP_WITHIN_S = 15.0
"""How long training may take to save and exit before its process is killed."""

PROGRESS_EVERY_S = 0.2
"""Period of progress messages."""

LOG_EVERY_S = 10.0
"""Period of progress log lines."""

PARAMETERS = (
    Parameter("recipe", "quadrotor_hover", "Name of the training recipe, or the path of its YAML file."),
    Parameter("out", "", "The run's folder, which must not exist yet; it receives policy.onnx."),
    Parameter("seed", -1, "Overrides the recipe's seed; -1: keep it.", minimum=-1, maximum=2**31 - 1),
    Parameter("start", True, "Start at once; otherwise with the first goal of the action train/run."),
    Parameter("overrides", "[]", 'More recipe fields as a JSON list, such as ["envs=16", "task_settings.rate_hz=50"].'),
)


@dataclass(frozen=True)
class TrainingRequest:
    """What to train; the fields are the node's parameters."""

    recipe: str
    out: Path
    seed: int
    overrides: tuple[str, ...]


class TrainNode(ManagedNode):
    """Trains in a separate process, so that topics and services stay responsive, and exits when training ends."""

    NAME: ClassVar[str] = "train"
    PARAMETERS: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    def __init__(self, overrides: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__(overrides, **options)
        self._process: Any = None
        self._progress: dict[str, Any] = {}
        self._action: TrainAction | None = None
        self._end: tuple[str, Any] | None = None

    def configure(self) -> None:
        """Check the parameters and create the topics."""
        from std_msgs.msg import String
        from std_srvs.srv import Trigger

        self._starts = self.parameters["start"]
        if not self.parameters["out"] and self._starts:
            raise UserError("The train node needs a folder for its run: --ros-args -p out:=FOLDER.")
        self._request = TrainingRequest(
            recipe=self.parameters["recipe"],
            out=Path(self.parameters["out"]),
            seed=self.parameters["seed"],
            overrides=override_words(self.parameters["overrides"]),
        )
        self._string = String
        self._sender = self.publisher(String, PROGRESS, "latched")
        self.server(Trigger, STOP, self._on_stop)
        self._logged = -LOG_EVERY_S
        if not (why := missing()):
            self._action = TrainAction(self, self._begin, self._ask_to_stop)
        elif self._starts:
            self.get_logger().info(f"Progress is on {PROGRESS}; {why}.")
        else:
            raise UserError(f"start:=false waits for a goal, but {why}.")

    def activate(self) -> None:
        """Start training, or wait for a goal."""
        if self._action is not None and self.executor is not None and hasattr(self.executor, "general_period_s"):
            self.executor.general_period_s = POLL_S
        self.every(0.1, self._poll)
        if self._starts:
            self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")  # ROS's threads do not survive a fork
        self._connection, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=work, args=(theirs, self._request, os.getpid()), name="training")
        self._process.start()
        theirs.close()

    def deactivate(self) -> None:
        """Let training save and stop."""
        self._stop_training()

    def cleanup(self) -> None:
        """Make sure that no training process is left."""
        self._stop_training()
        action, self._action = self._action, None
        if action is not None:
            action.close()

    def status(self) -> tuple[str, dict[str, Any]]:
        """Report the progress of training."""
        return "", self._progress

    def _begin(self, goal: Any) -> str:
        """Begin the training of a goal, or attach it to the one that runs; return why not."""
        if self._end is not None:
            return "training has ended"
        if self._process is not None:
            same = goal.recipe in ("", self._request.recipe) and goal.out in ("", str(self._request.out))
            return "" if same and not goal.overrides else "another training is running"
        given = self._request
        out = Path(goal.out) if goal.out else given.out
        if out == Path(""):
            return "it names no folder for the run: give out"
        words = (*given.overrides, *goal.overrides)
        if not all("=" in word for word in words):
            return "overrides are not all field=value"
        self._request = TrainingRequest(goal.recipe or given.recipe, out, given.seed, words)
        self._start()
        return ""

    def _poll(self) -> None:
        if self._action is not None:
            self._action.poll()
        if self._end is not None:
            self._finish(*self._end)
        elif self._process is not None:
            self._receive()

    def _receive(self) -> None:
        """Take the messages of the training process."""
        try:
            while self._connection.poll():
                kind, content = self._connection.recv()
                if kind == "progress":
                    self._progress = content
                    self._sender.publish(self._string(data=json.dumps(content)))
                    if self._action is not None:
                        self._action.progress(content)
                    self._log()
                    continue
                self._stop_training()
                if kind == "stopped":
                    content = (
                        f"Training was stopped before its end; `rlstack train --resume {self._request.out}` goes on."
                    )
                elif kind == "cancelled":
                    content = "Training was stopped before its first step."
                self._tell_end(kind, content)
                return
        except EOFError:
            self._process.join(5.0)
            status = self._process.exitcode
            self._tell_end("error", f"Training exited unexpectedly (status {status}): see its log lines above.")

    def _tell_end(self, kind: str, content: Any) -> None:
        """Tell the action's client; the node ends once it has heard."""
        self._end = kind, content
        if self._action is not None:
            done = kind == "done"
            policy = str(self._request.out / "policy.onnx") if done else ""
            self._action.end(done, policy, "Training has ended." if done else str(content))
        self._finish(kind, content)

    def _finish(self, kind: str, content: Any) -> None:
        if self._action is not None and not self._action.delivered:
            return
        if kind != "done":
            raise UserError(content)
        self.get_logger().info(f"Training has ended: {self._request.out / 'policy.onnx'}")
        os.kill(os.getpid(), signal.SIGTERM)  # the regular exit of every node: status 0

    def _log(self) -> None:
        if time.monotonic() - self._logged >= LOG_EVERY_S:
            self._logged = time.monotonic()
            p = self._progress
            success = "not evaluated yet" if p["success"] is None else f"{100.0 * p['success']:.1f}%"
            self.get_logger().info(
                f"{100.0 * p['steps'] / p['total_steps']:.0f}%, held-out success {success},"
                f" {p['seconds_left']:.0f} s left"
            )

    def _ask_to_stop(self) -> bool:
        """Make training save and end; return whether there is one."""
        if self._process is None or not self._process.is_alive():
            return False
        os.kill(self._process.pid, signal.SIGINT)
        return True

    def _on_stop(self, request: Any, response: Any) -> Any:
        if not self._ask_to_stop():
            response.message = "Nothing is being trained."
            return response
        response.success, response.message = True, "Training will save and end."
        return response

    def _stop_training(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.is_alive():
            process.join(1.0)  # it may have just sent its last message
        if process.is_alive():
            os.kill(process.pid, signal.SIGINT)
            process.join(STOP_WITHIN_S)
        if process.is_alive():
            process.kill()
            process.join()


def work(connection: Connection, order: TrainingRequest, parent: int) -> None:
    """Train in this process and report events through ``connection``, as pairs of kind and content."""
    os.setsid()  # the terminal's Ctrl-C comes once, from the node
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _stop_once)
    die_with_parent(parent)
    try:
        from rlstack.training.run import start
        from rlstack.training.run_result import Progress

        last = 0.0

        def send_progress(progress: Progress) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= PROGRESS_EVERY_S or progress.steps >= progress.total_steps:
                last = now
                with suppress(OSError):  # the node is gone; its signal follows, which lets training save
                    connection.send(("progress", _plain(asdict(progress))))

        result = start(recipe_for(order), order.out, send_progress)
        with suppress(OSError):
            connection.send(("done" if result.finished else "stopped", {}))
    except KeyboardInterrupt:  # before the first step there is nothing to save
        with suppress(OSError):
            connection.send(("cancelled", {}))
    except UserError as error:
        connection.send(("error", str(error)))
    except ModuleNotFoundError as error:
        if (error.name or "rlstack").startswith("rlstack"):
            raise
        connection.send(("error", f"Training needs '{error.name}', which is not installed: see `rlstack doctor`."))


def _stop_once(number: int, frame: object) -> None:
    """Request that training save and stop with one SIGINT, as a parent's death may signal more than once."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.raise_signal(signal.SIGINT)


def recipe_for(order: TrainingRequest) -> Any:
    """Return the checked recipe with its overrides."""
    from rlstack.schema import to_data
    from rlstack.training.recipe import load_recipe, recipe_from_data

    recipe = load_recipe(order.recipe)
    words = [*([f"seed={order.seed}"] if order.seed >= 0 else []), *order.overrides]
    if not words:
        return recipe
    data = to_data(recipe)
    for word in words:
        key, _, text = word.partition("=")
        *folders, name = key.split(".")
        target = data
        for folder in folders:
            target = target.setdefault(folder, {})
            if not isinstance(target, dict):
                raise UserError(f"overrides: '{key}' is not a recipe field: {folder} has no fields of its own.")
        target[name] = parse_yaml(text, f"the value of the override {word!r}")
    return recipe_from_data(data, f"{order.recipe} with {', '.join(words)}")


def override_words(text: str) -> tuple[str, ...]:
    """Return the words ``field=value`` of the parameter ``overrides``."""
    try:
        words = json.loads(text)
    except ValueError as error:
        raise UserError(f"overrides: {text!r} is not allowed: must be a JSON list ({error}).") from error
    if not isinstance(words, list) or not all(isinstance(w, str) and "=" in w for w in words):
        raise UserError(f"overrides: {text!r} is not allowed: must be a JSON list of texts field=value.")
    return tuple(words)


def _plain(progress: dict[str, Any]) -> dict[str, Any]:
    """Return values that JSON can represent: it has no NaN and no infinity."""
    return {n: None if isinstance(v, float) and not math.isfinite(v) else v for n, v in progress.items()}


main = TrainNode.main

if __name__ == "__main__":
    raise SystemExit(main())
