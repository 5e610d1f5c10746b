"""Make the package tf2_msgs, the message of ``/tf``, where ROS 2 comes as wheels: among those it is missing.

``python -m rlstack.interfaces.tf2_messages`` generates it with ROS's own rosidl, compiles it and puts it beside the
other messages of the environment; ``--remove`` takes it away again, and so does `pip uninstall rlstack-tf2-msgs`.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import csv
import hashlib
import importlib
import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rlstack.errors import UserError

PACKAGE = "tf2_msgs"
TYPE_HASH = "RIHS01_e369d0f05a23ae52508854b66f6aa0437f3449d652e8cbf22d5abe85d020f087"
"""Of the released tf2_msgs/msg/TFMessage (`ros2 topic info -v /tf` on Jazzy): by this, others know the type."""

COMMAND = "python -m rlstack.interfaces.tf2_messages"

_MESSAGE = "geometry_msgs/TransformStamped[] transforms\n"
_INTERFACE = """#include "geometry_msgs/msg/TransformStamped.idl"

module tf2_msgs {
  module msg {
    struct TFMessage {
      sequence<geometry_msgs::msg::TransformStamped> transforms;
    };
  };
};
"""
_MANIFEST = """<?xml version="1.0"?>
<package format="3">
  <name>tf2_msgs</name>
  <version>1.0.0</version>
  <description>The message of /tf, generated on this machine by rlstack</description>
  <maintainer email="rlstack@example.org">The rlstack developers</maintainer>
  <license>Apache-2.0</license>
  <depend>geometry_msgs</depend>
  <member_of_group>rosidl_interface_packages</member_of_group>
</package>
"""
_METADATA = """Metadata-Version: 2.1
Name: rlstack-tf2-msgs
Version: 1.0.0
Summary: ROS 2's tf2_msgs/msg/TFMessage, generated on this machine by rlstack
"""
_INFORMATION = "rlstack_tf2_msgs-1.0.0.dist-info"
_NEEDED = ("geometry_msgs", "std_msgs", "builtin_interfaces")

# Each generator, the module and class that ROS's `rosidl generate` finds through entry points, which the wheels double.
_DESCRIBER = "rosidl_generator_type_description.cli"
_GENERATORS = {
    "c": ("rosidl_generator_c.cli", "GenerateC"),
    "py": ("rosidl_generator_py.cli", "GeneratePython"),
    "typesupport_c": ("rosidl_typesupport_c.cli", "GenerateCTypesupport"),
    "typesupport_fastrtps_c": ("rosidl_typesupport_fastrtps_c.cli", "GenerateFastRTPSCTypesupport"),
    "typesupport_introspection_c": ("rosidl_typesupport_introspection_c.cli", "GenerateIntrospectionCTypesupport"),
}
# Libraries in the order in which they need each other; the last one is what Python imports. It needs all the others, so
# that they are loaded, each from beside it, when ROS asks for them by name.
_LIBRARIES = {
    "lib{0}__rosidl_generator_c.so": ("c", "rosidl_generator_c"),
    "lib{0}__rosidl_typesupport_fastrtps_c.so": ("typesupport_fastrtps_c", "rosidl_typesupport_fastrtps_c"),
    "lib{0}__rosidl_typesupport_introspection_c.so": (
        "typesupport_introspection_c",
        "rosidl_typesupport_introspection_c",
    ),
    "lib{0}__rosidl_typesupport_c.so": ("typesupport_c", "rosidl_typesupport_c"),
    "lib{0}__rosidl_generator_py.so": ("py", "rosidl_generator_py"),
    "{0}_s__rosidl_typesupport_c.so": ("entry", "rosidl_typesupport_c"),
}
_RUNTIME = (
    "rosidl_runtime_c",
    "rosidl_typesupport_c",
    "rosidl_typesupport_introspection_c",
    "rosidl_typesupport_fastrtps_c",
    "rosidl_typesupport_fastrtps_cpp",
    "fastcdr",
    "rmw",
    "rcutils",
)


def is_installed() -> bool:
    """Return whether ``tf2_msgs`` can be imported, from wherever it comes."""
    return importlib.util.find_spec(PACKAGE) is not None


def is_ours() -> bool:
    """Return whether this Python's environment has a ``tf2_msgs`` that :func:`generate` has made."""
    return (site_packages(Path(sys.prefix)) / _INFORMATION).is_dir()


