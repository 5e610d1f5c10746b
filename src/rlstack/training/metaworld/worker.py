"""Steps and renders Meta-World in a Python environment of its own, where there is no rlstack."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

CAMERA, POSITION = "corner2", (0.75, 0.075, 0.7)
"""The camera, and where published evaluations move it, m."""

RENDERED, _CROP = 192, (24, 63, 126)
"""Width and height of the whole picture, and first row, first column and size of the part around the table."""

_LONGEST = 1_000_000
"""Steps after which Meta-World would refuse to go on; who calls counts them."""

_HIDDEN = 5
"""A group of geoms that is not drawn."""

SIZE = _CROP[2]
"""Rows and columns of a picture."""

FIELDS = ("state", "labels", "places", "action", "inside", "episode", "picture")
"""What demonstrations hold of each chunk."""


class Scene:
    """One task's environment.

    Args:
        task: Its name, without its version.
    """

    def __init__(self, task: str) -> None:
        import mujoco
        from metaworld.env_dict import ALL_V3_ENVIRONMENTS
        from metaworld.policies import ENV_POLICY_MAP

        name = task + "-v3"
        self._environment: Any = ALL_V3_ENVIRONMENTS[name]()
        # goals are part of what experts see, and layouts are drawn at each reset, by the seed
        del self._environment.sawyer_observation_space
        self._environment._partially_observable = False
        self._environment._freeze_rand_vec = False
        self._environment._set_task_called = True
        self._environment.seeded_rand_vec = True
        self._environment.max_path_length = _LONGEST
        self._expert_class = ENV_POLICY_MAP[name]
        model = self._environment.model
        model.cam_pos[model.camera(CAMERA).id] = POSITION
        model.vis.quality.offsamples = 0
        model.vis.global_.offwidth = model.vis.global_.offheight = RENDERED
        self._renderer = mujoco.Renderer(model, RENDERED, RENDERED)
        self._renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = False
        self._renderer.scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False
        self._groups = model.geom_group.copy()

    def reset(self, seed: int) -> None:
        """Begin a trial whose layout follows from the seed."""
        self._environment.seed(seed)
        self._seen = self._environment.reset()[0]
        self._expert = self._expert_class()
        self.steps, self.success = 0, False

    def state(self) -> Any:
        """Return the hand's position, m, and the gripper's opening (4,)."""
        return self._seen[:4].astype(np.float32)

    def labels(self) -> Any:
        """Return the positions (9,) of both objects and the goal, m, which only the simulator knows."""
        return np.concatenate([self._seen[4:7], self._seen[11:14], self._seen[36:39]]).astype(np.float32)

    def places(self) -> Any:
        """Return where the labels' positions are in the picture (3, 2): right and down, -1 to 1; 2: there is none."""
        model, data, found = self._environment.model, self._environment.data, self.labels().reshape(3, 3)
        camera = model.camera(CAMERA).id
        seen = (found - data.cam_xpos[camera]) @ data.cam_xmat[camera].reshape(3, 3)
        slope = np.tan(np.radians(model.cam_fovy[camera]) / 2.0)
        row, column, size = _CROP
        # the camera hangs upside down: its x is to the left, and its y down
        pixels = 0.5 * RENDERED * (1.0 + seen[:, :2] * (-1.0, 1.0) / (-slope * seen[:, 2:]))
        places = 2.0 * (pixels - (column, row)) / size - 1.0
        places[~found.any(axis=1)] = 2.0
        return places.astype(np.float32)

    def expert(self) -> Any:
        """Return the scripted expert's action (4,)."""
        return np.clip(self._expert.get_action(self._seen), -1.0, 1.0).astype(np.float32)

    def step(self, action: Any) -> None:
        """Apply an action (4,)."""
        self._seen, _, _, _, info = self._environment.step(np.clip(action, -1.0, 1.0))
        self.steps += 1
        self.success = self.success or bool(info["success"])

    def picture(self) -> Any:
        """Return the picture (SIZE, SIZE, 3) of the present."""
        model, data = self._environment.model, self._environment.data
        row, column, size = _CROP
        # without it, half of the time goes to parts of the arm that are not in the picture
        model.geom_group[:] = np.where(_outside(model, data), _HIDDEN, self._groups)
        self._renderer.update_scene(data, camera=CAMERA)
        upright = self._renderer.render()[::-1, ::-1]  # the camera hangs upside down
        return np.ascontiguousarray(upright[row : row + size, column : column + size])

    def close(self) -> None:
        """Free the renderer."""
        self._renderer.close()


