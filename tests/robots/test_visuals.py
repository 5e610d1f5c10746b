from __future__ import annotations

import numpy as np
import pytest

from rlstack.robots import frames
from rlstack.robots.visuals import Appearance, read_visuals

URDF = """<robot name="thing">
  <material name="red"><color rgba="1 0 0 0.5"/></material>
  <link name="base_link">
    <visual><origin xyz="0 0 0.1" rpy="0 0 1.5707963267948966"/><geometry><box size="1 2 3"/></geometry>
      <material name="red"/></visual>
    <visual><geometry><capsule radius="1" length="1"/></geometry></visual>
    <collision><geometry><sphere radius="9"/></geometry></collision>
  </link>
  <link name="arm">
    <visual><origin xyz="1 0 0"/><geometry><cylinder radius="0.5" length="4"/></geometry>
      <material name="own"><color rgba="0 1 0 1"/></material></visual>
    <visual><geometry><mesh filename="file:///a.obj" scale="2 2 2"/></geometry></visual>
    <visual><geometry><sphere radius="0.5"/></geometry></visual>
  </link>
  <joint name="turn" type="continuous">
    <parent link="base_link"/><child link="arm"/><origin xyz="0 0 1"/><axis xyz="0 0 1"/>
  </joint>
</robot>"""


def test_shapes_sizes_and_colours_are_those_of_the_model() -> None:
    box, cylinder, mesh, sphere = read_visuals(URDF)
    assert (box.shape, box.size, box.colour) == ("box", (1.0, 2.0, 3.0), (1.0, 0.0, 0.0, 0.5))
    assert (cylinder.shape, cylinder.size, cylinder.colour) == ("cylinder", (1.0, 1.0, 4.0), (0.0, 1.0, 0.0, 1.0))
    assert (mesh.shape, mesh.size, mesh.mesh) == ("mesh", (2.0, 2.0, 2.0), "file:///a.obj")
    assert (sphere.shape, sphere.size, sphere.link) == ("sphere", (1.0, 1.0, 1.0), "arm")


@pytest.mark.parametrize("angle", [0.0, 0.7])
def test_shapes_go_with_their_links(angle: float) -> None:
    at, turned = Appearance(URDF).poses({"turn": angle})
    np.testing.assert_allclose(at[0], (0.0, 0.0, 0.1))
    np.testing.assert_allclose(turned[0], frames.from_yaw(np.pi / 2), atol=1e-12)
    np.testing.assert_allclose(at[1], (np.cos(angle), np.sin(angle), 1.0), atol=1e-12)
    np.testing.assert_allclose(turned[1:], np.tile(frames.from_yaw(angle), (3, 1)), atol=1e-12)


def test_a_robot_that_shows_nothing_has_no_places() -> None:
    at, turned = Appearance('<robot name="n"><link name="base_link"/></robot>').poses()
    assert at.shape == (0, 3) and turned.shape == (0, 4)