def site_packages(prefix: Path) -> Path:
    """Return the folder under ``prefix`` that this Python imports compiled packages from."""
    base = {"base": str(prefix), "platbase": str(prefix)}
    return Path(sysconfig.get_path("platlib", vars=base))


def generate(prefix: str | Path | None = None) -> Path:
    """Generate, compile and install ``tf2_msgs``; one that is there from before is replaced as a whole.

    Args:
        prefix: Where to: an environment's folder; None takes this Python's environment.

    Returns:
        The folder of the Python package.

    Raises:
        UserError: There is no compiler, no Python header, no rosidl, or the folder cannot be written; what to do.
    """
    root = Path(sys.prefix if prefix is None else prefix)
    compilers = _compilers()
    ros = _ros_prefix()
    try:
        root.mkdir(parents=True, exist_ok=True)
        # on the same file system as where it goes, so that it gets there by renaming
        with tempfile.TemporaryDirectory(prefix=".tf2_msgs-", dir=root) as folder:
            work = Path(folder)
            package = work / PACKAGE
            description = _sources(work, ros)
            _compile(work, ros, compilers, package)
            _collect(work, package)
            return _install(root, package, description)
    except OSError as error:
        raise UserError(
            f"Cannot install {PACKAGE} in {root}: {error.strerror}. Use an environment of your own:"
            " python -m venv .venv, or `make setup`."
        ) from error


def remove(prefix: str | Path | None = None) -> bool:
    """Delete what :func:`generate` has installed; return whether there was anything."""
    folder = site_packages(Path(sys.prefix if prefix is None else prefix))
    record = folder / _INFORMATION / "RECORD"
    if not record.is_file():
        return False
    with record.open(newline="") as file:
        paths = [folder / row[0] for row in csv.reader(file)]
    for path in paths:
        path.unlink(missing_ok=True)
    shutil.rmtree(folder / PACKAGE, ignore_errors=True)  # with what Python has compiled there
    for parent in sorted({path.parent for path in paths}, key=lambda p: -len(p.parts)):
        with contextlib.suppress(OSError):  # others have files there
            parent.rmdir()
    return True


def _compilers() -> tuple[list[str], list[str]]:
    """Return the commands that compile C and C++."""
    found = []
    for variable, names in (("CC", ("cc", "gcc", "clang")), ("CXX", ("c++", "g++", "clang++"))):
        given = shlex.split(os.environ.get(variable, ""))
        if given and shutil.which(given[0]):
            found.append(given)
            continue
        name = next((name for name in names if shutil.which(name)), None)
        if name is None:
            raise UserError(
                "There is no compiler to make tf2_msgs with, so /tf is left out: run"
                f" `sudo apt install g++ {_headers_package()}`, then `{COMMAND}`."
            )
        found.append([name])
    if not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        raise UserError(
            "Python's headers, which making tf2_msgs needs, are missing, so /tf is left out: run"
            f" `sudo apt install {_headers_package()}`, then `{COMMAND}`."
        )
    return found[0], found[1]


def _headers_package() -> str:
    return f"python{sys.version_info.major}.{sys.version_info.minor}-dev"


def _ros_prefix() -> Path:
    """Return the folder that holds ROS's headers, libraries and interface files."""
    places = [Path(sys.prefix), *map(Path, filter(None, os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)))]
    modules = [_DESCRIBER, *(module for module, _ in _GENERATORS.values())]
    if all(importlib.util.find_spec(module.partition(".")[0]) for module in modules):
        for place in places:
            if all((place / "share" / name).is_dir() for name in (*_NEEDED, "rosidl_runtime_c")):
                return place
    raise UserError(
        "ROS 2's rosidl, which makes tf2_msgs, is not in this Python's environment, so /tf is left out: pip install"
        " 'rlstack[ros]' into a virtual environment, or take tf2_msgs from a system ROS 2"
        " (sudo apt install ros-jazzy-tf2-msgs)."
    )


