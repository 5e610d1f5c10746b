"""`rlstack model`: the table, the files it writes, and the check."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rlstack import cli
from rlstack.errors import UserError
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import load_robot, robot_names
from rlstack.robots.kind_models import check_file, mass_properties
from rlstack.robots.urdf import to_urdf
from tests.support import docs
from tests.support.robots import modelled


@pytest.mark.parametrize("name", modelled())
def test_every_robot_is_shown_with_its_mass_and_its_joints(name: str, capsys: pytest.CaptureFixture) -> None:
    if name == "panda":
        pytest.importorskip("pybullet_data")
    assert cli.main(["model", name]) == 0
    shown = capsys.readouterr().out
    robot = load_robot(name)
    assert robot.description in shown and "kg m^2" in shown
    for joint in robot.drives:
        assert f"{joint.name}  " in shown


@pytest.mark.parametrize(("form", "name"), [("urdf", "husky.urdf"), ("mjcf", "husky.xml")])
def test_what_is_written_is_the_robot(form: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = tmp_path / name
    assert cli.main(["model", "husky", "--format", form, "--out", str(path)]) == 0
    check_file(load_robot("husky"), path)
    assert f"Wrote {path}." in capsys.readouterr().out
    assert cli.main(["model", "husky", "--check", str(path)]) == 0
    assert f"{path} is this robot." in capsys.readouterr().out
    assert cli.main(["model", "turtlebot3_burger", "--check", str(path)]) == 2
    assert "no joint 'wheel_left_joint'" in capsys.readouterr().err


def test_options_reach_the_urdf(tmp_path: Path) -> None:
    path = tmp_path / "cf.urdf"
    assert cli.main(["model", "crazyflie", "--prefix", "cf1/", "--rotors", "none", "--out", str(path)]) == 0
    assert '"cf1/base_link"' in path.read_text() and "m1" not in path.read_text()


def test_the_pages_table_of_bases_and_arms_is_that_of_the_files() -> None:
    page = docs.text("docs/robots.md")
    for kind in ("wheeled_base", "manipulator"):
        for name in robot_names(kind):
            robot = load_robot(name)
            mass = f"{mass_properties(robot).mass_kg:.4g}" if robot.drives else "-"
            row = (
                f"[`{name}`](../src/rlstack/robots/{name}.yaml)",
                kind,
                mass,
                str(len(robot.drives)),
                robot.description,
            )
            assert f"| {' | '.join(row)} |" in page


def test_the_refusal_on_the_page_is_what_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    robot = load_robot("husky")
    assert isinstance(robot, WheeledBase)
    wheel = replace(robot.wheels[0], mass_kg=2.0 * robot.wheels[0].mass_kg)
    Path("husky.urdf").write_text(to_urdf(replace(robot, wheels=(wheel, *robot.wheels[1:]))))
    with pytest.raises(UserError) as refused:
        check_file(robot, "husky.urdf")
    assert f"rlstack: {refused.value}" in docs.text("docs/robots.md")
