"""Build ROS interface packages that the ROS 2 wheels lack, with rosidl and a C++ compiler.

One package has one interface. It is installed beside the environment's other messages and registered with `pip`, under
the name of its :class:`Package`.
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
from dataclasses import dataclass
from pathlib import Path

from rlstack.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Package:
    """A package to build.

    Args:
        name: Name of the ROS package.
        interface: Its one interface, such as ``msg/TFMessage`` or ``action/NavigateToPose``.
        text: The interface definition: the content of the ``.msg`` or ``.action`` file.
        idl: The same as IDL, which rosidl reads.
        needed: ROS packages whose messages it uses, or rosidl's output for it.
        hash: The interface's type hash in ROS 2 Jazzy, which others match.
        left_out: What does not work without it, for error messages: ``/tf is left out``.
        command: The command that builds it.
        version: Version of the ROS release's package.
    """

    name: str
    interface: str
    text: str
    idl: str
    needed: tuple[str, ...]
    hash: str
    left_out: str
    command: str
    version: str = "1.0.0"

    @property
    def type(self) -> str:
        """Full name of the interface."""
        return f"{self.name}/{self.interface}"

    @property
    def distribution(self) -> str:
        """Its name for `pip`."""
        return f"rlstack-{self.name.replace('_', '-')}"

    @property
    def information(self) -> str:
        """The folder of its `pip` metadata."""
        return f"{self.distribution.replace('-', '_')}-{self.version}.dist-info"

    @property
    def manifest(self) -> str:
        """Its ``package.xml``."""
        return f"""<?xml version="1.0"?>
<package format="3">
  <name>{self.name}</name>
  <version>{self.version}</version>
  <description>{self.type}, generated on this machine by rlstack</description>
  <maintainer email="rlstack@example.org">The rlstack developers</maintainer>
  <license>Apache-2.0</license>
  <depend>{self.needed[0]}</depend>
  <member_of_group>rosidl_interface_packages</member_of_group>
</package>
"""

    @property
    def metadata(self) -> str:
        """Its METADATA."""
        return f"""Metadata-Version: 2.1
Name: {self.distribution}
Version: {self.version}
Summary: ROS 2's {self.type}, generated on this machine by rlstack
"""

    def is_installed(self) -> bool:
        """Return whether it can be imported, from any source."""
        return importlib.util.find_spec(self.name) is not None

    def is_ours(self) -> bool:
        """Return whether this Python's environment has one that was built here."""
        return (site_packages(Path(sys.prefix)) / self.information).is_dir()


# Each generator, the module and class that ROS's `rosidl generate` finds through entry points, which the wheels double.
_DESCRIBER = "rosidl_generator_type_description.cli"
_GENERATORS = {
    "c": ("rosidl_generator_c.cli", "GenerateC"),
    "py": ("rosidl_generator_py.cli", "GeneratePython"),
    "typesupport_c": ("rosidl_typesupport_c.cli", "GenerateCTypesupport"),
    "typesupport_fastrtps_c": ("rosidl_typesupport_fastrtps_c.cli", "GenerateFastRTPSCTypesupport"),
    "typesupport_introspection_c": ("rosidl_typesupport_introspection_c.cli", "GenerateIntrospectionCTypesupport"),
}
# Libraries in dependency order; Python imports the last one. It needs all the others, so that they are loaded, each
# from the same folder, when ROS requests them by name.
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


def site_packages(prefix: Path) -> Path:
    """Return the folder under ``prefix`` that this Python imports compiled packages from."""
    base = {"base": str(prefix), "platbase": str(prefix)}
    return Path(sysconfig.get_path("platlib", vars=base))


def generate(package: Package, prefix: str | Path | None = None) -> Path:
    """Generate, compile and install a package; an existing one is replaced as a whole.

    Args:
        package: The package.
        prefix: The folder of an environment; None: this Python's environment.

    Returns:
        The folder of the Python package.

    Raises:
        UserError: There is no compiler, no Python header, no rosidl, or the folder is not writable; with the remedy.
    """
    root = Path(sys.prefix if prefix is None else prefix)
    compilers = _compilers(package)
    ros = _ros_prefix(package)
    try:
        root.mkdir(parents=True, exist_ok=True)
        # on the same file system as the destination, so that it can be moved by renaming
        with tempfile.TemporaryDirectory(prefix=f".{package.name}-", dir=root) as folder:
            work = Path(folder)
            built = work / package.name
            description = _sources(package, work, ros)
            _compile(package, work, ros, compilers, built)
            _collect(package, work, built)
            return _install(package, root, built, description)
    except OSError as error:
        raise UserError(
            f"Cannot install {package.name} in {root}: {error.strerror}. Use an environment of your own:"
            " python -m venv .venv, or `make setup`."
        ) from error


