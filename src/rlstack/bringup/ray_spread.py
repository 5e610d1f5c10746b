"""Trials and margins of a verification on a Ray cluster; the same figures as in processes of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rlstack.errors import UserError
from rlstack.ray_cluster import connected

_WAIT_S = 0.5
"""Between two looks for Ctrl-C."""
_RETRIES = 3
"""How often a call is repeated whose machine was lost."""


class RaySpread:
    """Tasks of a Ray cluster; see :class:`rlstack.verification.parallel.Spread`.

    Args:
        ray: Ray, connected.
    """

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self.count = max(1, int(ray.cluster_resources().get("CPU", 1)))

    def each(self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
        """Yield the number and the result of each call as it is done.

        Raises:
            UserError: One is refused, or is lost again and again.
        """
        task = self._ray.remote(num_cpus=1, max_retries=_RETRIES)(_told)
        waiting = {task.remote(function, call): number for number, call in enumerate(calls)}
        while waiting:
            done, _ = self._ray.wait(list(waiting), timeout=_WAIT_S)
            for ref in done:
                number = waiting.pop(ref)
                try:
                    refused, found = self._ray.get(ref)
                except self._ray.exceptions.RayError as error:
                    said = str(error).strip().splitlines()
                    raise UserError(
                        f"--ray: a part of the verification was lost: {said[-1] if said else error}"
                    ) from error
                if refused:
                    raise UserError(found)
                yield number, found


@contextmanager
def spread_over(address: str) -> Iterator[RaySpread | None]:
    """Yield what spreads calls over a Ray cluster; None if there is no address.

    Raises:
        UserError: See :func:`rlstack.ray_cluster.connected`.
    """
    if not address:
        yield None
        return
    ray = connected(address, 1)
    try:
        yield RaySpread(ray)
    finally:
        ray.shutdown()


def _told(function: Callable[..., Any], call: tuple[Any, ...]) -> tuple[bool, Any]:
    """Return whether a call is refused, and its result or the reason."""
    try:
        return False, function(*call)
    except UserError as error:
        return True, str(error)
