"""All calls of the Isaac Sim 5.0 and 5.1 API; another generation needs a file of its own.

Robots with joints are in ``api_5_articulation.py``.

Pitfalls in the public sources of 5.1.0, all handled here:

- ``World`` is a singleton: constructing it again returns the old one with the old settings.
- The physics scene keeps a whole number of steps a second, ``int(1.0 / dt)``: a dt a hair too long loses one.
- ``world.reset()`` takes two physics steps of its own and discards earlier writes to bodies.
- ``step(render=False)`` is one physics step; ``render()`` draws without one.
- Physics callbacks run before each physics step, including the application's. Forces act in one step only.
- Views (``RigidPrim``, ``Articulation``) use float32, wxyz quaternions and world-frame velocities, and work from
``reset()`` to ``stop()``.
- The URDF importer puts a robot at the origin, below the stage's default prim if there is one, and returns the prim
with the articulation: ``<robot>/root_joint`` for a fixed base, otherwise ``<robot>/<first link>``.
- A camera's axes: ``ros`` is x right, y down, z forward (by its matrices; the docstring says y up).
- ``SimulationApp.close()`` ends the process with status 0 unless ``fast_shutdown`` is off.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array32
from rlstack.robots.spec import STANDARD_GRAVITY
from rlstack.sim.backends.isaac.api_5_articulation import Articulation5

CALLBACK = "rlstack_wrench"
_NEAR_M = 1.0
"""Upper bound of a body's motion in two physics steps from rest."""
_MOST_RENDERS = 30
"""A new camera returns no data for its first frames; after this many renderings it counts as failed."""
_RENDERS = 2
"""Renderings per image: a frame may lag the present state by one frame."""


class NoFrame(RuntimeError):
    """A camera returned no image."""


def construct(*, headless: bool = True, ros_bridge: bool = False) -> Any:
    """Start Isaac Sim and return its ``SimulationApp``; import nothing of ``omni`` or ``pxr`` before.

    Args:
        headless: Whether to run without a window.
        ros_bridge: Whether to enable Isaac Sim's own ROS 2 bridge.
    """
    from isaacsim import SimulationApp

    application = SimulationApp(
        {"headless": headless, "multi_gpu": False, "fast_shutdown": False, "renderer": "RaytracedLighting"}
    )
    extensions = importlib.import_module("isaacsim.core.utils.extensions")
    if ros_bridge and not extensions.enable_extension("isaacsim.ros2.bridge"):
        raise RuntimeError("Isaac Sim could not load its ROS 2 bridge: its log says why.")
    application.update()
    return application


