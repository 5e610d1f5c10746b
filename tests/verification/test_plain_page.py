"""Pages that share a style sheet."""

from __future__ import annotations

from pathlib import Path

import pytest

import rlstack
from rlstack.verification.drawing import new_figure
from rlstack.verification.plain_page import write_plain_page

SOURCES = Path(rlstack.__file__).parent
SHEET = "style.css.jinja"


def test_a_page_has_its_content_the_style_and_its_plots_and_escapes_texts(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    template = tmp_path / "mine.jinja"
    template.write_text(
        '{% extends "plain_page.html.jinja" %}{% block content %}<p>{{ said }}</p>'
        '{% for plot in plots %}<img src="data:image/png;base64,{{ plot.png | base64 }}">{% endfor %}{% endblock %}'
    )
    sketch = ("one", "One", "A plot.", lambda: new_figure(2.0, 1.0))
    write_plain_page(tmp_path / "page.html", template, [sketch], title="Two < three", said="<script>")
    page = (tmp_path / "page.html").read_text()
    assert page.startswith("<!doctype html>") and page.rstrip().endswith("</html>")
    assert page.count("<style>") == 1 and "<h1>Two &lt; three</h1>" in page and "<p>&lt;script&gt;</p>" in page
    assert "base64,iVBOR" in page


def test_the_style_sheet_is_in_one_place() -> None:
    templates = {path: path.read_text() for path in SOURCES.rglob("*.jinja")}
    assert len(templates) >= 7 and [path.name for path, text in templates.items() if ":root {" in text] == [SHEET]
    for path, text in templates.items():
        if path.name == "page.html.jinja":
            plain = text.startswith('{% extends "plain_page.html.jinja" %}')
            assert ("<style>" not in text) if plain else (f'<style>\n{{% include "{SHEET}" %}}\n' in text), path
