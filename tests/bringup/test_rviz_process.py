"""RViz beside the nodes of a launch file."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from rlstack.bringup.system import simulate_system
from rlstack.errors import UserError


@pytest.fixture
def rviz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in RViz's place, which keeps its command line and configuration."""
    program = tmp_path / "rviz2"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/words\ncp "$2" {tmp_path}/shown\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def test_it_shows_the_first_robot_on_the_simulators_time(rviz: Path) -> None:
    system = simulate_system("turtlebot3_burger", count=2, rviz=True)
    (process,) = (one for one in system.processes if one.name == "rviz")
    assert process.when_it_ends == "let the rest go on"
    subprocess.run(process.command(), check=True, timeout=60)
    assert (rviz / "words").read_text().split()[-3:] == ["--ros-args", "-p", "use_sim_time:=true"]
    shown = (rviz / "shown").read_text()
    assert "/turtlebot3_burger1/goal/active" in shown and "turtlebot3_burger1/base_link" in shown


def test_without_it_the_browser_view_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"rviz2.*not installed"):
        simulate_system("crazyflie", rviz=True)
