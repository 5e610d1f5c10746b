"""Write and load policy files, with the same checks."""

from __future__ import annotations

import hashlib
from pathlib import Path

import onnx

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.files import write_atomically
from rlstack.policies.contract import Contract
from rlstack.policies.dry_run import dry_run, input_shapes
from rlstack.policies.family_contract import bind, check_family
from rlstack.policies.graph_checks import check_graph, check_model, clean
from rlstack.policies.graph_sizes import check_sizes
from rlstack.policies.inference import Policy, open_session
from rlstack.policies.limits import hint, limits
from rlstack.policies.released import find_policy
from rlstack.policies.robot_contract import check_contract, check_robot
from rlstack.policies.serialization import EXPORT_AGAIN, contract_from, pack, unpack
from rlstack.robots import RobotSpec, load_robot

_TRIED_WITH = "crazyflie"
"""Default robot to dry-run a family's policy with."""


def write_policy(model: onnx.ModelProto, contract: Contract, path: str | Path) -> Contract:
    """Write one policy file atomically, after the checks of :func:`load_policy`.

    The file holds a cleaned copy of the graph: local functions inlined, and the exporter's notes (source lines,
    paths) removed.

    Args:
        model: Inputs and outputs are float32 tensors (batch, \\*shape) named as in the contract; a state ``x`` is the
            input ``state.x`` and the output ``next_state.x``.
        contract: For example from :func:`contract_for`; its ``sha256`` is ignored.
        path: Replaced if it exists.

    Returns:
        The contract as written, with its hash.

    Raises:
        UserError: The model or contract would be refused by :func:`load_policy`, or the file cannot be written.
    """
    path = Path(path)
    if path.is_dir():
        raise UserError(f"Cannot write the policy {path}: it is a folder. Give the name of a file in it.")
    data, sealed = pack(clean(model, str(path)), contract)
    _open(data, path, None, limits().file_bytes)
    write_atomically(path, data, what="the policy", make_folder=False)
    return sealed


def load_policy(path: str | Path, *, robot: RobotSpec | None = None, sha256: str = "", max_bytes: int = 0) -> Policy:
    """Load and check a policy file from any source; it is read once, and what is hashed is what is run.

    Args:
        path: The file, or the name of a released policy.
        robot: If given, the policy must be for this robot, its rotors, joints and lidar, and within its limits. A
            policy for a family is bound to this robot: it then has its rotors and limits, and only inputs from
            topics. Without a robot such a policy can be shown, but not stepped.
        sha256: If given, the file's bytes must have this SHA-256, such as that of the file that was verified.
        max_bytes: Larger files are refused without reading them; 0: the limit of :mod:`rlstack.policies.limits`.

    Raises:
        UserError: The file is refused; the message says why and how to fix it.
    """
    path = find_policy(path)
    max_bytes = max_bytes or limits().file_bytes
    data = _read(path, max_bytes)
    found = hashlib.sha256(data).hexdigest()
    if sha256 and found != sha256:
        raise UserError(
            f"The policy file {path} is not the one that was checked: its SHA-256 is {found[:16]}..., and that of the"
            f" checked file {sha256[:16]}...: it was replaced since. Start again, which checks the present file."
        )
    return _open(data, path, robot, max_bytes)


def _open(data: bytes, path: Path, robot: RobotSpec | None, max_bytes: int) -> Policy:
    where, digest = str(path), hashlib.sha256(data).hexdigest()
    if len(data) > max_bytes:
        _refuse_size(where, len(data), max_bytes)
    package = unpack(data, where)
    try:
        contract = contract_from(package.data, where)
        check_contract(contract, where)
        check_family(contract, where)
        check_graph(package.model, contract, where)
    except UserError as error:
        if package.intact:
            raise
        raise UserError(f"{error} (The file was also changed after it was written: its hash is wrong.)") from error
    if not package.intact:
        raise UserError(
            f"{where} was changed or damaged after it was written: the hash in its contract is not that of its content."
            f" Copy it again from where it was made. {EXPORT_AGAIN}"
        )
    tried = contract
    constants: dict[str, Array] = {}
    if contract.needs_robot:
        tried, constants = bind(contract, robot or load_robot(_TRIED_WITH), where)
    elif robot is not None:
        check_robot(contract, robot, where)
    check_model(package.model, where)
    check_sizes(package.model, input_shapes(tried, constants), where)
    session = open_session(data, where)
    dry_run(session, tried, where, constants)
    if contract.needs_robot and robot is None:
        return Policy(contract, session, path, sha256=digest)
    return Policy(tried, session, path, constants, digest)


def _read(path: Path, max_bytes: int) -> bytes:
    try:
        if path.is_dir():
            raise UserError(f"Cannot read the policy {path}: it is a folder. Give the file in it, such as policy.onnx.")
        if not path.exists():
            raise UserError(f"The policy {path} does not exist. Train one with `rlstack train`, or check the path.")
        if not path.is_file():
            raise UserError(f"Cannot read the policy {path}: it is not a regular file. Give the path of an .onnx file.")
        size = path.stat().st_size
        if size > max_bytes:
            _refuse_size(str(path), size, max_bytes)
        with path.open("rb") as file:
            return file.read(max_bytes + 1)
    except OSError as error:
        raise UserError(f"Cannot read the policy {path}: {error.strerror}. Check its path and permissions.") from error


def _refuse_size(where: str, size: int, max_bytes: int) -> None:
    raise UserError(
        f"{where} has {size / 2**20:.1f} MiB, more than the limit of {max_bytes / 2**20:g} MiB for a policy."
        f" Check that it is the right file, or raise max_bytes.{hint()}"
    )
