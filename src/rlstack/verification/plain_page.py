"""Self-contained pages that share a style sheet: a title, texts, tables and plots; the verification's own has more."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlstack.errors import UserError
from rlstack.files import write_atomically
from rlstack.verification.drawing import Sketch, draw_plots


def write_plain_page(path: Path, template: Path, sketches: Sequence[Sketch], **values: Any) -> None:
    """Write a page.

    Args:
        path: The page.
        template: Extends ``plain_page.html.jinja``, beside this file, with a block ``content``.
        sketches: Its plots, in the template ``plots``, each with ``title``, ``caption`` and ``data`` (PNG, base64).
        values: The rest that the template names, among it ``title``.

    Raises:
        UserError: Jinja2 or matplotlib is missing, or the page cannot be written.
    """
    try:
        import jinja2
    except ImportError as error:
        raise UserError("The report needs Jinja2, which is not installed: pip install 'rlstack[view]'.") from error
    plots = [
        {"title": plot.title, "caption": plot.caption, "data": base64.b64encode(plot.png).decode()}
        for plot in draw_plots(sketches)
    ]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([template.parent, Path(__file__).parent]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    page = environment.get_template(template.name).render(plots=plots, **values)
    write_atomically(path, page, what="the report")
