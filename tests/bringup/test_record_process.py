"""A deployment that is recorded, and the commands for recordings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlstack import cli
from rlstack.bringup.launch_file import shipped
from rlstack.bringup.record_process import with_recorder
from rlstack.bringup.system import deploy_system
from rlstack.data.bags import BagTopic, BagWriter
from rlstack.errors import UserError

pytest.importorskip("mcap")


def test_a_recorder_is_started_first_and_ends_after_the_guard(tmp_path: Path) -> None:
    system = deploy_system(robot="turtlebot3_burger", driver="dwa")
    record = with_recorder(system, tmp_path / "bag").processes[0]
    guard = next(process for process in system.processes if process.node_name == "guard")
    assert (record.node_name, record.namespace) == ("record", "/turtlebot3_burger")
    assert record.parameters == {"out": str(tmp_path / "bag"), "rest_within_s": guard.rest_s}
    assert record.rest_s == guard.rest_s > 0.0 and record.when_it_ends == "let the rest go on"
    two = with_recorder(deploy_system(robot="turtlebot3_burger", driver="dwa", count=2), tmp_path / "bag").processes[0]
    assert two.namespace == "/" and two.parameters["robots"] == ("turtlebot3_burger1", "turtlebot3_burger2")


def test_a_folder_that_cannot_be_recorded_into_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    words = ["up", "deploy", "--robot", "turtlebot3_burger", "--driver", "dwa", "--record"]
    assert cli.main([*words, str(tmp_path)]) == 2
    assert cli.main([*words, str(tmp_path / "file" / "bag")]) == 2
    assert cli.main([*words, "one", "two"]) == 2
    assert cli.main(["record", "--out", str(tmp_path)]) == 2


def test_the_launch_argument_is_a_folder_or_true(tmp_path: Path) -> None:
    given = {"robot": "turtlebot3_burger", "driver": "dwa"}

    def folders(**more: str) -> list[str]:
        system = shipped("deploy").system({**given, **more})
        return [str(one.parameters["out"]) for one in system.processes if one.name == "record"]

    assert folders() == folders(record="false") == []
    assert folders(record=str(tmp_path / "bag")) == [str(tmp_path / "bag")]
    assert "/recordings/" in folders(record="true")[0]


def test_info_describes_a_bag_and_writes_what_is_attached(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bag = BagWriter(tmp_path / "bag")
    bag.add_topic(BagTopic("/cf/odom", "nav_msgs/msg/Odometry"))
    bag.note({"/cf/policy_sha256": "abc", "lost": '{"/cf/odom": 2}'})
    bag.attach("/cf/../robot.yaml", "application/yaml", b"mass_kg: 1\n")
    for k in range(11):
        bag.write("/cf/odom", 10**18 + k * 10**7, 0, k, b"\0\1\0\0")
    bag.close()
    assert cli.main(["info", str(tmp_path / "bag"), "--extract", str(tmp_path / "files")]) == 0
    text = capsys.readouterr().out
    assert "/cf/policy_sha256  abc" in text and "2001-09-09 01:46:40.100 UTC, 0.100 s" in text
    assert text.splitlines()[-1].split() == ["/cf/odom", "nav_msgs/msg/Odometry", "11", "100.0", "2", "0"]
    assert (tmp_path / "files" / "cf" / "robot.yaml").read_bytes() == b"mass_kg: 1\n"
    file = tmp_path / "bag" / "bag_0.mcap"
    file.write_bytes(file.read_bytes()[:-50])
    assert cli.main(["info", str(tmp_path / "bag"), "--json", "--check"]) == 1
    assert json.loads(capsys.readouterr().out)["topics"]["/cf/odom"]["messages"] == 11
    with pytest.raises(UserError, match="exists already"):
        with_recorder(deploy_system(robot="turtlebot3_burger", driver="dwa"), tmp_path / "bag")
    assert cli.main(["info", str(tmp_path / "none")]) == 2
    assert "There is no bag" in capsys.readouterr().err
