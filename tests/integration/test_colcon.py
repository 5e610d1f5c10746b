"""`colcon build` in a workspace: each layout finds its Python package, its data and its programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.checkout import ROOT, WHERE, bare_environment, copy_of_checkout

pytest.importorskip("colcon_core", reason="colcon is not installed: the extra `dev` brings it")
pytest.importorskip("colcon_ros", reason="colcon-ros is not installed: the extra `dev` brings it")
pytestmark = pytest.mark.integration

COLCON = [sys.executable, "-c", "import sys; from colcon_core.command import main; sys.exit(main())"]
MODES = {
    "isolated": [],
    "merged": ["--merge-install"],
    "symlinked": ["--symlink-install"],
    "merged and symlinked": ["--merge-install", "--symlink-install"],
}
PROGRAMS = ["rlstack", *(f"rlstack_{name}" for name in ("guard", "policy", "robot", "train"))]


def build(workspace: Path, *options: str) -> None:
    done = subprocess.run(
        [*COLCON, "--log-base", "log", "build", *options],
        cwd=workspace,
        env=bare_environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def in_workspace(workspace: Path, *commands: str) -> list[str]:
    """Return what each command prints in a shell that sourced the workspace; its working directory is elsewhere."""
    environment = {**bare_environment(), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-ec", "; echo NEXT; ".join([f". '{workspace}/install/setup.sh' >/dev/null", *commands])],
        cwd="/",
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split("NEXT\n")[1:]


@pytest.mark.parametrize("mode", MODES)
def test_a_workspace_finds_everything(mode: str, tmp_path: Path) -> None:
    source = copy_of_checkout(tmp_path / "src" / "rlstack")
    executables = {path.name: path.read_text() for path in (source / "resource" / "executables").iterdir()}
    build(tmp_path, *MODES[mode])
    if mode == "symlinked":
        build(tmp_path, *MODES[mode])  # again: the programs must not be written through links into the sources
    assert executables == {path.name: path.read_text() for path in (source / "resource" / "executables").iterdir()}

    prefix = tmp_path / "install" if "merged" in mode else tmp_path / "install" / "rlstack"
    version = f"{prefix}/lib/rlstack/rlstack --version"
    prefixes, where, version = in_workspace(tmp_path, "echo $AMENT_PREFIX_PATH", f"python -c '{WHERE}'", version)
    assert str(prefix) in prefixes.strip().split(os.pathsep)
    assert (prefix / "share" / "ament_index" / "resource_index" / "packages" / "rlstack").is_file()
    assert (prefix / "share" / "rlstack" / "launch" / "deploy.launch.py").is_file()

    found = json.loads(where)
    assert found["robot"] == "crazyflie"
    assert "quadrotor_hover" in found["recipes"]
    # links resolve to the sources, so that editing those is enough
    share = source if "symlinked" in mode else prefix / "share" / "rlstack"
    assert Path(found["launch/deploy.launch.py"]) == share / "launch" / "deploy.launch.py"
    assert Path(found["config/fastdds.xml"]) == share / "config" / "fastdds.xml"
    assert Path(found["module"]).is_relative_to(tmp_path)

    for name in PROGRAMS:
        assert os.access(prefix / "lib" / "rlstack" / name, os.X_OK), f"ros2 run would not find {name}"
    assert "0." in version


def test_a_workspace_of_ones_own_builds(tmp_path: Path) -> None:
    from rlstack.bringup.scaffold.workspace import write_workspace

    write_workspace(tmp_path / "src" / "own_rover", kind="wheeled_base")
    build(tmp_path)
    share = tmp_path / "install" / "own_rover" / "share"
    assert (share / "ament_index" / "resource_index" / "packages" / "own_rover").is_file()
    assert (share / "own_rover" / "launch" / "deploy.launch.py").is_file()
    names = "from importlib.metadata import entry_points as e; print(*(i.value for i in e(group='rlstack.robots')))"
    (found,) = in_workspace(tmp_path, f'python -c "{names}"')
    assert "own_rover.robots" in found


def test_the_copy_has_what_the_checkout_has(tmp_path: Path) -> None:
    names = {path.name for path in copy_of_checkout(tmp_path / "copy").iterdir()}
    assert {"src", "launch", "package.xml", "setup.py", "setup.cfg", "resource"} <= names
    assert (ROOT / "package.xml").read_text() == (tmp_path / "copy" / "package.xml").read_text()
