"""What docs/sensors.md shows is what happens."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from rlstack.nodes.perception import PARAMETERS
from rlstack.robots import load_robot
from rlstack.robots.spec import robot_files
from tests.support import docs

PAGE = "docs/sensors.md"


def test_the_example_is_part_of_a_robot_file(tmp_path: Path) -> None:
    (example,) = docs.blocks(PAGE, "yaml")
    data = yaml.safe_load(robot_files()["crazyflie"].read_text())
    (tmp_path / "own.yaml").write_text(yaml.safe_dump({**data, **yaml.safe_load(example)}))
    robot = load_robot(tmp_path / "own.yaml")
    assert set(robot.cameras) == {"camera"} and robot.cameras["camera"].distorted
    assert {name: lidar.rings for name, lidar in robot.lidars.items()} == {"scan": 1, "rings": 4}


@pytest.mark.integration
def test_the_program_sees_the_floor(capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = docs.blocks(PAGE, "python")
    exec(program, {})
    said = capsys.readouterr().out
    assert said.endswith("points of the floor, 1.500 m below\n") and int(said.split()[0]) > 5000


def test_the_nodes_parameters_are_those_of_the_code() -> None:
    assert docs.parameter_table(PARAMETERS) in docs.text(PAGE)
