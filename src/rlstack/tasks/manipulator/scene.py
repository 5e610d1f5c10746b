"""N arms in their worlds with sensors, shared by training, evaluation and demonstrations."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots.kinematics import chain_of, tool_motion
from rlstack.sim.arms.scene import build_scene
from rlstack.sim.batch_mujoco import make_mujoco_simulator
from rlstack.tasks.manipulator.delays import Delays
from rlstack.tasks.manipulator.departures import NAMES, SAME, ArmDepartures, departures
from rlstack.tasks.manipulator.trials import OBJECT, ArmTrials, noisy

if TYPE_CHECKING:
    from rlstack.tasks.manipulator.cameras import CameraBuffer


class ArmScene:
    """N arms at their tasks.

    Args:
        task: The task, a :class:`rlstack.tasks.manipulator.task.ArmTask`.
        robot: The arm.
        count: N.
        seed: Seed of the noise.
        threads: Threads that step the worlds; None: one per core.
        device: Device that steps them; see :func:`rlstack.sim.batch_mujoco.make_mujoco_simulator`.
        varied: Whether arms may depart from the robot file in gains, payload or gravity compensation.
    """

    def __init__(
        self,
        task: Any,
        robot: Manipulator,
        count: int,
        seed: int,
        threads: int | None = None,
        device: str = "cpu",
        varied: bool = False,
    ) -> None:
        task = task.fitted(robot)
        self.task, self.robot, self.count = task, robot, count
        self._handled = task.objects is not None
        period_s = 1.0 / task.rate_hz
        model = build_scene(robot, task.build)
        varied = varied or self._handled or task.randomisation.gains != SAME
        self.worlds = make_mujoco_simulator(
            model, robot.drives, count, period_s=period_s, varied=varied, device=device, threads=threads
        )
        self._delays = Delays(self.worlds)
        self.departures = departures(count)
        """Present departures."""
        self.cameras = task.camera_buffer(robot, count, seed)
        """Their cameras' images; None: no cameras."""
        chain = chain_of(robot)
        self._screws, self._arm = chain.screws, list(chain.index)
        self._hand = str(model.body(int(model.joint(robot.joints[-1].name).bodyid[0])).name)
        """Link that carries payloads: the one that the arm's last joint moves."""
        self.rng = np.random.default_rng((seed, 1))
        """Draws the noise."""
        self.goal = np.zeros((count, 3))
        """(N, 3) m in base_link."""
        self.drawn = {"half": np.zeros((count, 3)), "mass": np.zeros(count), "friction": np.zeros(count)}
        """Present properties of the objects, in the order of :meth:`MujocoSimulator.vary`; 0 without one."""

    def seed(self, seed: int) -> None:
        """Seed the noise and the cameras."""
        self.rng = np.random.default_rng((seed, 1))
        if self.cameras is not None:
            self.cameras.seed(seed)

    def start(self, index: NDArray[np.intp], trials: ArmTrials) -> None:
        """Begin episodes (n) in some worlds."""
        now = departures(len(index)) if trials.departures is None else trials.departures
        self.worlds.restart(index, trials.joints)
        self.goal[index] = trials.goal
        self._depart(index, now)
        if self._handled:
            drawn = {
                "half": trials.half,
                "mass": trials.mass * now.object_mass,
                "friction": trials.friction * now.object_friction,
            }
            self.task.vary_objects(self.worlds, index, trials.goal, *drawn.values())
            self.task.place_objects(self.worlds, index, trials)
            for name, array in drawn.items():
                self.drawn[name][index] = array
        self._delays.begin(index, now.observation_delay_s, now.command_delay_s)
        if self.cameras is not None:
            self._show(self.cameras, index)

    def _show(self, cameras: CameraBuffer, index: NDArray[np.intp]) -> None:
        """Begin the episodes of some worlds before their cameras."""
        cameras.restart(index, self.worlds, self.drawn["half"][index, None])

    def vary(self, drawn: dict[str, Array]) -> None:
        """Set the objects' properties in all worlds to those in ``drawn``, and place fixtures by the goals."""
        for name, array in drawn.items():
            self.drawn[name][:] = array
        if self._handled:
            self.task.vary_objects(self.worlds, np.arange(self.count), self.goal, *self.drawn.values())

    def _depart(self, index: NDArray[np.intp], now: ArmDepartures) -> None:
        """Let some arms depart from the robot file."""
        before = self.departures.take(index)
        self.departures.put(index, now)
        for names, vary in (
            (("stiffness", "damping"), self._vary_gains),
            (("payload_kg", "gravity_compensation"), self._load),
        ):
            values = [getattr(now, name) for name in names]
            if any((value != getattr(before, name)).any() for name, value in zip(names, values)):
                vary(index, *values)

    def _vary_gains(self, index: NDArray[np.intp], stiffness: Array, damping: Array) -> None:
        arm = np.arange(len(self.robot.drives)) < len(self.robot.joints)
        self.worlds.vary_gains(index, *(np.where(arm, share[:, None], 1.0) for share in (stiffness, damping)))

    def _load(self, index: NDArray[np.intp], payload_kg: Array, compensated: Array) -> None:
        self.worlds.load(index, self._hand, payload_kg, compensated)

    def state_dict(self) -> dict[str, dict[str, Array]]:
        """Return the departures and the late signals."""
        now = {name: getattr(self.departures, name).copy() for name in NAMES}
        return {"departures": now, "delays": self._delays.state_dict()}

    def load_state_dict(self, state: dict[str, dict[str, Array]]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        self._depart(np.arange(self.count), ArmDepartures(**state["departures"]))
        self._delays.load_state_dict(state["delays"])

    def step(self, command: Array) -> None:
        """Advance one control period under ``command`` (N, joints), rad or m; late worlds obey an earlier one."""
        self._delays.step(command)

    def waiting(self) -> Array:
        """Return the present joint positions (N, joints) as targets, under which arms stay where they are."""
        return self.true(images=False)["joint_position"]

    def true(self, images: bool = True) -> dict[str, Array]:
        """Return the signals (N, ...) that policies get now, without noise: of each world's earlier state, if late.

        Args:
            images: Whether to render images; otherwise they are taken and not returned.
        """
        worlds, now = self.worlds, self.worlds.state
        worlds.state = self._delays.state
        try:
            signals = self.present(images)
        finally:
            worlds.state = now
        if self._handled and (off := self.departures.object_bias_m).any():
            signals["object_position"] = signals["object_position"] + off[:, None] * np.array([1.0, 1.0, 0.0])
        return signals

    def present(self, images: bool = True) -> dict[str, Array]:
        """Return the present signals (N, ...), without noise; ``images`` as in :meth:`true`."""
        worlds = self.worlds
        signals = {
            "joint_position": worlds.joint_position,
            "joint_velocity": worlds.joint_velocity,
            "goal_position": self.goal,
        }
        if self._handled:
            signals["object_position"], signals["object_orientation"] = worlds.pose(OBJECT)
        if self.cameras is not None and images:
            signals.update(self.cameras.signals(self._delays))
        elif self.cameras is not None:
            self.cameras.expose(self._delays)
            signals.update(self.cameras.ages())
        return signals

    def noisy(self, signals: dict[str, Array], index: Any = slice(None)) -> dict[str, Array]:
        """Return signals (n, ...) of the worlds at ``index`` with sensor noise."""
        sensed = noisy(self.task.noise, signals, self.rng)
        if self._handled and (more := self.departures.object_noise_m[index]).any():
            place = sensed["object_position"]
            sensed["object_position"] = place + more[:, None] * self.rng.standard_normal(place.shape)
        return sensed

    def tool(self) -> Array:
        """Return the tools' positions (N, 3) m in base_link."""
        return np.asarray(tool_motion(self._screws, self.worlds.joint_position[:, self._arm]).position)

    def handled(self) -> Array:
        """Return the objects' positions (N, 3) m in base_link; the tools' if there are none."""
        return self.worlds.pose(OBJECT)[0] if self._handled else self.tool()

    def achieved(self) -> Array:
        """Return the achieved goals (N, 3) m."""
        found: Array = self.task.achieved(self.tool(), self.handled())
        return found

    def lost(self) -> NDArray[np.bool_]:
        """Return (N,) whether the object is off the table or the state is not finite."""
        finite = np.isfinite(self.worlds.state).all(axis=1)
        if not self._handled:
            return ~finite
        return ~finite | self.task.off_table(self.worlds.pose(OBJECT)[0])

    def close(self) -> None:
        """Stop the threads."""
        self.worlds.close()
        if self.cameras is not None:
            self.cameras.close()


def make_scene(task: Any, robot: Manipulator, *arguments: Any, **options: Any) -> ArmScene:
    """Return N arms at a task, in a scene of the task's own type; arguments as of :class:`ArmScene`."""
    made: ArmScene = resolve_name(task.scene)(task, robot, *arguments, **options)
    return made
