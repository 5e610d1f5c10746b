"""The stand-in refuses what Isaac Sim does not allow, or lets pass and gets wrong; its physics are those it says."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.isaacsim_standin import Kit, MisuseError
from tests.support.isaacsim_standin.process import standing_in

STEP_S = 1.0 / 500.0


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Kit]:
    with standing_in(monkeypatch, tmp_path) as process:
        yield process


def start(**config: Any) -> Any:
    return importlib.import_module("isaacsim").SimulationApp(config)


def make_world(**changes: Any) -> Any:
    settings = {"physics_dt": STEP_S, "rendering_dt": STEP_S, "stage_units_in_meters": 1.0, "device": "cpu"}
    return importlib.import_module("isaacsim.core.api").World(**{**settings, **changes})


def add_body(kit: Kit, path: str = "/body", mass: float | None = 2.0) -> None:
    from pxr import Gf, UsdGeom, UsdPhysics

    prim = UsdGeom.Xform.Define(kit.stage, path).GetPrim()
    UsdGeom.Xformable(prim).AddTranslateOp().Set(Gf.Vec3d(0.0, 0.0, 5.0))
    UsdPhysics.RigidBodyAPI.Apply(prim)
    if mass is not None:
        api = UsdPhysics.MassAPI.Apply(prim)
        api.CreateMassAttr(mass)
        api.CreateDiagonalInertiaAttr(Gf.Vec3f(1.0, 2.0, 3.0))


def loaded(app: Any) -> None:
    while importlib.import_module("isaacsim.core.utils.stage").is_stage_loading():
        app.update()


@pytest.fixture
def playing(kit: Kit) -> tuple[Any, Any]:
    """Return a World after its reset and a view of one body."""
    app = start()
    world = make_world()
    add_body(kit)
    view = importlib.import_module("isaacsim.core.prims").RigidPrim("/body", reset_xform_properties=False)
    loaded(app)
    world.reset()
    return world, view


@pytest.mark.parametrize("module", ["omni.physx", "isaacsim.core.api", "isaacsim.sensors.camera", "pxr", "carb"])
def test_nothing_can_be_imported_before_the_application(kit: Kit, module: str) -> None:
    with pytest.raises(ModuleNotFoundError, match="SimulationApp has not been started"):
        importlib.import_module(module)
    start()
    if module != "carb":
        importlib.import_module(module)


def test_it_starts_once_with_settings_that_it_knows(kit: Kit) -> None:
    with pytest.raises(MisuseError, match="fullscreen"):
        start(fullscreen=True)
    start(headless=True)
    with pytest.raises(MisuseError, match="once"):
        start()


def test_pxr_must_not_be_there_before(kit: Kit) -> None:
    sys.modules["pxr"] = kit.hidden["pxr"]
    with pytest.raises(MisuseError, match="imported before"):
        start()


def test_two_worlds_are_refused(kit: Kit) -> None:
    start()
    make_world()
    with pytest.raises(MisuseError, match="singleton"):
        make_world()


def test_a_new_stage_under_a_world_is_refused(kit: Kit) -> None:
    start()
    make_world()
    with pytest.raises(MisuseError, match="invalid"):
        importlib.import_module("isaacsim.core.utils.stage").create_new_stage()


def test_views_need_a_reset_and_end_with_a_stop(kit: Kit) -> None:
    app = start()
    world = make_world()
    add_body(kit)
    prims = importlib.import_module("isaacsim.core.prims")
    with pytest.raises(MisuseError, match="no prim"):
        prims.RigidPrim("/other")
    view = prims.RigidPrim("/body")
    for early in (view.get_world_poses, view.get_velocities, view.get_masses, lambda: world.step(render=False)):
        with pytest.raises(MisuseError, match="reset"):
            early()
    with pytest.raises(MisuseError, match="loading"):
        world.reset()
    loaded(app)
    world.reset()
    view.get_world_poses()
    world.stop()
    with pytest.raises(MisuseError, match="stop"):
        view.get_world_poses()


ARM = """<robot name="arm">
  <link name="a"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="b"><inertial><mass value="{mass}"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="j" type="revolute"><parent link="a"/><child link="b"/><axis xyz="0 0 1"/>
    <limit lower="-1" upper="1" velocity="1" effort="5"/></joint>
