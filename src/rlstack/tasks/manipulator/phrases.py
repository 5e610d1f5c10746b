"""Things on a table that instructions name."""

from __future__ import annotations

from rlstack.tasks.core.phrases import Things

BLOCKS = Things(
    shapes={"cube": ("cube", "block"), "tile": ("tile", "block")},
    held_out=frozenset({("green", "tile"), ("purple", "cube"), ("yellow", "tile")}),
)