def _sources(work: Path, ros: Path) -> Path:
    """Let rosidl write the sources, each generator's into a folder of its own; return the type's description."""
    interface = work / "interface" / "msg" / "TFMessage.idl"
    interface.parent.mkdir(parents=True)
    interface.write_text(_INTERFACE)
    interface.with_suffix(".msg").write_text(_MESSAGE)
    files = [f"{work / 'interface'}:msg/TFMessage.idl"]
    folders = [str(ros / "share" / name) for name in _NEEDED]
    with _ament_prefix(ros):
        describer = importlib.import_module(_DESCRIBER).HashTypeDescription("hash")
        described = describer.generate_type_hashes(PACKAGE, files, folders, work / "description" / PACKAGE)
        description = Path(str(described[0]))
        made = json.loads(description.read_text())["type_hashes"][0]["hash_string"]
        if made != TYPE_HASH:
            raise UserError(
                f"This ROS describes tf2_msgs/msg/TFMessage otherwise than Jazzy does ({made}), so /tf is left out:"
                " install the ROS packages that constraints.txt pins."
            )
        for name, (module, kind) in _GENERATORS.items():
            options: dict[str, object] = {}
            if name == "c":
                options["type_description_files"] = [str(description)]
            generator = getattr(importlib.import_module(module), kind)
            if name in ("py", "typesupport_c"):
                kinds = ["rosidl_typesupport_fastrtps_c", "rosidl_typesupport_introspection_c"]
                kinds = ["rosidl_typesupport_c"] if name == "py" else kinds
                made_by = generator(name, typesupport_implementations=kinds)
            else:
                made_by = generator(name)
            made_by.generate(PACKAGE, files, folders, output_path=work / name / PACKAGE, **options)
    return description


@contextlib.contextmanager
def _ament_prefix(ros: Path) -> Iterator[None]:
    """Let ament's index find ``ros`` meanwhile."""
    before = os.environ.get("AMENT_PREFIX_PATH")
    os.environ["AMENT_PREFIX_PATH"] = os.pathsep.join(filter(None, [str(ros), before]))
    try:
        yield
    finally:
        if before is None:
            del os.environ["AMENT_PREFIX_PATH"]
        else:
            os.environ["AMENT_PREFIX_PATH"] = before


def _compile(work: Path, ros: Path, compilers: tuple[list[str], list[str]], package: Path) -> None:
    """Compile all sources side by side, then link the libraries into ``package``."""
    import numpy

    package.mkdir()
    entry = work / "entry" / PACKAGE
    entry.mkdir(parents=True)
    for source in (work / "py" / PACKAGE).glob("*.c"):  # the module that Python imports; beside it, the conversions
        shutil.move(source, entry)
    folders = [sysconfig.get_path("include"), numpy.get_include()]
    folders += [str(path) for path in (ros / "include").glob("*") if (path / path.name).is_dir()]
    folders.append(str(ros / "include"))

    jobs: dict[Path, tuple[str, ...]] = {}
    for part, _ in _LIBRARIES.values():
        for source in sorted((work / part).rglob("*.c*")):
            cpp = source.suffix == ".cpp"
            # what generators give the same name differs: a part's own headers first
            own = [part, "c", "typesupport_fastrtps_c", "typesupport_introspection_c"]
            jobs[source.with_suffix(source.suffix + ".o")] = (
                *(compilers[1] if cpp else compilers[0]),
                *("-c", "-O2", "-fPIC", "-w", "-std=c++17" if cpp else "-std=gnu11"),
                *(f"-I{work / name}" for name in own),
                *(f"-I{folder}" for folder in folders),
                str(source),
            )
    with ThreadPoolExecutor(max(2, min(8, os.cpu_count() or 1))) as pool:
        list(pool.map(lambda job: _run([*job[1], "-o", str(job[0])]), jobs.items()))

    libraries = ros / "lib"
    found_through = f"-Wl,-rpath,$ORIGIN:{libraries}"
    linked: list[str] = []
    for pattern, (part, support) in _LIBRARIES.items():
        name = pattern.format(PACKAGE)
        others = [f"{needed}__{support}" for needed in _NEEDED] + list(_RUNTIME)
        present = [f"-l{other}" for other in others if (libraries / f"lib{other}.so").exists()]
        objects = [str(path) for path in jobs if path.is_relative_to(work / part)]
        command = [*compilers[1], "-shared", "-o", str(package / name), f"-Wl,-soname,{name}", found_through, *objects]
        command += [f"-L{package}", f"-L{libraries}", "-Wl,--no-as-needed", *linked, "-Wl,--as-needed", *present]
        _run(command)
        linked.append(f"-l:{name}")


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired as error:
        raise UserError(f"Making tf2_msgs failed: {command[0]} did not end within 300 s.") from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
        raise UserError(f"Making tf2_msgs failed, so /tf is left out: {command[0]} says: {(lines or ['nothing'])[0]}")


