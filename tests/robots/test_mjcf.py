"""The generated MuJoCo model says what the robot file says, and is worth looking at."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots.kind_models import rest_height
from rlstack.robots.mjcf import BODY, mujoco_spec, to_mjcf
from tests.support.robots import crazyflie, large


@pytest.fixture(params=[crazyflie(), large()], ids=lambda r: r.name)
def robot(request: pytest.FixtureRequest) -> Quadrotor:
    return request.param


def assert_same_robot(model: mujoco.MjModel, robot: Quadrotor, rtol: float) -> None:
    body = model.body(BODY)
    np.testing.assert_allclose(body.mass, robot.body.mass_kg, rtol=rtol)
    np.testing.assert_allclose(body.inertia, robot.body.inertia_kg_m2, rtol=rtol)
    np.testing.assert_array_equal(body.ipos, np.zeros(3))
    np.testing.assert_array_equal(body.iquat, [1.0, 0.0, 0.0, 0.0])
    assert float(model.body_mass.sum()) == pytest.approx(robot.body.mass_kg, rel=rtol)  # nothing else has mass
    for rotor in robot.rotors:
        np.testing.assert_allclose(model.site(rotor.name).pos, rotor.position_m, rtol=rtol)
    assert (model.nq, model.nv, model.nu) == (7, 6, 0)


def test_the_compiled_model_has_exactly_the_files_mass_inertia_and_rotors(robot: Quadrotor) -> None:
    model = mujoco_spec(robot, timestep_s=0.002).compile()
    assert_same_robot(model, robot, rtol=0.0)
    assert model.opt.timestep == 0.002
    np.testing.assert_array_equal(model.opt.gravity, [0.0, 0.0, -9.81])


def test_the_inertia_axes_are_not_sorted_or_turned() -> None:
    body = replace(crazyflie().body, inertia_kg_m2=(5e-6, 3e-6, 4e-6))
    model = mujoco_spec(replace(crazyflie(), body=body)).compile()
    np.testing.assert_array_equal(model.body(BODY).inertia, [5e-6, 3e-6, 4e-6])
    np.testing.assert_array_equal(model.body(BODY).iquat, [1.0, 0.0, 0.0, 0.0])


def test_the_text_is_the_same_robot_to_what_mjcf_writes(robot: Quadrotor) -> None:
    assert_same_robot(mujoco.MjModel.from_xml_string(to_mjcf(robot)), robot, rtol=1e-5)


def test_only_the_collision_cylinder_touches(robot: Quadrotor) -> None:
    model = mujoco_spec(robot).compile()
    touching = [g for g in range(model.ngeom) if model.geom_contype[g] and model.geom_bodyid[g] > 0]
    assert [model.geom(g).name for g in touching] == [BODY]
    np.testing.assert_allclose(
        model.geom(BODY).size[:2], [robot.body.collision_radius_m, robot.body.collision_height_m / 2.0]
    )
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    assert data.body(BODY).xpos[2] == rest_height(robot)
    assert not (data.contact.dist < -1e-9).any()


def test_no_floor_when_none_is_wanted() -> None:
    planes = [mujoco_spec(crazyflie(), floor=floor).compile().geom_type for floor in (True, False)]
    counts = [int((types == mujoco.mjtGeom.mjGEOM_PLANE).sum()) for types in planes]
    assert counts == [1, 0]


def test_a_world_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"Cannot read the world .*missing\.xml"):
        mujoco_spec(crazyflie(), world=tmp_path / "missing.xml")
    broken = tmp_path / "broken.xml"
    broken.write_text("<mujoco><worldbody><geom type='teapot'/></worldbody></mujoco>")
    with pytest.raises(UserError, match=r"Cannot read the world .*broken\.xml"):
        mujoco_spec(crazyflie(), world=broken)
    taken = tmp_path / "taken.xml"
    taken.write_text(f"<mujoco><worldbody><body name='{BODY}'/></worldbody></mujoco>")
    with pytest.raises(UserError, match=rf"has a body called '{BODY}'.*rename it"):
        mujoco_spec(crazyflie(), world=taken)


def test_robots_import_without_mujoco_and_building_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(UserError, match=r"pip install 'rlstack\[sim\]'"):
        mujoco_spec(crazyflie())
    code = "import sys, rlstack.robots, rlstack.robots.mjcf; sys.exit('mujoco' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=os.environ.copy(), check=False).returncode == 0


def test_a_picture_shows_orange_ahead_and_blue_behind(tmp_path: Path) -> None:
    # In a process of its own: MuJoCo picks its OpenGL once, when it is imported.
    code = """
import sys
import mujoco, numpy as np
from rlstack.robots.mjcf import CAMERA, mujoco_spec
from rlstack.kinds.quadrotor.spec import load_quadrotor
model = mujoco_spec(load_quadrotor("crazyflie")).compile()
data = mujoco.MjData(model)
data.qpos[2] = 0.5
mujoco.mj_forward(model, data)
try:
    renderer = mujoco.Renderer(model, 240, 320)
except Exception as error:
    print(error)
    sys.exit(77)
renderer.update_scene(data, camera=CAMERA)
np.save(sys.argv[1], renderer.render())
"""
    target = tmp_path / "frame.npy"
    run = subprocess.run(
        [sys.executable, "-c", code, str(target)],
        env={**os.environ, "MUJOCO_GL": "egl"},
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode == 77:
        pytest.skip(f"no EGL here: {run.stdout.strip()}")
    assert run.returncode == 0, run.stderr
    frame = np.load(target).astype(float)
    red, green, blue = (frame[..., i] for i in range(3))
    orange = np.argwhere((red > 150) & (red - blue > 80) & (red - green > 50))
    cyan = np.argwhere((blue > 110) & (blue - red > 60))
    assert min(len(orange), len(cyan)) > 100
    # The camera looks forward from behind: what is ahead is higher in the picture, and the robot is in the middle.
    assert orange[:, 0].mean() < cyan[:, 0].mean() - 5
    middle = np.concatenate([orange, cyan]).mean(axis=0)
    np.testing.assert_allclose(middle, [120, 160], atol=30)
