"""What the tests of demonstrations share."""

from __future__ import annotations

from tests.support.disk import no_waiting_for_the_disk

__all__ = ["no_waiting_for_the_disk"]
