"""What a bag holds, as text and as data."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from rlstack.data.bags.bag import Bag


def bag_info(bag: Bag, *, check: bool = False) -> dict[str, Any]:
    """Return what a bag holds, as JSON has it.

    Args:
        bag: The bag.
        check: Read every message first, which finds damage that its index does not tell of.
    """
    if check:
        for _ in bag.messages():
            pass
    lost, dropped = bag.lost(), bag.lost("dropped")
    return {
        "path": str(bag.path),
        "files": [str(file) for file in bag.files],
        "bytes": sum(_bytes(bag).values()),
        "first_ns": bag.first_ns,
        "last_ns": bag.last_ns,
        "duration_s": 1e-9 * (bag.last_ns - bag.first_ns),
        "messages": sum(topic.count for topic in bag.topics.values()),
        "topics": {
            name: {
                "type": topic.kind,
                "messages": topic.count,
                "rate_hz": round(topic.rate_hz, 3),
                "first_s": 1e-9 * (topic.first_ns - bag.first_ns) if topic.count else None,
                "last_s": 1e-9 * (topic.last_ns - bag.first_ns) if topic.count else None,
                "lost": lost.get(name, 0),
                "dropped": dropped.get(name, 0),
            }
            for name, topic in bag.topics.items()
        },
        "facts": {name: value for name, value in bag.facts.items() if name not in ("lost", "dropped")},
        "attachments": {name: len(data) for name, data in bag.attachments.items()},
        "damage": bag.damage,
    }


def described(info: Mapping[str, Any]) -> str:
    """Return the text of :func:`bag_info`."""
    files = info["files"]
    rows = [
        ("bag", f"{info['path']}, {len(files)} file{'s' if len(files) != 1 else ''}, {_size(info['bytes'])}"),
        ("messages", str(info["messages"])),
    ]
    if info["messages"]:
        rows += [("from", _date(info["first_ns"])), ("until", f"{_date(info['last_ns'])}, {info['duration_s']:.3f} s")]
    rows += list(info["facts"].items())
    rows += [("attached", f"{name}, {size} bytes") for name, size in info["attachments"].items()]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {value}" for name, value in rows]
    if info["topics"]:
        lines += ["", *_table(info["topics"])]
    return "\n".join([*lines, *(["", *info["damage"]] if info["damage"] else [])])


def _table(topics: Mapping[str, Mapping[str, Any]]) -> list[str]:
    missing = any(topic["lost"] or topic["dropped"] for topic in topics.values())
    heads = ["topic", "type", "messages", "Hz", *(["lost", "dropped"] if missing else [])]
    rows = [heads]
    for name, topic in topics.items():
        rate = f"{topic['rate_hz']:.1f}" if topic["rate_hz"] else ""
        counts = [str(topic["lost"]), str(topic["dropped"])] if missing else []
        rows.append([name, topic["type"], str(topic["messages"]), rate, *counts])
    widths = [max(len(row[k]) for row in rows) for k in range(len(heads))]
    return [
        "  ".join(
            f"{word:<{width}}" if k < 2 else f"{word:>{width}}" for k, (word, width) in enumerate(zip(row, widths))
        )
        for row in rows
    ]


def _bytes(bag: Bag) -> dict[str, int]:
    return {
        str(file): file.stat().st_size for path in bag.files for file in ([path] if path.is_file() else path.iterdir())
    }


def _size(count: int) -> str:
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 else f"{count / 2**10:.1f} KiB"


def _date(at_ns: int) -> str:
    seconds, rest = divmod(at_ns, 10**9)
    try:
        day = datetime.fromtimestamp(seconds, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return f"{seconds}.{rest // 10**6:03} s"
    return f"{day:%Y-%m-%d %H:%M:%S}.{rest // 10**6:03} UTC"
