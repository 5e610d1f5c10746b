"""What pip installs, what is pinned, and how `make` chooses its Python."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import rlstack
from tests.support.checkout import ROOT, WHERE, bare_environment, copy_of_checkout

PYTHONS = ("3.10", "3.11", "3.12", "3.13")


def pip_install(prefix: Path, *what: str) -> Path:
    """Install into ``prefix`` without dependencies; return the folder that Python must be told of."""
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    command += ["--ignore-installed", "--disable-pip-version-check", "--prefix", str(prefix), *what]
    done = subprocess.run(command, env=bare_environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    (site,) = prefix.glob("lib/python*/site-packages")
    return site


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site-packages of a prefix into which a copy of the checkout is pip-installed."""
    folder = tmp_path_factory.mktemp("pip")
    return pip_install(folder / "prefix", str(copy_of_checkout(folder / "copy")))


@pytest.fixture(scope="module")
def metadata(installed: Path) -> Distribution:
    (found,) = (d for d in distributions(path=[str(installed)]) if d.metadata["Name"] == "rlstack")
    return found


def where(code_before: str, **environment: str) -> dict:
    done = subprocess.run(
        [sys.executable, "-c", code_before + WHERE],
        cwd="/",
        env={**bare_environment(), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.integration
def test_pip_installs_code_data_and_programs(installed: Path) -> None:
    prefix = installed.parents[2]
    found = where("", PYTHONPATH=str(installed))
    assert Path(found["module"]) == installed / "rlstack" / "__init__.py"
    assert found["robot"] == "crazyflie"
    assert "quadrotor_hover" in found["recipes"]
    for name in ("launch/deploy.launch.py", "config/fastdds.xml", "package.xml"):
        assert Path(found[name]) == prefix / "share" / "rlstack" / name
    assert (prefix / "share" / "ament_index" / "resource_index" / "packages" / "rlstack").is_file()
    assert (installed / "rlstack" / "py.typed").is_file()
    for name in ("rlstack", *(f"rlstack_{n}" for n in ("robot", "policy", "guard", "train", "perception"))):
        assert os.access(prefix / "lib" / "rlstack" / name, os.X_OK), f"ros2 run would not find {name}"
        assert os.access(prefix / "bin" / name, os.X_OK)


@pytest.mark.integration
def test_a_program_for_ros2_run_starts_the_python_of_its_prefix(installed: Path) -> None:
    program = installed.parents[2] / "lib" / "rlstack" / "rlstack"
    python = installed.parents[2] / "bin" / "python3"
    python.write_text(f'#!/bin/sh\necho "the prefix" >&2\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    environment = {**bare_environment(), "PYTHONPATH": str(installed), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([program, "--version"], env=environment, capture_output=True, text=True, timeout=60)
    assert done.stderr == "the prefix\n"
    assert done.stdout.strip() == f"rlstack {rlstack.__version__}"


@pytest.mark.integration
def test_an_editable_install_finds_the_data_of_the_checkout(tmp_path: Path) -> None:
    copy = copy_of_checkout(tmp_path / "copy")
    site = pip_install(tmp_path / "prefix", "-e", str(copy))
    found = where(
        f"import site, sys; old = list(sys.path); site.addsitedir({str(site)!r}); "
        "sys.path[:] = [p for p in sys.path if p not in old] + old\n"
    )
    assert Path(found["module"]) == copy / "src" / "rlstack" / "__init__.py"
    assert Path(found["launch/deploy.launch.py"]) == copy / "launch" / "deploy.launch.py"


def test_every_statement_of_the_version_agrees(metadata: Distribution) -> None:
    described = ElementTree.parse(ROOT / "package.xml").getroot().findtext("version")
    assert rlstack.__version__ == described == metadata.version


def pins(python: str) -> dict[str, str]:
    """Return the pinned version of each package on a Python version."""
    found = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        pin = Requirement(line)
        assert re.fullmatch(r"==[\w.+!]+", str(pin.specifier)), f"not a pin: {line}"
        if pin.marker is None or pin.marker.evaluate({"python_version": python}):
            name = canonicalize_name(pin.name)
            assert name not in found, f"{name} is pinned twice for Python {python}"
            found[name] = str(pin.specifier).removeprefix("==")
    return found


def requirements(metadata: Distribution, python: str) -> Iterator[Requirement]:
    extras = metadata.metadata.get_all("Provides-Extra") or []
    for text in metadata.requires or []:
        need = Requirement(text)
        if need.marker is None or any(
            need.marker.evaluate({"python_version": python, "extra": e}) for e in ["", *extras]
        ):
            yield need


@pytest.mark.parametrize("python", PYTHONS)
def test_everything_asked_for_is_pinned_to_a_version_that_is_allowed(metadata: Distribution, python: str) -> None:
    pinned = pins(python)
    needed = list(requirements(metadata, python))
    assert {"numpy", "torch", "pytest", "ros-rclpy"} <= {canonicalize_name(need.name) for need in needed}
    for need in needed:
        version = pinned.get(canonicalize_name(need.name))
        assert version is not None, f"{need.name} is not in constraints.txt for Python {python}"
        assert need.specifier.contains(version), f"{need} does not allow the pinned {version}"


def test_the_core_is_small(metadata: Distribution) -> None:
    core = {need.name for need in map(Requirement, metadata.requires or []) if need.marker is None}
    assert core == {"numpy", "onnx", "onnxruntime", "pyyaml", "tyro"}


def test_all_is_every_extra_but_the_developers_tools(metadata: Distribution) -> None:
    needs = [Requirement(text) for text in metadata.requires or []]

    def of(extra: str) -> set[str]:
        return {n.name for n in needs if n.marker is not None and n.marker.evaluate({"extra": extra})}

    assert of("all") == set().union(
        *map(
            of,
            (
                *("ros", "sim", "pybullet", "train", "cuda", "view", "hardware", "perception", "gym"),
                *("navigation", "racing", "data", "teleop", "warp", "betaflight", "mavlink", "crazyflie"),
                *("feetech", "dynamixel", "franka", "serial", "leapp", "lerobot", "vla", "words", "sweep"),
            ),
        )
    )
    assert {"torch", "mujoco", "ros-rclpy", "matplotlib"} <= of("all")
    assert "pytest" in of("dev") - of("all")
    assert "mkdocs" in of("docs") - of("all")


# --- how make finds its Python -------------------------------------------------------------------------------------


def find_python(tmp_path: Path, python: str = "", **modules: str) -> subprocess.CompletedProcess[str]:
    """Run tools/find_python where the only Python on PATH imports ``modules`` before its own."""
    (tmp_path / "modules").mkdir()
    for name, code in modules.items():
        (tmp_path / "modules" / f"{name}.py").write_text(code)
    (tmp_path / "bin").mkdir()
    only = tmp_path / "bin" / "python3"
    base = getattr(sys, "_base_executable", sys.executable)
    only.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}/modules" exec "{base}" "$@"\n')
    only.chmod(0o755)
    environment = {**bare_environment(), "PATH": str(tmp_path / "bin"), "PYTHON": python}
    return subprocess.run(
        ["/bin/sh", ROOT / "tools" / "find_python"], env=environment, capture_output=True, text=True, timeout=30
    )


def test_make_takes_a_python_that_can(tmp_path: Path) -> None:
    done = find_python(tmp_path)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_file()


def test_make_says_in_one_sentence_which_package_is_missing(tmp_path: Path) -> None:
    done = find_python(tmp_path, ensurepip="raise ImportError('as Debian without python3-venv')")
    assert done.returncode == 1
    version = ".".join(map(str, sys.version_info[:2]))
    assert f"sudo apt install python{version}-venv" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("python", ["", "python3"])
def test_make_refuses_other_versions_in_one_sentence(tmp_path: Path, python: str) -> None:
    done = find_python(tmp_path, python, sitecustomize="import sys\nsys.version_info = (3, 9, 18, 'final', 0)")
    assert done.returncode == 1
    assert "needs Python 3.10 to 3.13" in done.stderr
    assert done.stderr.count("\n") == 1


def test_make_refuses_a_python_that_is_none(tmp_path: Path) -> None:
    done = find_python(tmp_path, "/nowhere/python")
    assert done.returncode == 1
    assert "PYTHON=/nowhere/python" in done.stderr


def test_set_up_notices_a_change_in_whatever_is_packaged(tmp_path: Path) -> None:
    copy = copy_of_checkout(tmp_path / "copy")
    spec = importlib.util.spec_from_file_location("environment", copy / "tools" / "environment.py")
    assert spec is not None and spec.loader is not None
    environment = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(environment)
    before = environment.digest_of_package()
    (copy / "src" / "rlstack" / "__pycache__").mkdir()
    (copy / "src" / "rlstack" / "__pycache__" / "errors.pyc").write_text("left by a run")
    (copy / "Makefile").write_text("# not packaged")
    assert environment.digest_of_package() == before
    for name in ("src/rlstack/errors.py", "launch/deploy.launch.py", "setup.py", "resource/executables/rlstack_robot"):
        (copy / name).write_text((copy / name).read_text() + "\n# changed\n")
        assert environment.digest_of_package() != before, name
        before = environment.digest_of_package()


IMPORTED_AS = {
    "stable_baselines3": "stable-baselines3",
    "google": "onnx",
    "rsl_rl": "rsl-rl-lib",
    "warp": "warp-lang",
    "mujoco_warp": "mujoco-warp",
    "PIL": "pillow",
    "yaml": "pyyaml",
    "lark": "lark-parser",
}


PEERS = {"crazyflow", "jax", "stable_baselines3", "gymnasium", "foundation_policy"}
"""What `rlstack bench` measures itself against where it is installed; nothing else may import it."""


NOT_ON_PYPI = {"isaacsim", "pxr"}
"""What comes with Isaac Sim, from NVIDIA's package index."""


OWN_ENVIRONMENT = {"metaworld", "libero", "virtualhome_eval", "up_fast_downward"}
"""What a command installs into an environment of its own, for its worker processes alone."""


# google is protobuf, which onnx brings
def test_everything_imported_is_asked_for(metadata: Distribution) -> None:
    imported = set()
    for path in (ROOT / "src").rglob("*.py"):
        found = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                found.add(node.module.partition(".")[0])
        imported |= found - PEERS if path.name.startswith("peer_") else found
    foreign = imported - sys.stdlib_module_names - {"rlstack"} - NOT_ON_PYPI - OWN_ENVIRONMENT
    ros = {e.text for e in ElementTree.parse(ROOT / "package.xml").getroot().iter("exec_depend")}
    asked = {canonicalize_name(need.name) for need in requirements(metadata, "3.11")}
    needed = {IMPORTED_AS.get(name, name) for name in foreign - ros}
    assert {"numpy", "torch", "mujoco", "matplotlib"} <= needed and {"rclpy", "std_srvs"} <= foreign & ros
    assert needed <= asked, "not in setup.py, or for ROS packages not in package.xml"
