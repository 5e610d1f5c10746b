"""A call of a library that may take longer than its caller can wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from rlstack.hardware.serial_port import LinkLost


class Attempt:
    """A call on a thread of its own: libfranka waits up to 60 s for an answer that does not come.

    Args:
        call: The call.
    """

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._found: Any = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="rlstack franka call", daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        """Whether it has returned or raised."""
        return not self._thread.is_alive()

    def result(self, timeout_s: float) -> Any:
        """Return what the call returned.

        Raises:
            LinkLost: It takes longer than ``timeout_s``; it may be asked again.
            Exception: What it raised.
        """
        self._thread.join(timeout_s)
        if not self.done:
            raise LinkLost(f"no answer within {timeout_s:g} s")
        if self._error is not None:
            raise self._error
        return self._found

    def _run(self) -> None:
        try:
            self._found = self._call()
        except Exception as error:  # told by result()
            self._error = error
