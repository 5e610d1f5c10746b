"""Self-contained HTML pages of one look: their templates share a style sheet, ``style.css.jinja`` beside this file."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rlstack.errors import UserError


def rendered(
    template: Path, filters: Mapping[str, Callable[..., Any]] | None = None, hint: str = "", **values: Any
) -> str:
    """Return a page; all values are escaped, unless a template says that they are safe.

    Args:
        template: Its file, which may include and extend those beside this module.
        filters: Filters of the template by name, beside ``base64`` of bytes and ``scripted``, a value in a script.
        hint: What else to do without Jinja2, the end of a sentence.
        values: What the template names.

    Raises:
        UserError: Jinja2 is missing.
    """
    try:
        import jinja2
    except ImportError as error:
        raise UserError(
            f"The report needs Jinja2, which is not installed: pip install 'rlstack[view]'{hint}."
        ) from error
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([template.parent, Path(__file__).parent]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    environment.filters |= {"base64": _base64, "scripted": _scripted, **(filters or {})}
    return environment.get_template(template.name).render(values)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _scripted(value: Any) -> str:
    """Return a value as a JavaScript literal that can stand in a script element, whatever tags it has."""
    return json.dumps(value).replace("<", "\\u003c")
