"""What MkDocs does not do by itself for mkdocs.yml: the pages are CommonMark, written for code hosts, too.

- Lists need no blank line before them, and what belongs to an item is indented by its text's column.
- The home page is README.md; links to files outside docs/ lead to copies of them.
- The pages of the commands and of the Python API are generated, from the commands' own help and from docstrings.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import posixpath
import re
import sys
from collections.abc import Callable
from pathlib import Path

from markdown import Markdown
from markdown.blockprocessors import build_block_parser
from markdown.extensions import Extension
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pymdownx.slugs import slugify

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import python_reference  # noqa: E402

AT_THE_TOP = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md"}
"""Pages outside docs/, and where the site has them."""

API = {
    "Policies": "policies.contract policies.envelope policies.robot_contract policies.policy_file policies.inference",
    "Robots": "robots.spec robots.frames robots.kinematics kinds.quadrotor.spec kinds.wheeled_base.spec"
    " kinds.manipulator.spec",
    "Simulation": "sim.simulation sim.engine sim.simulated_robot sim.world interfaces.backend",
    "Tasks": "tasks.core.task tasks.core.learning_environment tasks.core.observations schema",
    "Training": "training.recipe training.algorithm training.run",
    "Environments": "environments.single_environment environments.vector_environment environments.ros",
    "Data": "data.lerobot.reader data.lerobot.writer data.replay.buffer data.replay.spec",
    "Guard": "guard.guard guard.decision",
    "Errors": "errors registry",
}
"""Modules of the Python reference, by page."""

_FENCED = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
_ITEM = re.compile(r" *([-*]|\d+\.) ")


class CommonMarkIndentation(Extension):
    """Two spaces are enough for what belongs to a list's item."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Build the block parser again, for the narrower tab."""
        md.tab_length = 2
        md.parser = build_block_parser(md)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Let the narrower tab come before the extensions that add to the block parser; make code hosts' anchors."""
    config.mdx_configs["toc"]["slugify"] = slugify(case="lower")
    config.markdown_extensions.insert(0, CommonMarkIndentation())
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from the top, the generated ones, and each file that a page links to."""
    for name, target in AT_THE_TOP.items():
        files.append(File.generated(config, target, content=(ROOT / name).read_text(encoding="utf-8")))
    files.append(File.generated(config, "reference/commands.md", content=commands()))
    files.append(File.generated(config, "examples.md", content=examples()))
    for title, modules in API.items():
        content = python_reference.page(title, tuple(f"rlstack.{name}" for name in modules.split()))
        files.append(File.generated(config, f"reference/api/{title.lower()}.md", content=content))
    for page in files.documentation_pages():
        for path in {_outside(link, page) for link in _links(page.content_string)} - {None}:
            if path.is_file() and files.get_file_from_path(_copied(path)) is None:
                files.append(File.generated(config, _copied(path), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return a page as Python-Markdown reads it, with links that hold in the site."""
    return _outside_fences(lambda text: _LINK.sub(lambda found: _rewritten(found, page.file), text), spaced(markdown))


def spaced(markdown: str) -> str:
    """Return a page with blank lines where Python-Markdown needs them: around fences, before lists and tables."""
    lines: list[str] = []
    fenced = inside_list = False
    for line in markdown.split("\n"):
        before = lines[-1] if lines else ""
        if line.lstrip().startswith("```"):
            if not fenced and before.strip():
                lines.append("")
            fenced = not fenced
            lines += [line] if fenced else [line, ""]
            continue
        if not fenced:
            item = bool(_ITEM.match(line))
            inside_list = item or (inside_list and bool(before.strip()))
            opens_list = item and not _in_list(lines)
            opens_table = line.lstrip().startswith("|") and not before.lstrip().startswith("|")
            if before.strip() and (opens_list or opens_table):
                lines.append("")
        lines.append(line)
    return "\n".join(lines)


def _in_list(lines: list[str]) -> bool:
    """Whether the last paragraph of these lines belongs to a list."""
    for line in reversed(lines):
        if not line.strip():
            return False
        if _ITEM.match(line):
            return True
    return False


def commands() -> str:
    """Return the page of all commands, each with its help."""
    from rlstack.cli import VERBS, main

    os.environ["COLUMNS"] = "100"
    parts = ["# Commands", "What `rlstack COMMAND --help` prints."]
    parts.append(
        "\n".join(
            ["| command | |", "| --- | --- |", *(f"| [`{n}`](#{_slug(n)}) | {v.summary} |" for n, v in VERBS.items())]
        )
    )
    for name in VERBS:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            main([*name.split(), "--help"])
        parts.append(f"## {name}\n\n```text\n{printed.getvalue().strip()}\n```")
    return "\n\n".join(parts) + "\n"


def examples() -> str:
    """Return the page of the programs and the notebook in examples/."""
    parts = ["# Examples", "Programs in `examples/`, in the order in which to read them; the tests run them."]
    for path in sorted((ROOT / "examples").glob("*.py")):
        parts.append(f"## {path.name}\n\n```python\n{path.read_text(encoding='utf-8').strip()}\n```")
    for path in sorted((ROOT / "examples").glob("*.ipynb")):
        parts += [f"## {path.name}", *_cells(path)]
    return "\n\n".join(parts) + "\n"


def _cells(path: Path) -> list[str]:
    """Return a notebook's cells, with their headings two levels below the page's, and no links."""
    found = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "code":
            found.append(f"```python\n{text}\n```")
        else:
            found.append(_LINK.sub(r"\1", re.sub(r"^#", "###", text, flags=re.MULTILINE)).replace("#####", "####"))
    return found


def _slug(heading: str) -> str:
    return heading.replace(" ", "-")


def _outside_fences(change: Callable[[str], str], text: str) -> str:
    parts, at = [], 0
    for block in _FENCED.finditer(text):
        parts += [change(text[at : block.start()]), block[0]]
        at = block.end()
    return "".join([*parts, change(text[at:])])


def _links(text: str) -> list[str]:
    return [found[2] for found in _LINK.finditer(_FENCED.sub("", text))]


def _outside(link: str, page: File) -> Path | None:
    """Return the file or folder of the repository that a link means, or nothing if it is no such link."""
    target = link.partition("#")[0]
    if not target or "://" in link or page.src_uri.startswith("reference/"):
        return None
    names = {where: name for name, where in AT_THE_TOP.items()}
    folder = ROOT if page.src_uri in names else ROOT / "docs" / posixpath.dirname(page.src_uri)
    return Path(os.path.normpath(folder / target))


def _copied(path: Path) -> str:
    """Return where the site has a file of the repository; browsers show text."""
    relative = path.relative_to(ROOT).as_posix()
    return relative.removeprefix("docs/") if relative.startswith("docs/") else f"files/{relative}.txt"


def _rewritten(found: re.Match[str], page: File) -> str:
    """Return a link that holds in the site; of one to a folder, its text."""
    path = _outside(found[2], page)
    if path is None:
        return found[0]
    if path.is_dir():
        return found[1]
    target = AT_THE_TOP.get(path.relative_to(ROOT).as_posix()) or _copied(path)
    _, mark, anchor = found[2].partition("#")
    return f"[{found[1]}]({posixpath.relpath(target, posixpath.dirname(page.src_uri) or '.')}{mark}{anchor})"
