"""Resolve the model files and meshes that robot files and URDFs refer to."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from rlstack.errors import UserError

_BRINGS = {"pybullet_data": "pybullet"}
"""The distribution that provides a package, if its name differs."""


def resolve(reference: str, robot: str) -> Path:
    """Return the path of a robot file's ``model``.

    Args:
        reference: A path; ``package:NAME/...`` of an installed Python package; ``package://NAME/...`` of a ROS package.
        robot: The robot's name, for errors.

    Raises:
        UserError: The package is not installed, or there is no such file.
    """
    if reference.startswith("package://"):
        name, _, rest = reference.removeprefix("package://").partition("/")
        share = _ros_share(name)
        if share is None:
            raise UserError(
                f"The model of {robot} is {reference}, and no ROS package '{name}' is found: install it, and source the"
                " workspace that it is in."
            )
        path = share / rest
    elif reference.startswith("package:"):
        name, _, rest = reference.removeprefix("package:").partition("/")
        folders = _python_folders(name)
        if not folders:
            raise UserError(
                f"The model of {robot} is {reference}, and the Python package '{name}' is not installed:"
                f" `pip install {_BRINGS.get(name, name)}`."
            )
        path = next((f / rest for f in folders if (f / rest).is_file()), folders[0] / rest)
    else:
        path = Path(reference)
    if not path.is_file():
        raise UserError(f"The model of {robot} is not there: {path} is not a file.")
    return path


def find_mesh(uri: str, model: Path) -> Path:
    """Return the file of a mesh in the model file ``model``.

    ``package://NAME/...`` is searched for in the ROS package, then beside the model and in the folders above it, with
    and without ``NAME``, as descriptions are often used outside their package.

    Raises:
        UserError: It is not found.
    """
    if uri.startswith("package://"):
        rest = uri.removeprefix("package://")
        name, _, inner = rest.partition("/")
        share = _ros_share(name)
        candidates = [share / inner] if share is not None else []
        above = model.absolute().parents
        candidates += [folder / part for folder in above for part in (rest, inner) if part]
    else:
        candidates = [model.absolute().parent / uri.removeprefix("file://").removeprefix("model://")]
    for path in candidates:
        if path.is_file():
            return path
    raise UserError(f"{model}: the mesh {uri} is not found beside it, nor in a ROS package.")


def _python_folders(name: str) -> Sequence[Path]:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return []
    return [Path(p) for p in spec.submodule_search_locations or []] if spec is not None else []


def _ros_share(name: str) -> Path | None:
    try:
        from ament_index_python.packages import PackageNotFoundError, get_package_share_directory
    except ImportError:
        return None
    try:
        return Path(get_package_share_directory(name))
    except (PackageNotFoundError, ValueError, OSError):  # OSError: no workspace is sourced
        return None