def _collect(work: Path, package: Path) -> None:
    """Add the Python modules to the compiled package."""
    (package / "__init__.py").touch()
    (package / "msg").mkdir()
    for path in (work / "py" / PACKAGE / "msg").glob("*.py"):
        shutil.copy(path, package / "msg")


def _install(root: Path, package: Path, description: Path) -> Path:
    """Move everything to its place, the package last: it is there as a whole or not at all."""
    site = site_packages(root)
    share = root / "share" / PACKAGE
    index = root / "share" / "ament_index" / "resource_index"
    interface = package.parent / "interface" / "msg"
    texts = {
        share / "package.xml": _MANIFEST,
        share / "msg" / "TFMessage.msg": (interface / "TFMessage.msg").read_text(),
        share / "msg" / "TFMessage.idl": (interface / "TFMessage.idl").read_text(),
        share / "msg" / "TFMessage.json": description.read_text(),
        index / "packages" / PACKAGE: "",
        index / "rosidl_interfaces" / PACKAGE: "msg/TFMessage.idl\nmsg/TFMessage.msg",
        site / _INFORMATION / "METADATA": _METADATA,
        site / _INFORMATION / "INSTALLER": "rlstack\n",
    }
    rows = [[os.path.relpath(path, site), *_checked(text.encode())] for path, text in texts.items()]
    for path in sorted(package.rglob("*")):
        if path.is_file():
            rows.append([str(Path(PACKAGE) / path.relative_to(package)), *_checked(path.read_bytes())])
    rows.append([f"{_INFORMATION}/RECORD", "", ""])
    texts[site / _INFORMATION / "RECORD"] = "".join(",".join(row) + "\n" for row in rows)
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = package.parent / "draft"
        draft.write_text(text)
        os.replace(draft, path)
    target = site / PACKAGE
    if target.exists():
        os.rename(target, package.parent / "before")  # removed with the rest of the work
    os.rename(package, target)
    importlib.invalidate_caches()
    return target


def _checked(data: bytes) -> list[str]:
    """Return hash and size as a RECORD states them."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return [f"sha256={digest}", str(len(data))]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0 where tf2_msgs is at hand afterwards, 2 where it could not be made."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--prefix", help="an environment's folder to install it in, instead of this Python's")
    parser.add_argument("--again", action="store_true", help="make it anew if the one there was made by this command")
    parser.add_argument("--remove", action="store_true", help="take away what this command has installed")
    options = parser.parse_args(arguments)
    if options.remove:
        print("tf2_msgs is removed." if remove(options.prefix) else "There is no tf2_msgs that rlstack has made.")
        return 0
    if is_installed() and options.prefix is None and not (options.again and is_ours()):
        print("tf2_msgs is there.")
        return 0
    try:
        print(f"tf2_msgs is in {generate(options.prefix)}")
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
