"""MuJoCo worlds stepped together on a GPU by MuJoCo Warp, in float32.

Positions, velocities and targets are copied once per control period; model differences between worlds are copied after
changes. The scenes are MuJoCo's with one setting: box-box contacts use MuJoCo's closed formulas, because Warp's general
convex collision finds other contact points for resting boxes.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from rlstack.arrays import Array, Index
from rlstack.errors import UserError
from rlstack.fused.cuda import warp
from rlstack.fused.devices import TEST_DEVICE
from rlstack.sim.batch_mujoco.simulator import Item, MujocoSimulator

SET = ("geom_size", "geom_friction", "geom_rbound", "geom_aabb", "body_mass", "body_inertia", "body_pos", "body_quat")
SETTLED = ("body_subtreemass", "body_invweight0", "dof_invweight0")
"""Fields that ``mj_setConst`` derives and the physics of such scenes uses."""
VARIED = (*SET, "body_gravcomp", "dof_frictionloss", "actuator_gainprm", "actuator_biasprm", *SETTLED)
"""Fields of ``mujoco.MjModel`` that differ between worlds."""
PLACES = {"geom_xpos": (3,), "geom_xmat": (3, 3)}
"""Geom poses in ``MjData``. Warp updates those of moving bodies only, so the fixed ones must be set explicitly."""

CONTACTS, MOST_CONTACTS = 24, 1536
"""Reserved contacts per world, on average: initially (a box rests on 4, two fingers hold it by up to 16) and at
most."""


class WarpMujocoSimulator(MujocoSimulator):
    """N MuJoCo worlds on one GPU.

    Raises:
        UserError: MuJoCo or MuJoCo Warp is not installed or does not support the scene.
    """

    def move(self, index: Index, name: str, position: Array, yaw: Array | None = None) -> None:
        """Move a fixed body in some worlds; see :meth:`.simulator.MujocoSimulator.move`."""
        super().move(index, name, position, yaw)
        for world in index.tolist():
            for field in ("body_pos", "body_quat"):
                getattr(self._one, field)[:] = self._fields[field][world]
            self._mujoco.mj_kinematics(self._one, self._scratch)
            for place, places in self._places.items():
                places[world] = getattr(self._scratch, place)
        self._moved = True

    def step(self, target: Array) -> None:
        """Advance one control period; see :meth:`.simulator.MujocoSimulator.step`."""
        warp, model = self._warp, self.model
        control = np.zeros((self.steps, self.count, model.nu), np.float32)
        control[:, :, self._motors] = target.swapaxes(0, 1) if target.ndim == 3 else target
        positions, velocities = self.state[:, 1 : 1 + model.nq], self.state[:, 1 + model.nq :]
        with warp.ScopedDevice(self._device):
            while True:
                self._upload()
                data = self._datas
                data.qpos.assign(positions.astype(np.float32))
                data.qvel.assign(velocities.astype(np.float32))
                self._controls.assign(control)
                data.qacc_warmstart.zero_()
                data.overflow.zero_()
                self._advance()
                if self._room >= MOST_CONTACTS or not data.overflow.numpy().any():
                    break
                self._make_room(2 * self._room)
        passed = np.arange(1, self.steps + 1) * model.opt.timestep
        self._after[:, :, 0] = self.state[:, :1] + passed
        self._after[:, :, 1 : 1 + model.nq] = self._positions.numpy().transpose(1, 0, 2)
        self._after[:, :, 1 + model.nq :] = self._velocities.numpy().transpose(1, 0, 2)
        self.state = self._after[:, -1].copy()

    def close(self) -> None:
        """Do nothing: the arrays are freed with this object."""

    def _allocate(self, device: str, threads: int | None) -> None:
        self._simulator, self._warp = _mujoco_warp(), warp()
        varied, count = self._varied, self.count
        self._device = "cpu" if device == TEST_DEVICE else device
        model = copy.copy(self.model)
        if self.state.shape[1] != 1 + model.nq + model.nv:
            raise UserError("MuJoCo Warp does not support actuators with activation state: use the device cpu.")
        flags = self._mujoco.mjtDisableBit
        model.opt.disableflags |= int(flags.mjDSBL_NATIVECCD)
        model.opt.disableflags &= ~int(flags.mjDSBL_AUTORESET)  # Warp never resets and does not support the flag
        self._one = model
        """A scratch model for computations."""
        self._fields = {name: np.repeat(getattr(model, name)[None], count, axis=0) for name in VARIED if varied}
        self._changed: set[str] = set()
        self._mujoco.mj_kinematics(model, self._scratch)
        self._places = {name: np.repeat(getattr(self._scratch, name)[None], count, axis=0) for name in PLACES if varied}
        self._moved = False
        with self._warp.ScopedDevice(self._device):
            try:
                self._models = self._simulator.put_model(model, batch_sizes=dict.fromkeys(self._fields, count))
            except NotImplementedError as error:
                raise UserError(f"MuJoCo Warp cannot simulate this scene: {error} Use the device cpu.") from error
            self._models.opt.warn_overflow = 0  # overflow is checked below
            self._shapes = {name: getattr(self._models, name).numpy().shape for name in self._fields}
            shape = (self.steps, count)
            self._positions = self._warp.zeros((*shape, model.nq), dtype=self._warp.float32)
            self._velocities = self._warp.zeros((*shape, model.nv), dtype=self._warp.float32)
            self._controls = self._warp.zeros((*shape, model.nu), dtype=self._warp.float32)
        self._make_room(CONTACTS)

    def _assign(self, field: str, index: Index, item: Item, values: Array) -> None:
        at = item if isinstance(item, tuple) else (item,)
        self._fields[field][(index, *at)] = values
        self._changed.add(field)

    def _settle(self, index: Index) -> None:
        """Recompute with MuJoCo, one world after another, for the same values as on the CPU."""
        for world in index.tolist():
            for name in SET:
                getattr(self._one, name)[:] = self._fields[name][world]
            self._mujoco.mj_setConst(self._one, self._scratch)
            for name in SETTLED:
                self._fields[name][world] = getattr(self._one, name)
        self._changed.update(SETTLED)

    def _upload(self) -> None:
        """Copy changed model fields to the device."""
        if self._moved:
            for name, places in self._places.items():
                shape = (*places.shape[:2], *PLACES[name])
                getattr(self._datas, name).assign(places.astype(np.float32).reshape(shape))
            self._moved = False
        for name in self._changed:
            getattr(self._models, name).assign(self._fields[name].astype(np.float32).reshape(self._shapes[name]))
        self._changed.clear()

    def _make_room(self, contacts: int) -> None:
        """Allocate data for ``contacts`` per world, on average, and their constraints."""
        self._room = contacts
        rows = 4 * contacts + 2 * self.model.nv  # elliptic contacts; joint limits and dry friction
        with self._warp.ScopedDevice(self._device):
            self._datas = self._simulator.make_data(self._one, nworld=self.count, nconmax=contacts, njmax=rows)
        self._moved = bool(self._places)  # fixed bodies must be set in the new data, too
        self._graph: Any = None
        self._warm = False

    def _advance(self) -> None:
        """Take the physics steps of a period; on a GPU as one CUDA graph, once the kernels are compiled."""
        if not self._warm or not self._warp.get_device(self._device).is_cuda:
            self._warm = True
            self._physics()
            return
        if self._graph is None:
            with self._warp.ScopedCapture() as capture:
                self._physics()
            self._graph = capture.graph
        self._warp.capture_launch(self._graph)

    def _physics(self) -> None:
        for k in range(self.steps):
            self._warp.copy(self._datas.ctrl, self._controls[k])
            self._simulator.step(self._models, self._datas)
            self._warp.copy(self._positions[k], self._datas.qpos)
            self._warp.copy(self._velocities[k], self._datas.qvel)


def _mujoco_warp() -> Any:
    """Return the module ``mujoco_warp``.

    Raises:
        UserError: It is not installed.
    """
    warp()  # initializes Warp without its banner; its absence is reported separately
    try:
        import mujoco_warp
    except ImportError as error:
        raise UserError(
            f"MuJoCo Warp is not installed ({error}): pip install 'rlstack[warp]', or use the device cpu."
        ) from error
    return mujoco_warp
