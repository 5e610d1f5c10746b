"""A Ray cluster, of several machines or of this one, on which rlstack runs."""

from __future__ import annotations

import os
import socket
from typing import Any

from rlstack import __version__
from rlstack.errors import UserError

LOCAL = "local"
"""The address of a cluster of this machine alone, which is started, and listens on loopback."""
_ANSWER_S, _ROOM_S = 5.0, 120.0
"""Time limits, s: for the cluster's head to take a connection, and for room for a first task."""
_SILENT = "--ray: no Ray cluster answers at {}: {}. Start one with `ray start --head`, or give local."
_NICENESS = "RAY_worker_niceness"
"""Ray's setting of its workers' priority."""
_ALONE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Ray's switch of clusters over several machines: without them it listens on loopback."""


def connected(address: str, count: int) -> Any:
    """Return Ray, connected to a cluster that has this rlstack.

    Args:
        address: :data:`LOCAL`, or the cluster's, such as ``ray://head:10001`` or ``auto``.
        count: Processors that are wanted, if the cluster is this machine's.

    Raises:
        UserError: Ray is missing, or the cluster cannot be reached, has another version, or has no rlstack.
    """
    if address == LOCAL:
        os.environ.setdefault(_ALONE, "0")  # read when ray is imported
        os.environ.setdefault(_NICENESS, "0")  # beyond this process: as without Ray, whose own is 15
    try:
        import ray
    except ModuleNotFoundError as error:
        raise UserError("--ray needs ray, which is not installed: pip install 'rlstack[ray]'.") from error
    _check_address(address)
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if address == LOCAL:
        options |= {"num_cpus": max(count, os.cpu_count() or 1), "include_dashboard": False}
    try:
        ray.init(address=address, **options)
    except (ConnectionError, TimeoutError, ValueError) as error:
        raise UserError(_SILENT.format(address, str(error).splitlines()[0])) from error
    except RuntimeError as error:  # "Version mismatch: The cluster was started with: Ray: ... Python: ..."
        raise UserError(f"--ray: the cluster at {address} refuses: {' '.join(str(error).split())}") from error
    except Exception as error:  # Ray's own, of no other class, if its processes are not there in time
        ray.shutdown()
        raise UserError(
            f"--ray: Ray did not start ({_first_line(error)}): try again when the machine is less busy."
        ) from error
    try:
        _check_cluster(ray)
    except BaseException:
        ray.shutdown()
        raise
    return ray


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


def _check_address(address: str) -> None:
    """Refuse an address where nothing listens; Ray itself tries for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon:  # local, auto
        return
    try:
        socket.create_connection((host, int(port)), timeout=_ANSWER_S).close()
    except (OSError, ValueError) as error:
        raise UserError(_SILENT.format(address, error)) from error


def _check_cluster(ray: Any) -> None:
    """Refuse a cluster that cannot run a training."""
    check = ray.remote(num_cpus=1, max_retries=0)(_installed)
    try:
        found = ray.get(check.remote(), timeout=_ROOM_S)
    except ray.exceptions.GetTimeoutError as error:
        raise UserError(f"--ray: the cluster ran nothing within {_ROOM_S:.0f} s: it has no free processor.") from error
    except Exception as error:  # Ray wraps what the task raises into classes of its own
        if "rlstack" in str(error) or isinstance(error, ModuleNotFoundError):
            raise UserError(
                "--ray: the cluster's machines have no rlstack: install it in their Python, pip install"
                " 'rlstack[train,sim,sweep]'."
            ) from error
        raise UserError(f"--ray: the cluster cannot run a training: {error}") from error
    if found != __version__:
        raise UserError(f"--ray: the cluster has rlstack {found}, and this is {__version__}: install the same.")


def _installed() -> str:
    """Return the version of rlstack where this runs."""
    return __version__
