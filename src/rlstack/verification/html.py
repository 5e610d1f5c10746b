"""Pieces of a report's page: HTML that needs nothing outside itself, no scripts, no fonts, no network."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from rlstack.policies.contract import Contract, Port
from rlstack.verification.plots import Plot

_STYLE = """
:root { color-scheme: light; --ink: #1f2328; --soft: #57606a; --line: #d8dee4; --good: #116a3c; --bad: #a3123a; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 62rem; background: #fff; color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.35rem; margin: .2rem 0 .8rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; padding-top: .6rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; }
p { margin: .4rem 0; }
.verdict { padding: .9rem 1.1rem; border-radius: .5rem; border: 2px solid; }
.verdict strong { display: block; font-size: 2.2rem; line-height: 1.15; letter-spacing: .02em; }
.verdict ul { margin: .4rem 0 0; padding-left: 1.2rem; }
.passed { border-color: var(--good); background: #eef8f1; } .passed strong, .ok { color: var(--good); }
.failed { border-color: var(--bad); background: #fdf1f3; } .failed strong, .short { color: var(--bad); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line); }
thead th { border-bottom: 2px solid var(--ink); } tbody th { font-weight: 500; }
td small, th small { display: block; color: var(--soft); font-weight: 400; }
.main td { font-weight: 600; } .main td small { font-weight: 400; }
.figures th:first-child { width: 40%; } .disturbances th:first-child { min-width: 11rem; }
.disturbances td { white-space: nowrap; }
figure { margin: 1.2rem 0 1.8rem; } figure img { width: 100%; height: auto; display: block; }
figcaption { color: var(--soft); font-size: .92rem; }
dt { font-weight: 600; margin-top: .6rem; } dd { margin: 0; }
pre { background: #f6f8fa; padding: .7rem .9rem; border-radius: .4rem; white-space: pre-wrap; overflow-wrap: anywhere; }
code, pre { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: .88em; }
.hash { overflow-wrap: anywhere; }
@media print { body { max-width: none; padding: 0; font-size: 11pt; } figure, tr, .verdict { break-inside: avoid; }
  figure img { max-height: 20cm; width: auto; max-width: 100%; }
  h2, h3 { break-after: avoid; } .scroll { overflow: visible; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
"""


def document(title: str, body: str) -> str:
    """Return a whole page; ``body`` is HTML already."""
    # The policy keeps even a mistake in here from fetching anything.
    guard = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{guard}">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def section(title: str, parts: Iterable[str]) -> list[str]:
    """Return a heading and what is under it; nothing where there is nothing under it."""
    content = list(parts)
    return [f"<h2>{escape(title)}</h2>", *content] if content else []


def picture(picture: Plot) -> str:
    """Return a picture with its heading and caption."""
    data = base64.b64encode(picture.png).decode()
    return (
        f"<h3>{escape(picture.title)}</h3><figure>"
        f'<img alt="{escape(picture.title)}: {escape(picture.caption)}" src="data:image/{picture.kind};base64,{data}">'
        f"<figcaption>{escape(picture.caption)}</figcaption></figure>"
    )


def policy(contract: Contract, sha256: str) -> Iterator[str]:
    """Yield what a policy file promises."""
    yield pairs(
        {
            "name": contract.name,
            "task": contract.task,
            "robot": contract.robot,
            "control rate": f"{contract.rate_hz:g} Hz",
            "SHA-256 of the file": sha256,
            "made by": f"rlstack {contract.code_version}",
        }
    )
    head = ["name", "shape", "unit", "frame", "topic and field"]
    yield "<h3>Inputs</h3>"
    yield table(head, [_port(port) for port in contract.inputs])
    yield "<h3>Outputs</h3>"
    yield table([*head, "range"], [[*_port(port), escape(_range(port))] for port in contract.outputs])
    if contract.state:
        yield "<h3>Recurrent state</h3>"
        yield table(["name", "shape"], [[escape(s.name), escape(str(list(s.shape)))] for s in contract.state])
    for title, values in (("Trained for", contract.envelope), ("Training", contract.training)):
        if values:
            yield f"<h3>{title}</h3>"
            yield pairs(values)


def _port(port: Port) -> list[str]:
    names = f"<small>{escape(', '.join(port.element_names))}</small>" if port.element_names else ""
    return [
        f"<code>{escape(port.name)}</code>{names}",
        escape(str(list(port.shape))),
        escape(port.unit),
        escape(port.frame),
        f"<code>{escape(port.topic)}</code><small>{escape(port.type)}: {escape(port.field)}</small>",
    ]


def _range(port: Port) -> str:
    limits = list(dict.fromkeys(zip(port.minimum, port.maximum)))
    return ", ".join(f"{low:g} to {high:g}" for low, high in limits)


def listing(sentences: Iterable[str]) -> str:
    """Return sentences as a list."""
    return f"<ul>{''.join(f'<li>{escape(s)}</li>' for s in sentences)}</ul>"


def pairs(values: Mapping[str, Any]) -> str:
    """Return names and values, nested or not, as a table."""
    rows = [[escape(key), f'<span class="hash">{escape(text)}</span>'] for key, text in _flatten(values)]
    return table([], rows)


def _flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, item in values.items():
        if isinstance(item, Mapping):
            yield from _flatten(item, f"{prefix}{key}.")
        elif isinstance(item, (list, tuple)):
            yield f"{prefix}{key}", ", ".join(map(str, item))
        else:
            yield f"{prefix}{key}", f"{item:g}" if isinstance(item, float) else str(item)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], css: str = "") -> str:
    """Return a table of cells that are HTML already; the first of each row is its heading."""
    top = f"<thead><tr>{''.join(f'<th>{cell}</th>' for cell in head)}</tr></thead>" if head else ""
    body = "".join(f"<tr><th>{row[0]}</th>{''.join(f'<td>{cell}</td>' for cell in row[1:])}</tr>" for row in rows)
    name = f' class="{css}"' if css else ""
    return f'<div class="scroll"><table{name}>{top}<tbody>{body}</tbody></table></div>'
