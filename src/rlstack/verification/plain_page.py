"""Self-contained pages that share a style sheet: a title, texts, tables and plots; the verification's own has more."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlstack.files import write_atomically
from rlstack.verification.drawing import Sketch, draw_plots
from rlstack.verification.html_page import rendered


def write_plain_page(path: Path, template: Path, sketches: Sequence[Sketch], **values: Any) -> None:
    """Write a page.

    Args:
        path: The page.
        template: Extends ``plain_page.html.jinja``, beside this file, with a block ``content``.
        sketches: Its plots, in the template ``plots``, a list of :class:`rlstack.verification.drawing.Plot`.
        values: The rest that the template names, among it ``title``.

    Raises:
        UserError: Jinja2 or matplotlib is missing, or the page cannot be written.
    """
    page = rendered(template, plots=draw_plots(sketches), **values)
    write_atomically(path, page, what="the report")