class World5:
    """Isaac Sim's single world: bodies, time, cameras and rays. Arrays are (N, columns), as in its views.

    Args:
        application: The application from :func:`construct`.
        steps_per_s: Physics steps a second, a whole number.
        author: Writes prims to the new ``pxr.Usd.Stage``.
    """

    def __init__(self, application: Any, steps_per_s: int, author: Callable[[Any], None]) -> None:
        self._application = application
        api = importlib.import_module("isaacsim.core.api")
        self._stages = importlib.import_module("isaacsim.core.utils.stage")
        self._prims = importlib.import_module("isaacsim.core.prims")
        if api.World.instance() is not None:
            raise RuntimeError("There is an Isaac Sim World in this process already, and not one of rlstack's.")
        self._bodies: Any = None
        self._articulations: list[Articulation5] = []
        self._cameras: dict[str, Any] = {}
        self._loose: dict[str, Any] = {}
        self._wrench: tuple[Array32, Array32] | None = None
        self._steps = 0
        self._stages.create_new_stage()
        self._world = api.World(
            physics_dt=whole_step(steps_per_s),
            rendering_dt=whole_step(steps_per_s),  # so that a rendered step is one physics step, too
            stage_units_in_meters=1.0,
            backend="numpy",
            device="cpu",
        )
        try:
            self._build(steps_per_s, author)
        except BaseException:
            self.close()
            raise

    def _build(self, steps_per_s: int, author: Callable[[Any], None]) -> None:
        self._world.get_physics_context().set_gravity(-STANDARD_GRAVITY)
        author(self._stages.get_current_stage())
        self._world.set_block_on_render(True)
        rate = round(1.0 / self._world.get_physics_dt())
        if rate != steps_per_s:
            raise RuntimeError(f"Isaac Sim's physics scene runs at {rate} Hz and not at {steps_per_s} Hz.")

    # ---- building

    def import_urdf(self, path: str, *, fixed_base: bool) -> str:
        """Import a URDF file at the origin; return the path of the articulation's prim.

        Links of fixed joints are kept, with the file's inertias.
        """
        commands = importlib.import_module("omni.kit.commands")
        _, config = commands.execute("URDFCreateImportConfig")
        config.merge_fixed_joints = False
        config.import_inertia_tensor = True
        config.fix_base = fixed_base
        config.distance_scale = 1.0
        config.self_collision = False
        config.create_physics_scene = False
        config.make_default_prim = False
        done, prim_path = commands.execute(
            "URDFParseAndImportFile", urdf_path=path, import_config=config, get_articulation_root=True
        )
        if not done or not prim_path:
            raise RuntimeError(f"Isaac Sim could not import {path}: its log says why.")
        return str(prim_path)

    @property
    def usd(self) -> Any:
        """The ``pxr.Usd.Stage``; write to it before :meth:`play`."""
        return self._stages.get_current_stage()

    def articulation(self, root: str, base: str, links: Sequence[str]) -> Articulation5:
        """Return a robot with joints, usable after :meth:`play`; paths as for :class:`Articulation5`."""
        made = Articulation5(self._prims, root, base, links, f"rlstack_{len(self._articulations)}")
        self._articulations.append(made)
        return made

    def load(self) -> None:
        """Wait until the stage has loaded, as the views require."""
        while self._stages.is_stage_loading():
            self._application.update()

    def play(self, bodies: Sequence[str], places: NDArray[np.floating]) -> None:
        """Make a view of the rigid bodies at these paths and start physics.

        Args:
            bodies: Paths of the bodies without joints, in the order of every array.
            places: (N, 3) their positions on the stage, m, far apart, used to check the order.
        """
        self.load()
        if bodies:
            self._bodies = self._prims.RigidPrim(
                prim_paths_expr=list(bodies),
                name="rlstack_bodies",
                reset_xform_properties=False,
                track_contact_forces=True,
                prepare_contact_sensors=True,
            )
        self._world.reset()
        for view in (*([self._bodies] if bodies else []), *self._articulations):
            view.initialize(self._world.physics_sim_view)
        self._world.add_physics_callback(CALLBACK, self._before_step)
        if not bodies:
            return
        found, _, _ = self.states()
        if len(found) != len(bodies) or not (np.abs(found - places) < _NEAR_M).all():
            raise RuntimeError(f"Isaac Sim has the bodies {list(bodies)} in another order, or elsewhere: {found}.")

    # ---- time

    def step(self) -> None:
        """Take exactly one physics step, with the pending wrenches."""
        before = self._steps
        self._world.step(render=False)
        if self._steps != before + 1:
            raise RuntimeError(f"Isaac Sim took {self._steps - before} physics steps instead of one.")

    def _before_step(self, step_s: float) -> None:
        self._steps += 1
        wrench, self._wrench = self._wrench, None
        if wrench is not None:
            forces, torques = wrench
            self._bodies.apply_forces_and_torques_at_pos(forces=forces, torques=torques, is_global=True)
        for articulation in self._articulations:
            articulation.before_step()

    # ---- bodies

    def states(self) -> tuple[Array32, Array32, Array32]:
        """Return positions (N, 3), orientations (N, 4) wxyz and velocities (N, 6) in the world frame."""
        positions, orientations = self._bodies.get_world_poses()
        return positions, orientations, self._bodies.get_velocities()

    def place(self, index: int, position: Array32, orientation: Array32, velocity: Array32) -> None:
        """Set position (1, 3), orientation (1, 4) wxyz and velocities (1, 6) of body ``index`` in the world frame."""
        at = np.array([index])
        self._bodies.set_world_poses(positions=position, orientations=orientation, indices=at)
        self._bodies.set_velocities(velocity, indices=at)
        self._wrench = None

    def put_back(self, path: str, position: Array32, orientation: Array32) -> None:
        """Put another rigid body at rest at position (1, 3) and orientation (1, 4) wxyz in the world frame."""
        view = self._loose.get(path)
        if view is None:
            view = self._prims.RigidPrim(
                prim_paths_expr=path, name=f"rlstack_loose_{len(self._loose)}", reset_xform_properties=False
            )
            view.initialize(self._world.physics_sim_view)
            self._loose[path] = view
        view.set_world_poses(positions=position, orientations=orientation)
        view.set_velocities(np.zeros((1, 6), dtype=np.float32))

    def push(self, forces: Array32, torques: Array32) -> None:
        """Set forces and torques (N, 3) at the bodies' centres of mass for the next step, world frame."""
        self._wrench = forces, torques

    def set_mass(self, index: int, mass_kg: float, inertia: NDArray[np.floating]) -> None:
        """Set mass and principal moments (3,) of body ``index``."""
        at = np.array([index])
        self._bodies.set_masses(np.array([mass_kg], dtype=np.float32), indices=at)
        self._bodies.set_inertias(np.diag(inertia).astype(np.float32).reshape(1, 9), indices=at)

    def mass(self, index: int) -> tuple[float, Array32, Array32]:
        """Return PhysX's mass, centre of mass (3,) and inertia (3, 3) of body ``index``."""
        at = np.array([index])
        centres, _ = self._bodies.get_coms(indices=at)
        inertia = self._bodies.get_inertias(indices=at).reshape(3, 3)
        return float(self._bodies.get_masses(indices=at)[0]), centres.reshape(-1, 3)[0], inertia

    def contact(self) -> NDArray[np.bool_]:
        """Return which bodies (N,) had contact in the last step."""
        return np.linalg.norm(self._bodies.get_net_contact_forces(dt=1.0), axis=1) > 0.0

    # ---- seeing

    def look(
        self,
        name: str,
        size: tuple[int, int],
        horizontal_fov_rad: float,
        clipping_m: tuple[float, float],
        position: NDArray[np.floating],
        orientation: NDArray[np.floating],
    ) -> tuple[NDArray[np.uint8], Array32]:
        """Return an image (height, width, 3) and depth (height, width) in m along the optical axis.

        Args:
            name: One camera for each set of size, field of view and clipping.
            size: Width and height, pixels.
            horizontal_fov_rad: Horizontal field of view; pixels are square.
            clipping_m: Near and far.
            position: (3,) m, world.
            orientation: (4,) wxyz of the optical frame (x right, y down, z forward) in the world.
        """
        camera, rows = self._cameras.get(name), (size[1], size[0])
        if camera is None:
            module = importlib.import_module("isaacsim.sensors.camera")
            camera = module.Camera(prim_path=f"/World/cameras/{name}", name=name, resolution=size)
            camera.initialize()
            camera.set_clipping_range(*clipping_m)
            camera.set_horizontal_aperture(2.0 * math.tan(0.5 * horizontal_fov_rad) * camera.get_focal_length())
            camera.add_distance_to_image_plane_to_frame()
            self._cameras[name] = camera
        camera.set_world_pose(position=position, orientation=orientation, camera_axes="ros")
        for render in range(1, _MOST_RENDERS + 1):
            self._world.render()
            colours, depths = camera.get_rgb(), camera.get_depth()
            if render >= _RENDERS and colours is not None and depths is not None and depths.size:
                # the docstring promises (width, height, 1), but the renderer returns rows from the top
                return np.array(colours[..., :3], dtype=np.uint8), np.array(depths, dtype=np.float32).reshape(rows)
        raise NoFrame(f"Isaac Sim returned no image in {_MOST_RENDERS} renderings.")

    def cast(
        self, origins: NDArray[np.float64], directions: NDArray[np.float64], far_m: float, unseen: Sequence[str]
    ) -> NDArray[np.float64]:
        """Return the lengths of rays (R, 3) in m, inf beyond ``far_m``; prims under ``unseen`` paths are not hit."""
        query = importlib.import_module("omni.physx").get_physx_scene_query_interface()
        reach = np.full(len(origins), np.inf)
        prefixes = tuple(f"{path}/" for path in unseen)

        for ray, (origin, direction) in enumerate(zip(origins.tolist(), directions.tolist())):

            def report(hit: Any, ray: int = ray) -> bool:
                if not f"{hit.collision}/".startswith(prefixes):
                    reach[ray] = min(reach[ray], hit.distance)
                return True  # hits are unordered: collect all of them

            query.raycast_all(tuple(origin), tuple(direction), far_m, report)
        return reach

    # ---- end

    def close(self) -> None:
        """Stop physics and leave an empty stage; the application keeps running."""
        world = self._world
        if world.physics_callback_exists(CALLBACK):
            world.remove_physics_callback(CALLBACK)
        for camera in self._cameras.values():
            camera.destroy()
        world.stop()
        world.clear_all_callbacks()
        world.clear_instance()
        self._cameras, self._loose, self._articulations, self._bodies = {}, {}, [], None
        self._stages.create_new_stage()


def whole_step(steps_per_s: int) -> float:
    """Return the step dt in s for which ``int(1.0 / dt)`` is ``steps_per_s`` and not one less."""
    step = 1.0 / steps_per_s
    while int(1.0 / step) < steps_per_s:
        step = math.nextafter(step, 0.0)
    return step
