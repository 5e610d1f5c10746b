"""Bring a virtual environment up to date with this checkout; `make` runs it before everything else.

Standard library only. What is up to date is known from stamps in the environment, so a second run takes well under a
second: dependencies are installed again when the pins, the extras or the platform's choice changed, the package when
one of its files did.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PINS = ROOT / "constraints.txt"
TF2_MESSAGES = ROOT / "src" / "rlstack" / "interfaces" / "tf2_messages.py"
PACKAGE = ("src", "launch", "sim", "policies", "hardware", "config", "resource", "setup.py", "setup.cfg")
PACKAGE += ("pyproject.toml", "package.xml", "MANIFEST.in", "README.md", "LICENSE")
NOT_PACKAGED = shutil.ignore_patterns("__pycache__", "*.pyc", "*.egg-info", ".*")


class SetupError(Exception):
    """Set-up cannot go on; the message says why and what to do."""


def main() -> int:
    """Run the set-up that the command line asks for; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--venv", type=Path, required=True, help="the virtual environment's folder")
    parser.add_argument("--extras", required=True, help="of setup.py, between commas")
    parser.add_argument("--editable", action="store_true", help="let the environment import the checkout's sources")
    parser.add_argument("--torch-index", default="", help="package index for PyTorch alone, instead of pip's own")
    parser.add_argument("--python", default="", help="the interpreter to make the environment with")
    options = parser.parse_args()
    try:
        environment = Environment(options.venv.absolute(), set(options.extras.split(",")))
        environment.create(options.python)
        environment.install_torch(options.torch_index)
        environment.install_dependencies()
        environment.install_package(options.editable)
        environment.make_messages()
    except SetupError as error:
        print(f"make: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nmake: stopped; the same command goes on from here.", file=sys.stderr)
        return 130
    return 0


class Environment:
    """A virtual environment and what of it is up to date."""

    def __init__(self, folder: Path, extras: set[str]) -> None:
        self.folder = folder
        self.python = folder / "bin" / "python"
        self.stamps = folder / ".rlstack"
        self.extras = extras

    def create(self, python: str) -> None:
        """Make the environment unless it is there and complete; ``python`` is a path, or empty to search one."""
        if self.done("created", version_of(self.python)):
            wanted = version_of(python) if python else ""
            if wanted and wanted != version_of(self.python):
                raise SetupError(f"{self.folder} has {version_of(self.python)}, not {wanted}: `make clean` removes it.")
            return
        found = subprocess.run(
            [ROOT / "tools" / "find_python"], env={**os.environ, "PYTHON": python}, stdout=subprocess.PIPE, text=True
        )
        if found.returncode != 0:
            raise SystemExit(1)  # it has said why
        base = found.stdout.strip()
        with step(f"Making {self.folder.name} with {version_of(base)}"):
            run([base, "-m", "venv", "--clear", str(self.folder)], "making the virtual environment")
            self.stamps.mkdir()
            self.write("created", version_of(self.python))

    def install_torch(self, index: str) -> None:
        """Install the pinned PyTorch first and alone, unless some PyTorch is there: another request brings CUDA."""
        code = "import importlib.metadata as m; print(m.version('torch'))"
        if self.done("torch", "present"):
            return
        present = subprocess.run([self.python, "-c", code], capture_output=True, text=True)
        if present.returncode != 0:
            pin = next(line.split(";")[0].strip() for line in pins() if line.startswith("torch=="))
            hint = ""
            if not index and shutil.which("nvidia-smi") is None:
                hint = (
                    "; no NVIDIA GPU here: if this downloads gigabytes, TORCH_INDEX=<PyTorch's CPU index> spares them"
                )
            with step(f"Installing PyTorch, {pin} (about 1 minute{hint})"):
                self.pip(*(["--index-url", index] if index else []), "-c", str(PINS), pin)
        self.write("torch", "present")

    def install_dependencies(self) -> None:
        """Install what setup.py asks for, at the pinned versions."""
        extras = self.wanted
        state = digest([PINS, ROOT / "setup.py"]) + " " + ",".join(sorted(extras))
        before = self.read("dependencies").split()
        if before[:1] == state.split()[:1] and extras <= set(before[-1].split(",")):
            return
        with step("Installing the other packages (about 1 minute)"), packaged() as source:
            self.pip("-c", str(PINS), "setuptools")
            self.pip("--no-build-isolation", "-c", str(PINS), f"{source}[{','.join(sorted(extras))}]")
            self.write("package", digest_of_package())
        self.write("dependencies", state)

    def install_package(self, editable: bool) -> None:
        """Install rlstack itself when a file of it changed; once editable, it stays so."""
        if editable or self.read("package") == "editable":
            if not self.done("package", "editable"):
                with step("Installing rlstack, editable"):
                    self.pip("--no-build-isolation", "--no-deps", "-e", str(ROOT))
                    self.write("package", "editable")
        elif not self.done("package", digest_of_package()):
            with step("Installing rlstack"), packaged() as source:
                self.pip("--no-build-isolation", "--no-deps", source)
                self.write("package", digest_of_package())

    def make_messages(self) -> None:
        """Make the message of /tf, which ROS's wheels lack, unless what that takes is missing: then say so, once."""
        if "ros" not in self.wanted:
            return
        compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
        headers = (Path(sysconfig.get_path("include")) / "Python.h").is_file()
        state = f"{digest([PINS, TF2_MESSAGES])} {version_of(self.python)} {compiler} {headers}"
        if self.done("tf2_msgs", state):
            return
        with step("Making tf2_msgs, the message of /tf"):
            command = [self.python, "-m", "rlstack.interfaces.tf2_messages", "--again"]
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            print(f"make: {(done.stderr.strip().splitlines() or ['tf2_msgs was not made.'])[-1]}", file=sys.stderr)
        self.write("tf2_msgs", state)

    @cached_property
    def wanted(self) -> set[str]:
        """The extras to install."""
        return self.extras - self.left_out()

    def left_out(self) -> set[str]:
        """Return the extras that another installation provides, or that this machine has no wheels for."""
        if "ros" not in self.extras:
            return set()
        machine = f"{platform.system()} on {platform.machine()}"
        if has_rclpy():
            return {"ros"}
        if machine != "Linux on x86_64":
            print(
                f"make: ROS 2 comes as wheels for Linux on x86_64 only and this is {machine}: going on without it; "
                "for nodes and topics source a system ROS 2 first (source /opt/ros/jazzy/setup.sh).",
                file=sys.stderr,
            )
            return {"ros"}
        return set()

    def pip(self, *arguments: str) -> None:
        """Run the environment's pip install; what it says appears only when it fails.

        Nothing is compiled to bytecode ahead: most of it is never imported, the rest is at first use.
        """
        command = [str(self.python), "-m", "pip", "--disable-pip-version-check", "install", "--no-compile"]
        run([*command, *arguments], "pip")

    def read(self, stamp: str) -> str:
        """Return a stamp's text, empty where it is missing."""
        path = self.stamps / stamp
        return path.read_text() if path.is_file() else ""

    def done(self, stamp: str, state: str) -> bool:
        """Return whether ``stamp`` says ``state``."""
        return bool(state) and self.read(stamp) == state

    def write(self, stamp: str, state: str) -> None:
        """Let ``stamp`` say ``state``."""
        (self.stamps / stamp).write_text(state)


