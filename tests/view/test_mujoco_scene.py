from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mujoco
import numpy as np
import pytest
import viser

from rlstack.view.mujoco_scene import MujocoScene

MODEL = """<mujoco><asset><material name="red" rgba="1 0 0 1"/>
<mesh name="wedge" vertex="0 0 0  1 0 0  0 1 0  0 0 1"/></asset><worldbody>
<geom name="floor" type="plane" size="1 1 .1"/>
<body pos="0 0 1"><freejoint/><geom type="box" size=".1 .2 .3" material="red"/><geom type="capsule" size=".05 .2"/>
<geom type="mesh" mesh="wedge"/><geom type="ellipsoid" size=".1 .2 .3"/><geom type="sphere" size=".1" group="3"/></body>
<body pos="1 0 0"><geom type="cylinder" size=".1 .2" rgba="0 1 0 .5"/></body></worldbody></mujoco>"""


@pytest.fixture(scope="module")
def scene() -> Iterator[Any]:
    server = viser.ViserServer("127.0.0.1", 0, verbose=False)
    yield server.scene
    server.stop()


def test_bodies_move_and_what_only_collides_is_not_drawn(scene: Any) -> None:
    model = mujoco.MjModel.from_xml_string(MODEL)
    shown, data = MujocoScene(scene, model), mujoco.MjData(model)

    def handle(name: str) -> Any:
        return scene.get_handle_by_name(f"/mujoco/{name}")

    np.testing.assert_allclose(handle("1").position, [0, 0, 1])
    np.testing.assert_allclose(handle("1/1").dimensions, [0.2, 0.4, 0.6])
    assert tuple(handle("1/1").color) == (255, 0, 0)
    assert np.ptp(handle("1/2").vertices, axis=0) == pytest.approx([0.1, 0.1, 0.5], rel=0.02)
    assert handle("2/6").opacity == 0.5
    assert [handle(name) is None for name in ("1/3", "1/4", "1/5", "0/0")] == [False, False, True, False]
    data.qpos[:3] = 0.3, 0.4, 0.5
    state = np.empty(mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS))
    mujoco.mj_getState(model, data, state, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    shown.show(state)
    np.testing.assert_allclose(handle("1").position, [0.3, 0.4, 0.5])
    np.testing.assert_allclose(handle("2").position, [1, 0, 0])