def remove(package: Package, prefix: str | Path | None = None) -> bool:
    """Delete an installation of :func:`generate`; return whether there was one."""
    folder = site_packages(Path(sys.prefix if prefix is None else prefix))
    record = folder / package.information / "RECORD"
    if not record.is_file():
        return False
    with record.open(newline="") as file:
        paths = [folder / row[0] for row in csv.reader(file)]
    for path in paths:
        path.unlink(missing_ok=True)
    shutil.rmtree(folder / package.name, ignore_errors=True)  # including Python's compiled files
    for parent in sorted({path.parent for path in paths}, key=lambda p: -len(p.parts)):
        with contextlib.suppress(OSError):  # other packages have files there
            parent.rmdir()
    return True


def _compilers(package: Package) -> tuple[list[str], list[str]]:
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
                f"There is no compiler to make {package.name} with, so {package.left_out}: run"
                f" `sudo apt install g++ {_headers_package()}`, then `{package.command}`."
            )
        found.append([name])
    if not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        raise UserError(
            f"Python's headers, which making {package.name} needs, are missing, so {package.left_out}: run"
            f" `sudo apt install {_headers_package()}`, then `{package.command}`."
        )
    return found[0], found[1]


def _headers_package() -> str:
    return f"python{sys.version_info.major}.{sys.version_info.minor}-dev"


def _ros_prefix(package: Package) -> Path:
    """Return the folder that holds ROS's headers, libraries and interface files."""
    places = [Path(sys.prefix), *map(Path, filter(None, os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)))]
    modules = [_DESCRIBER, *(module for module, _ in _GENERATORS.values())]
    if all(importlib.util.find_spec(module.partition(".")[0]) for module in modules):
        for place in places:
            if all((place / "share" / name).is_dir() for name in (*package.needed, "rosidl_runtime_c")):
                return place
    raise UserError(
        f"ROS 2's rosidl, which makes {package.name}, is not in this Python's environment, so {package.left_out}: pip"
        f" install 'rlstack[ros]' into a virtual environment, or take {package.name} from a system ROS 2"
        f" (sudo apt install ros-jazzy-{package.name.replace('_', '-')})."
    )