class step:
    """Say what is being done, and how long it took."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        self.start = time.monotonic()
        print(f"{self.what} ...", end=" ", flush=True)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        print("failed" if kind else f"{time.monotonic() - self.start:.0f} s", flush=True)


class packaged:
    """A copy of what the package is made of: building there leaves nothing in the checkout, and takes nothing stale."""

    def __enter__(self) -> str:
        self.folder = tempfile.TemporaryDirectory(prefix="rlstack-")
        for name in PACKAGE:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, Path(self.folder.name) / name, ignore=NOT_PACKAGED)
            elif (ROOT / name).is_file():
                shutil.copy2(ROOT / name, self.folder.name)
        return self.folder.name

    def __exit__(self, *_: object) -> None:
        self.folder.cleanup()


def pins() -> list[str]:
    """Return the lines of the constraints file."""
    return PINS.read_text().splitlines()


def digest(files: list[Path]) -> str:
    """Return a hash of the names and contents of ``files``."""
    total = hashlib.sha256()
    for path in files:
        total.update(f"{path.relative_to(ROOT)} {path.stat().st_mode & 0o111} {path.stat().st_size}\n".encode())
        total.update(path.read_bytes())
    return total.hexdigest()


def digest_of_package() -> str:
    """Return a hash of everything that ``packaged`` copies."""
    files: list[Path] = []
    for name in PACKAGE:
        if (ROOT / name).is_file():
            files.append(ROOT / name)
        for folder, folders, names in os.walk(ROOT / name):
            left_out = NOT_PACKAGED(folder, folders + names)
            folders[:] = sorted(set(folders) - left_out)
            files += [Path(folder) / n for n in sorted(names) if n not in left_out]
    return digest(files)


def version_of(python: str | Path) -> str:
    """Return such as ``Python 3.11.7``, empty if it does not run."""
    try:
        done = subprocess.run([python, "-V"], capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def has_rclpy() -> bool:
    """Return whether a system ROS 2 is at hand: its rclpy is on PYTHONPATH once its setup file is sourced."""
    paths = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    return any((Path(path) / "rclpy" / "__init__.py").is_file() for path in paths)


def run(command: list[str], what: str) -> None:
    """Run a command silently; raise SetupError with the lines that matter when it fails."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode != 0:
        lines = [line for line in done.stdout.splitlines() if not line.startswith(("WARNING", "Looking in", "["))]
        raise SetupError(f"{what} failed:\n  " + "\n  ".join(lines[-25:]))


if __name__ == "__main__":
    sys.exit(main())