</robot>"""


def imported(tmp_path: Path, mass: float = 1.0) -> str:
    """Import an arm of one joint; return the path of its root."""
    file = tmp_path / "arm.urdf"
    file.write_text(ARM.format(mass=mass))
    execute = importlib.import_module("omni.kit.commands").execute
    _, config = execute("URDFCreateImportConfig")
    with pytest.raises(AttributeError):
        config.merge_joints = False
    with pytest.raises(MisuseError, match="merged"):
        execute("URDFParseAndImportFile", urdf_path=str(file), import_config=config)
    config.merge_fixed_joints = False
    _, root = execute("URDFParseAndImportFile", urdf_path=str(file), import_config=config, get_articulation_root=True)
    return str(root)


def test_an_articulation_needs_initialize_and_indices(kit: Kit, tmp_path: Path) -> None:
    app, world = start(), make_world()
    view = importlib.import_module("isaacsim.core.prims").Articulation(imported(tmp_path), reset_xform_properties=False)
    gains, first = np.ones((1, 1), np.float32), np.array([0])
    with pytest.raises(MisuseError, match="reset"):
        view.set_gains(kps=gains, kds=gains, joint_indices=first)
    loaded(app)
    world.reset()
    with pytest.raises(MisuseError, match="before initialize"):
        view.set_gains(kps=gains, kds=gains, joint_indices=first)
    view.initialize()
    view.set_gains(kps=gains, kds=gains, joint_indices=first)
    with pytest.raises(MisuseError, match="gains of zero"):
        view.set_joint_efforts(gains, joint_indices=first)
    with pytest.raises(MisuseError, match="PhysX's order"):
        view.get_joint_positions()
    with pytest.raises(MisuseError, match="fixed ones too"):
        view.get_joint_positions(joint_names=["j"])
    with pytest.raises(MisuseError, match="whole numbers"):
        view.get_joint_positions(joint_indices=[0])
    with pytest.raises(MisuseError, match="there are 1 joints"):
        view.get_joint_positions(joint_indices=np.array([1]))
    with pytest.raises(MisuseError, match=r"\(1, 1\)"):
        view.set_joint_positions(np.ones(1, np.float32), joint_indices=first)
    with pytest.raises(MisuseError, match="stands fixed"):
        view.set_velocities(np.ones((1, 6), np.float32))
    world.stop()
    loaded(app)
    world.reset()
    with pytest.raises(MisuseError, match="after a stop"):
        view.get_joint_positions(joint_indices=first)
    view.initialize()
    view.set_joint_efforts(gains, joint_indices=first)  # gains are lost on stop


def test_a_link_without_mass_is_refused(kit: Kit, tmp_path: Path) -> None:
    app, world = start(), make_world()
    imported(tmp_path, mass=0.0)
    loaded(app)
    with pytest.raises(MisuseError, match="/arm/b has no"):
        world.reset()


def test_an_imported_drive_counts_for_each_unit_of_inertia_until_that_is_changed(kit: Kit, tmp_path: Path) -> None:
    app, world = start(), make_world()
    imported(tmp_path)
    drive = kit.stage.GetPrimAtPath("/arm/joints/j").GetAttribute("drive:angular:physics:type")
    assert drive.Get() == "acceleration"
    loaded(app)
    world.reset()
    held = kit.physics.articulations["/arm/root_joint"]
    held.armature[:], held.damping[:], held.speed[:] = 3.0, 2.0, 1.0
    world.step(render=False)
    assert held.velocity[0] == pytest.approx(2.0 * STEP_S, rel=0.01)  # and not that by an inertia of 4


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda view: view.set_world_poses(np.zeros((1, 3)), np.zeros((1, 4))), "float32"),
        (lambda view: view.set_world_poses(np.zeros(3, np.float32), None), r"\(1, 3\)"),
        (lambda view: view.set_world_poses(np.zeros((1, 3), np.float32), np.zeros((1, 4), np.float32)), "length 1"),
        (lambda view: view.set_velocities(np.zeros((1, 3), np.float32)), r"\(1, 6\)"),
        (lambda view: view.set_velocities(np.full((1, 6), np.nan, np.float32)), "finite"),
        (lambda view: view.set_velocities([[0.0] * 6]), "numpy"),
        (lambda view: view.get_masses(indices=[0]), "indices"),
        (lambda view: view.set_masses(np.float32(1.0)), "numpy array"),
        (lambda view: view.set_inertias(np.ones((1, 3), np.float32)), r"\(1, 9\)"),
        (lambda view: view.set_inertias(np.ones((1, 9), np.float32)), "diagonal"),
        (lambda view: view.apply_forces_and_torques_at_pos(forces=np.zeros((3,), np.float32)), r"\(1, 3\)"),
        (lambda view: view.get_net_contact_forces(), "track_contact_forces"),
    ],
)
def test_wrong_arrays_are_refused(playing: tuple[Any, Any], call: Callable[[Any], Any], said: str) -> None:
    with pytest.raises(MisuseError, match=said):
        call(playing[1])


def test_pictures_need_a_rendered_step_and_named_axes(kit: Kit, playing: tuple[Any, Any]) -> None:
    camera = importlib.import_module("isaacsim.sensors.camera").Camera("/eye", resolution=(8, 8))
    with pytest.raises(MisuseError, match="initialize"):
        camera.get_rgb()
    camera.initialize()
    with pytest.raises(MisuseError, match="rendered"):
        camera.get_rgb()
    with pytest.raises(MisuseError, match="which axes"):
        camera.set_world_pose(np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0]))
    playing[0].step(render=False)
    with pytest.raises(MisuseError, match="rendered"):
        camera.get_rgb()


def test_rays_need_unit_directions_and_physics(kit: Kit, playing: tuple[Any, Any]) -> None:
    query = importlib.import_module("omni.physx").get_physx_scene_query_interface()
    with pytest.raises(MisuseError, match="length 1"):
        query.raycast_all((0.0, 0.0, 0.0), (0.0, 0.0, 2.0), 1.0, lambda hit: True)
    playing[0].stop()
    with pytest.raises(MisuseError, match="reset"):
        query.raycast_all((0.0, 0.0, 0.0), (0.0, 0.0, 1.0), 1.0, lambda hit: True)


def test_after_the_end_nothing_works(kit: Kit, playing: tuple[Any, Any]) -> None:
    kit.application.close()
    for late in (lambda: playing[0].step(render=False), playing[1].get_world_poses, kit.application.update):
        with pytest.raises(MisuseError, match="closed"):
            late()


def test_a_cleared_world_is_dead(kit: Kit, playing: tuple[Any, Any]) -> None:
    world, _ = playing
    with pytest.raises(MisuseError, match="stop"):
        world.clear_instance()
    world.stop()
    world.clear_instance()
    with pytest.raises(MisuseError, match="cleared"):
        world.step(render=False)
    assert make_world() is not world


def test_a_body_without_a_mass_is_noticed(kit: Kit) -> None:
    app, world = start(), make_world()
    add_body(kit, mass=None)
    loaded(app)
    with pytest.raises(MisuseError, match="no mass"):
        world.reset()


# ---- physics


def test_reset_takes_two_steps_and_falls_as_semi_implicit_euler_does(kit: Kit, playing: tuple[Any, Any]) -> None:
    world, view = playing
    fallen = [3, 6, 10]  # 1 + 2, + 3, + 4 steps' worth of g h^2
    for steps in fallen:
        height = float(view.get_world_poses()[0][0, 2])
        assert 5.0 - height == pytest.approx(steps * 9.81 * STEP_S**2, abs=1e-6)
        world.step(render=False)


def test_a_spinning_top_keeps_its_momentum_and_its_energy_within_the_steps_error(
    kit: Kit, playing: tuple[Any, Any]
) -> None:
    world, view = playing
    spin = np.array([[0.0, 0.0, 0.0, 1.0, 4.0, 0.5]], np.float32)
    view.set_velocities(spin)
    kit.physics.damping[:] = 0.0
    momentum, energy = [], []
    for _ in range(1000):
        rotation = kit.physics.poses()[0, :3, :3]
        local = rotation.T @ kit.physics.velocity[0, 3:]
        momentum.append(np.linalg.norm(np.array([1.0, 2.0, 3.0]) * local))
        energy.append(0.5 * np.array([1.0, 2.0, 3.0]) @ local**2)
        world.step(render=False)
    np.testing.assert_allclose(momentum, momentum[0], rtol=1e-5)
    np.testing.assert_allclose(energy, energy[0], rtol=1e-2)


def test_what_the_stage_does_not_say_is_physxs_default(kit: Kit, playing: tuple[Any, Any]) -> None:
    world, view = playing
    view.set_velocities(np.array([[0.0, 0.0, 0.0, 0.0, 0.0, 2.0]], np.float32))
    for _ in range(500):
        world.step(render=False)
    assert view.get_velocities()[0, 5] == pytest.approx(2.0 * np.exp(-0.05), rel=1e-3)  # angular damping, 1 s
