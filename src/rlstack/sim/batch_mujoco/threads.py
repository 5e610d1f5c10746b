"""MuJoCo worlds stepped on CPU threads by ``mujoco.rollout``, in C++ without the GIL.

A run resumes from saved states bit for bit, on any number of threads.
"""

from __future__ import annotations

import copy
import os

import numpy as np

from rlstack.arrays import Array, Index
from rlstack.sim.batch_mujoco.simulator import Item, MujocoSimulator


class ThreadedMujocoSimulator(MujocoSimulator):
    """N MuJoCo worlds on CPU threads."""

    def step(self, target: Array) -> None:
        """Advance one control period; see :meth:`.simulator.MujocoSimulator.step`."""
        self._control[:, :, self._motors] = target if target.ndim == 3 else target[:, None]
        self._pool.rollout(
            self._models,
            self._datas,
            initial_state=self.state,
            control=self._control,
            state=self._after,
            skip_checks=False,
        )
        self.state = self._after[:, -1].copy()

    def close(self) -> None:
        """Stop the threads."""
        self._pool.close()

    def _allocate(self, device: str, threads: int | None) -> None:
        from mujoco import rollout

        self.threads = threads or (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)
        self._models = [copy.copy(self.model) for _ in range(self.count)] if self._varied else [self.model]
        self._pool = rollout.Rollout(nthread=self.threads if self.threads > 1 else 0)
        self._datas = [self._mujoco.MjData(self.model) for _ in range(self.threads)]
        self._control = np.zeros((self.count, self.steps, self.model.nu))

    def _assign(self, field: str, index: Index, item: Item, values: Array) -> None:
        for world, one in zip(index.tolist(), values):
            getattr(self._models[world], field)[item] = one

    def _settle(self, index: Index) -> None:
        for world in index.tolist():
            self._mujoco.mj_setConst(self._models[world], self._scratch)