def _outside(model: Any, data: Any) -> Any:
    """Return which geoms (N,) are certainly outside the picture, by their bounding spheres."""
    camera = model.camera(CAMERA).id
    place = (data.geom_xpos - data.cam_xpos[camera]) @ data.cam_xmat[camera].reshape(3, 3)
    slope = np.tan(np.radians(model.cam_fovy[camera]) / 2.0)
    row, column, size = _CROP
    outside = np.zeros(len(place), dtype=bool)
    # the camera hangs upside down: a row or column from the left or top is one along its x or from its y
    for along, first, sign in ((place[:, 0], column, -1.0), (place[:, 1], row, 1.0)):
        for edge, beyond in ((first, 1.0), (first + size, -1.0)):
            bound = sign * slope * (2.0 * edge / RENDERED - 1.0)
            # distance to the plane through the camera and this edge, outwards
            outwards = beyond * -sign * (along + bound * place[:, 2]) / np.hypot(1.0, bound)
            outside |= outwards > model.geom_rbound
    return outside & (model.geom_rbound > 0.0)


class Worker:
    """What a connection's commands call."""

    def __init__(self) -> None:
        os.environ.setdefault("MUJOCO_GL", "egl")
        self._scenes: dict[str, Scene] = {}

    def versions(self) -> dict[str, str]:
        """Return the installed versions."""
        from importlib.metadata import version

        return {name: version(name) for name in ("metaworld", "mujoco")}

    def record(self, task: str, wanted: int, strays: Any, taught: Any, seed: int) -> dict[str, Any]:
        """Return demonstrations of a task's scripted expert, as rows of chunks.

        Args:
            task: Its name.
            wanted: Number of successful episodes.
            strays: (episodes, chunks, actions, 4) noise on what the expert does, and not on what it shows; of as many
                episodes as are tried, and as many chunks as the longest has.
            taught: (episodes, chunks, actions) 1 for actions that teach.
            seed: Of layouts.
        """
        scene, random = Scene(task), np.random.default_rng([seed, *task.encode()])
        kept: dict[str, list[Any]] = {name: [] for name in FIELDS}
        found = tried = taken = 0
        begun = time.process_time()
        for noise, teach in zip(strays, taught):
            if found == wanted:
                break
            scene.reset(int(random.integers(2**31)))
            rows: dict[str, list[Any]] = {name: [] for name in kept}
            tried += 1
            for stray, inside in zip(noise, teach):
                rows["state"].append(scene.state())
                rows["labels"].append(scene.labels())
                rows["places"].append(scene.places())
                rows["picture"].append(scene.picture())
                shown = []
                for one in stray:
                    shown.append(scene.expert())
                    scene.step(shown[-1] + one)
                rows["action"].append(np.stack(shown))
                rows["inside"].append(inside)
                rows["episode"].append(found)
                if scene.success:
                    break
            taken += scene.steps
            if scene.success:
                found += 1
                for name, values in rows.items():
                    kept[name] += values
        scene.close()
        return {
            **{name: np.stack(values) if values else np.zeros(0) for name, values in kept.items()},
            "found": found,
            "tried": tried,
            "steps": taken,
            "cpu_s": time.process_time() - begun,
        }

    def begin(self, trials: list[tuple[str, int]]) -> tuple[Any, Any, Any]:
        """Begin a trial of each task with a seed, and return states, labels and pictures (N, ...) each."""
        for task, seed in trials:
            if task not in self._scenes:
                self._scenes[task] = Scene(task)
            self._scenes[task].reset(seed)
        return self._see([task for task, _ in trials])

    def act(self, tasks: list[str], actions: Any, steps: int) -> tuple[Any, Any, Any, Any, Any]:
        """Apply chunks (N, chunk, 4) until success or so many steps of a trial.

        Returns:
            States, labels, pictures, success (N,) and steps (N,) so far.
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
        """Free the environments of trials."""
        for scene in self._scenes.values():
            scene.close()
        self._scenes.clear()

    def _see(self, tasks: list[str]) -> tuple[Any, Any, Any]:
        scenes = [self._scenes[task] for task in tasks]
        return (
            np.stack([s.state() for s in scenes]),
            np.stack([s.labels() for s in scenes]),
            np.stack([s.picture() for s in scenes]),
        )
