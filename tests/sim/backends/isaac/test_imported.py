"""What is refused of what the importer made; what is put right is tested with the engine, in ``test_jointed.py``."""

from __future__ import annotations

from typing import Any

import pytest

from rlstack.robots import RobotSpec, load_robot
from rlstack.sim.backends.isaac import stage as authored
from rlstack.sim.backends.isaac.imported import ImportedRobot, retire_sources, settle_imported
from rlstack.sim.backends.isaac.urdf import importable_urdf

pytest.importorskip("pxr", reason="pip install usd-core")

JOINTS = ("wheel_left_joint", "wheel_right_joint")


@pytest.fixture
def robot() -> RobotSpec:
    return load_robot("turtlebot3_burger")


def stage_of(links: tuple[str, ...], joints: tuple[str, ...], *, articulated: bool = True) -> Any:
    """Return a stage with links of r0000, each 1 m above the one before, and joints."""
    from pxr import Gf, Usd, UsdGeom, UsdPhysics

    made = Usd.Stage.CreateInMemory()
    authored.author_surroundings(made, None)
    UsdGeom.Xform.Define(made, "/r0000")
    for number, link in enumerate(links):
        xform = UsdGeom.Xform.Define(made, f"/r0000/r0000_{link}")
        xform.AddTranslateOp(UsdGeom.XformOp.PrecisionDouble).Set(Gf.Vec3d(0.0, 0.0, 1.0 + number))
        UsdPhysics.RigidBodyAPI.Apply(xform.GetPrim())
        if articulated and number == 0:
            UsdPhysics.ArticulationRootAPI.Apply(xform.GetPrim())
    for joint in joints:
        UsdPhysics.RevoluteJoint.Define(made, f"/r0000/joints/r0000_{joint}")
    return made


def settle(stage: Any, robot: RobotSpec) -> ImportedRobot:
    made = importable_urdf(robot, 0)
    return settle_imported(stage, "/r0000", made, robot, (1.0, 2.0, 3.0), fixed=False, seen=True)


def test_it_knows_its_links_and_where_they_are_in_base_link(robot: RobotSpec) -> None:
    found = settle(stage_of(("base_link", "wheel_left_link"), JOINTS), robot)
    assert found.base == "/r0000/r0000_base_link"
    assert found.links == ("/r0000/r0000_base_link", "/r0000/r0000_wheel_left_link")
    assert found.zero_poses["r0000_base_link"][1].tolist() == [0.0, 0.0, 0.0]
    assert found.zero_poses["r0000_wheel_left_link"][1].tolist() == [0.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("links", "joints", "articulated", "said"),
    [
        (("trunk",), JOINTS, True, "without its link r0000_base_link"),
        (("base_link",), JOINTS, False, "without an articulation"),
        (("base_link",), JOINTS[:1], True, "without a joint of its file"),
    ],
    ids=["link", "articulation", "joint"],
)
def test_something_else_than_the_urdf_is_an_error(
    robot: RobotSpec, links: tuple[str, ...], joints: tuple[str, ...], articulated: bool, said: str
) -> None:
    with pytest.raises(RuntimeError, match=said):
        settle(stage_of(links, joints, articulated=articulated), robot)


def test_without_sources_there_is_nothing_to_retire() -> None:
    from pxr import Usd

    retire_sources(Usd.Stage.CreateInMemory())
