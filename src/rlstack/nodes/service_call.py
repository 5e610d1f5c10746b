"""One call of a service, which is sent again while no answer comes."""

from __future__ import annotations

import time
from typing import Any

_REPEATED_S = 0.5
"""Time after which an unanswered request is sent again: all of them may come twice."""


class ServiceCall:
    """A call of a service, sent as soon as the service is there, and again while no answer comes.

    Args:
        client: The service's client.
        request: The request.
    """

    def __init__(self, client: Any, request: Any) -> None:
        self._client, self._request = client, request
        self._sent: list[Any] = []
        self._sent_at = 0.0

    def poll(self) -> bool:
        """Send the request if it is due; return whether there is an answer."""
        now = time.monotonic()
        if (not self._sent or now - self._sent_at > _REPEATED_S) and self._client.service_is_ready():
            self._sent.append(self._client.call_async(self._request))
            self._sent_at = now
        return self.response is not None

    @property
    def response(self) -> Any:
        """The answer; None until there is one."""
        return next((future.result() for future in self._sent if future.done()), None)
