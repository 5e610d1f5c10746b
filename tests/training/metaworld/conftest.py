"""A simulator in this process in place of Meta-World, which is seldom installed, for the stages around it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlstack.training.metaworld.worker import SIZE


class Simulator:
    """Answers the commands of a worker: a hand that succeeds where its x passes a bound, which the seed draws."""

    def __init__(self) -> None:
        self.versions = {"metaworld": "3.1.1", "mujoco": "3.3.0"}
        self.asked: list[str] = []
        self.strays: Any = None
        self.taught: Any = None
        self._answer: Any = None
        self._hands: dict[str, Any] = {}
        self._steps: dict[str, int] = {}

    def __len__(self) -> int:
        return 1

    def __enter__(self) -> Simulator:
        return self

    def __exit__(self, *error: object) -> None: ...

    def cpu_s(self) -> float:
        return 0.0

    def ready(self, worker: int, seconds: float) -> bool:
        return True

    def ask(self, worker: int, name: str, *arguments: Any) -> Any:
        self.send(worker, name, *arguments)
        return self.receive(worker)

    def receive(self, worker: int) -> Any:
        return self._answer

    def send(self, worker: int, name: str, *arguments: Any) -> None:
        self.asked.append(name)
        self._answer = getattr(self, name)(*arguments)

    def record(self, task: str, wanted: int, strays: Any, taught: Any, seed: int) -> dict[str, Any]:
        random = np.random.default_rng([seed, len(task)])
        count, chunk = 3 * wanted, strays.shape[2]
        self.strays, self.taught = strays, taught
        return {
            "state": random.standard_normal((count, 4)).astype(np.float32),
            "labels": random.standard_normal((count, 9)).astype(np.float32),
            "places": random.uniform(-1.0, 1.0, (count, 3, 2)).astype(np.float32),
            "picture": random.integers(0, 255, (count, SIZE, SIZE, 3), dtype=np.uint8),
            "action": np.tile(np.array([1.0, 0.0, 0.0, 0.0], np.float32), (count, chunk, 1)),
            "inside": taught.reshape(-1, chunk)[:count],
            "episode": np.repeat(np.arange(wanted), 3),
            "found": wanted,
            "tried": wanted + 1,
            "steps": count * chunk,
            "cpu_s": 0.5,
        }

    def begin(self, trials: list[tuple[str, int]]) -> Any:
        for task, seed in trials:
            self._hands[task], self._steps[task] = np.array([-0.1 * (seed % 2), 0.6, 0.1, 1.0], np.float32), 0
        return self._see([task for task, _ in trials])

    def act(self, tasks: list[str], actions: Any, steps: int) -> Any:
        for task, chunk in zip(tasks, actions):
            chunk = chunk[: steps - self._steps[task]]
            self._hands[task][:3] += 0.01 * chunk[:, :3].sum(axis=0)
            self._steps[task] += len(chunk)
        success = np.array([self._hands[task][0] > 0.05 for task in tasks])
        return *self._see(tasks), success, np.array([self._steps[task] for task in tasks])

    def close(self) -> None: ...

    def _see(self, tasks: list[str]) -> Any:
        states = np.stack([self._hands[task] for task in tasks])
        labels = np.concatenate([states[:, :3], 0.0 * states[:, :3], states[:, :3] + [0.1, 0.0, 0.0]], axis=1)
        return states, labels.astype(np.float32), np.full((len(tasks), SIZE, SIZE, 3), 100, np.uint8)


@pytest.fixture
def simulator() -> Simulator:
    return Simulator()
