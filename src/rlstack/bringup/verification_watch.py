"""How a verification is watched: lines in the terminal, and a page in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from rlstack.bringup.progress_lines import ProgressLines
from rlstack.verification.schedule import Progress


@contextmanager
def watched(view: bool) -> Iterator[dict[str, Any]]:
    """Yield the arguments of :func:`rlstack.bringup.verify.verify` that have it watched.

    Args:
        view: Also on a page, whose address is printed.

    Raises:
        UserError: The browser view is not installed.
    """
    lines = ProgressLines()
    with ExitStack() as stack:
        stack.callback(lines.end)
        if not view:
            yield {"on_progress": lines}
            return
        from rlstack.verification.verification_view import VerificationView

        page = stack.enter_context(VerificationView())
        print(f"Open {page.url} in a browser to see the verification.", flush=True)

        def show(progress: Progress) -> None:
            lines(progress)
            page.progress(progress)

        yield {"on_progress": show, "on_column": page.column}
