"""A new robot file: the values of a robot that is there, and beside each how to measure one's own."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from rlstack.bringup.kind_scaffold import KindScaffold
from rlstack.kinds import find_kind
from rlstack.robots import load_robot
from rlstack.robots.spec import ALIASES, robot_files
from rlstack.yaml_files import parse_yaml, read_text

_WIDTH = 118


def robot_text(name: str, source: str) -> str:
    """Return the text of a robot file called ``name`` with the values of the robot ``source`` (a name or a file).

    Raises:
        UserError: The source is unknown or refused, or no starting file is known for its kind.
    """
    kind = load_robot(source).kind
    scaffold: KindScaffold = find_kind(kind).load("scaffold")
    path = Path(source) if source.endswith((".yaml", ".yml")) else robot_files()[ALIASES.get(source, source)]
    data = parse_yaml(read_text(path, "the robot file"), str(path))
    data.update(name=name, description=f"{name}: with the values of {source}, to be replaced by its own")
    head = [
        f"# {name}: a robot file that works as it is, with the values of {source}. Replace them by your own robot's:",
        "# each comment says what a value is, in which unit, and how to find it. Note your source beside each value.",
        f"# Check it:  rlstack model {name}.yaml",
        "# What is refused, and the optional keys: docs/robots.md",
    ]
    return "\n".join([*head, *_lines(_located(data, path.absolute().parent), scaffold)]) + "\n"


def _located(data: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the data with paths beside the source file made absolute, as the new file is elsewhere."""
    model = data.get("model", "")
    if model and not model.startswith("package:"):
        data = {**data, "model": str(folder / model)}
    arms = [
        {**arm, "robot": str(folder / arm["robot"])} if arm["robot"].endswith((".yaml", ".yml")) else arm
        for arm in data.get("arms", ())
    ]
    return {**data, "arms": arms} if arms else data


def _lines(data: Mapping[str, Any], scaffold: KindScaffold, above: str = "", indent: str = "") -> Iterator[str]:
    for key, content in data.items():
        keys = f"{above}.{key}" if above else key
        if how := scaffold.how(keys):
            yield from _comment(how, indent)
        if isinstance(content, Mapping) and content:
            yield f"{indent}{key}:"
            yield from _lines(content, scaffold, keys, indent + "  ")
        elif isinstance(content, list) and content and isinstance(content[0], Mapping):
            for part in dict.fromkeys(part for entry in content for part in entry):
                if how := scaffold.how(f"{keys}.{part}"):
                    yield from _comment(f"{part}, {how}", indent)
            yield f"{indent}{key}:"
            for entry in content:
                yield from _wrapped(f"{indent}  - {_flow(entry)}", f"{indent}    ")
        else:
            yield f"{indent}{key}: {_flow(content)}"


def _comment(sentence: str, indent: str) -> list[str]:
    return textwrap.wrap(
        sentence, _WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}#   ", break_on_hyphens=False
    )


def _wrapped(line: str, indent: str) -> list[str]:
    return [line] if len(line) <= 2 * _WIDTH else textwrap.wrap(line, _WIDTH, subsequent_indent=indent)


def _flow(content: Any) -> str:
    """Return a value on one line of YAML."""
    text = yaml.safe_dump(content, default_flow_style=True, sort_keys=False, width=10**6)
    return text.removesuffix("...\n").strip()