def _sources(package: Package, work: Path, ros: Path) -> Path:
    """Generate the sources with rosidl, each generator's in its own folder; return the type's description."""
    interface = work / "interface" / f"{package.interface}.idl"
    interface.parent.mkdir(parents=True)
    interface.write_text(package.idl)
    interface.with_suffix(f".{interface.parent.name}").write_text(package.text)
    files = [f"{work / 'interface'}:{package.interface}.idl"]
    folders = [str(ros / "share" / name) for name in package.needed]
    with _ament_prefix(ros):
        describer = importlib.import_module(_DESCRIBER).HashTypeDescription("hash")
        described = describer.generate_type_hashes(package.name, files, folders, work / "description" / package.name)
        description = Path(str(described[0]))
        made = json.loads(description.read_text())["type_hashes"][0]["hash_string"]
        if made != package.hash:
            raise UserError(
                f"This ROS defines {package.type} differently than Jazzy ({made}), so {package.left_out}:"
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
            made_by.generate(package.name, files, folders, output_path=work / name / package.name, **options)
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


def _compile(package: Package, work: Path, ros: Path, compilers: tuple[list[str], list[str]], built: Path) -> None:
    """Compile all sources side by side, then link the libraries into ``built``."""
    import numpy

    built.mkdir()
    entry = work / "entry" / package.name
    entry.mkdir(parents=True)
    for source in (work / "py" / package.name).glob(
        "*.c"
    ):  # the module that Python imports; beside it, the conversions
        shutil.move(source, entry)
    folders = [sysconfig.get_path("include"), numpy.get_include()]
    folders += [str(path) for path in (ros / "include").glob("*") if (path / path.name).is_dir()]
    folders.append(str(ros / "include"))

    jobs: dict[Path, tuple[str, ...]] = {}
    for part, _ in _LIBRARIES.values():
        for source in sorted((work / part).rglob("*.c*")):
            cpp = source.suffix == ".cpp"
            # generators use the same names for different headers: a part's own come first
            own = [part, "c", "typesupport_fastrtps_c", "typesupport_introspection_c"]
            jobs[source.with_suffix(source.suffix + ".o")] = (
                *(compilers[1] if cpp else compilers[0]),
                *("-c", "-O1", "-fPIC", "-w", "-std=c++17" if cpp else "-std=gnu11"),
                *(f"-I{work / name}" for name in own),
                *(f"-I{folder}" for folder in folders),
                str(source),
            )
    with ThreadPoolExecutor(max(2, min(8, os.cpu_count() or 1))) as pool:
        list(pool.map(lambda job: _run(package, [*job[1], "-o", str(job[0])]), jobs.items()))

    libraries = ros / "lib"
    found_through = f"-Wl,-rpath,$ORIGIN:{libraries}"
    linked: list[str] = []
    for pattern, (part, support) in _LIBRARIES.items():
        name = pattern.format(package.name)
        others = [f"{needed}__{support}" for needed in package.needed] + list(_RUNTIME)
        present = [f"-l{other}" for other in others if (libraries / f"lib{other}.so").exists()]
        objects = [str(path) for path in jobs if path.is_relative_to(work / part)]
        command = [*compilers[1], "-shared", "-o", str(built / name), f"-Wl,-soname,{name}", found_through, *objects]
        command += [f"-L{built}", f"-L{libraries}", "-Wl,--no-as-needed", *linked, "-Wl,--as-needed", *present]
        _run(package, command)
        linked.append(f"-l:{name}")


def _run(package: Package, command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired as error:
        raise UserError(f"Making {package.name} failed: {command[0]} did not end within 300 s.") from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
        reason = (lines or ["no reason"])[0]
        raise UserError(f"Making {package.name} failed, so {package.left_out}: {command[0]} gave: {reason}")


def _collect(package: Package, work: Path, built: Path) -> None:
    """Add the Python modules to the compiled package."""
    kind = package.interface.partition("/")[0]
    (built / "__init__.py").touch()
    (built / kind).mkdir()
    for path in (work / "py" / package.name / kind).glob("*.py"):
        shutil.copy(path, built / kind)


def _install(package: Package, root: Path, built: Path, description: Path) -> Path:
    """Move everything to its place, the package last, so that it is never incomplete."""
    site = site_packages(root)
    share = root / "share" / package.name
    index = root / "share" / "ament_index" / "resource_index"
    source = built.parent / "interface" / package.interface
    kind, place = source.parent.name, share / package.interface
    texts = {
        share / "package.xml": package.manifest,
        place.with_suffix(f".{kind}"): package.text,
        place.with_suffix(".idl"): package.idl,
        place.with_suffix(".json"): description.read_text(),
        index / "packages" / package.name: "",
        index / "rosidl_interfaces" / package.name: f"{package.interface}.idl\n{package.interface}.{kind}",
        site / package.information / "METADATA": package.metadata,
        site / package.information / "INSTALLER": "rlstack\n",
    }
    rows = [[os.path.relpath(path, site), *_checked(text.encode())] for path, text in texts.items()]
    for path in sorted(built.rglob("*")):
        if path.is_file():
            rows.append([str(Path(package.name) / path.relative_to(built)), *_checked(path.read_bytes())])
    rows.append([f"{package.information}/RECORD", "", ""])
    texts[site / package.information / "RECORD"] = "".join(",".join(row) + "\n" for row in rows)
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = built.parent / "draft"
        draft.write_text(text)
        os.replace(draft, path)
    target = site / package.name
    if target.exists():
        os.rename(target, built.parent / "before")  # removed with the rest of the work
    os.rename(built, target)
    importlib.invalidate_caches()
    return target


def _checked(data: bytes) -> list[str]:
    """Return hash and size in the format of a RECORD file."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return [f"sha256={digest}", str(len(data))]


def run(package: Package, description: str, arguments: Sequence[str] | None = None) -> int:
    """Run the command line that builds a package; return 0 if it exists afterwards, 2 if it could not be built."""
    parser = argparse.ArgumentParser(prog=package.command, description=description)
    parser.add_argument("--prefix", help="an environment's folder to install it in, instead of this Python's")
    parser.add_argument("--again", action="store_true", help="build it again if this command built the installed one")
    parser.add_argument("--remove", action="store_true", help="remove what this command has installed")
    options = parser.parse_args(arguments)
    name = package.name
    if options.remove:
        removed = remove(package, options.prefix)
        print(f"{name} is removed." if removed else f"There is no {name} that rlstack has built.")
        return 0
    if package.is_installed() and options.prefix is None and not (options.again and package.is_ours()):
        print(f"{name} is installed.")
        return 0
    try:
        print(f"{name} is in {generate(package, options.prefix)}")
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0
