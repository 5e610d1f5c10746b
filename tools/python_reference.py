"""Write the pages of the Python reference from the sources' docstrings, without importing them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "src"

_SECTION = re.compile(r"^(Args|Attributes|Raises|Returns|Yields):$")
_ENTRY = re.compile(r"^ {4}(\*{0,2}\w[\w, *]*): (.*)$")
_ROLE = re.compile(r":\w+:`~?([^`]*)`")


def page(title: str, modules: tuple[str, ...]) -> str:
    """Return a page in Markdown: of each module what it says of itself, then its public classes and functions."""
    parts = [f"# {title}"]
    for module in modules:
        tree = ast.parse(_file(module).read_text(encoding="utf-8"))
        parts += [f"## {module}", prose(ast.get_docstring(tree) or "")]
        for node in _public(tree):
            parts += _class(node) if isinstance(node, ast.ClassDef) else _function(node, "###")
    return "\n\n".join(part for part in parts if part) + "\n"


def _file(module: str) -> Path:
    path = SOURCES.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _public(node: ast.Module | ast.ClassDef) -> Iterator[ast.ClassDef | ast.FunctionDef]:
    for child in node.body:
        if not isinstance(child, (ast.ClassDef, ast.FunctionDef)) or child.name.startswith("_"):
            continue
        if ast.get_docstring(child):
            yield child


def _class(node: ast.ClassDef) -> list[str]:
    bases = ", ".join(map(ast.unparse, node.bases))
    parts = [f"### {node.name}", f"*class* `{node.name}({bases})`" if bases else f"*class* `{node.name}`"]
    parts += [prose(ast.get_docstring(node) or ""), _fields(node)]
    for child in _public(node):
        if isinstance(child, ast.FunctionDef):
            parts += _function(child, "####")
    return parts


def _fields(node: ast.ClassDef) -> str:
    """Return the annotated fields of a class, each with the string below it."""
    rows = []
    for child, after in zip(node.body, [*node.body[1:], None]):
        if isinstance(child, ast.AnnAssign) and not ast.unparse(child.target).startswith("_"):
            said = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            default = f" = {ast.unparse(child.value)}" if child.value is not None else ""
            stated = f"{ast.unparse(child.target)}: {ast.unparse(child.annotation)}{default}"
            rows.append(f"- `{stated}`" + (f": {_inline(' '.join(str(said).split()))}" if said else ""))
    return "\n".join(rows)


def _function(node: ast.FunctionDef, mark: str) -> list[str]:
    returned = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    shown = {ast.unparse(decorator) for decorator in node.decorator_list} & {"property", "classmethod", "staticmethod"}
    signature = f"{node.name}{returned}" if "property" in shown else f"{node.name}({ast.unparse(node.args)}){returned}"
    before = "".join(f"@{name}\n" for name in sorted(shown))
    return [f"{mark} {node.name}", f"```python\n{before}{signature}\n```", prose(ast.get_docstring(node) or "")]


def prose(docstring: str) -> str:
    """Return a docstring in Markdown: its sections as lists, its roles and literals as code."""
    lines: list[str] = []
    section = example = False
    for line in docstring.split("\n"):
        if example and line.strip() and not line.startswith("    "):
            example = False
            lines[-1:] = ["```", ""]
        if example:
            if line.strip() or lines[-1] != "```python":
                lines.append(line.removeprefix("    "))
        elif _SECTION.match(line):
            section = True
            lines += [f"**{line.removesuffix(':')}**", ""]
        elif line.endswith("::"):
            example = True
            lines += [_inline(line[:-1]), "", "```python"]
        elif section and (entry := _ENTRY.match(line)):
            lines.append(f"- `{entry[1]}`: {_inline(entry[2])}")
        else:
            lines.append(f"  {_inline(line.strip())}" if section and line.strip() else _inline(line))
    if example:
        lines.append("```")
    return "\n".join(lines).strip()


def _inline(text: str) -> str:
    return _ROLE.sub(r"`\1`", text.replace("``", "`"))
