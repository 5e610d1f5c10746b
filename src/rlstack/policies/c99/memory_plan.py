"""Scratch memory: buffers whose lifetimes do not overlap share it."""

from __future__ import annotations

from rlstack.policies.c99.program import Buffer, Place, Program


def plan(program: Program) -> None:
    """Set the offset of every scratch buffer and the size of the scratch memory of each kind.

    The largest buffers are placed first, each at the lowest offset that is free for as long as it lives.
    """
    lives: dict[Buffer, tuple[int, int]] = {}
    for time, step in enumerate(program.steps):
        lives[step.output.buffer] = (time, time)
        for view in step.inputs:
            if view is not None and view.buffer in lives:
                lives[view.buffer] = (lives[view.buffer][0], time)
    for view in (*program.outputs.values(), *program.next_states.values()):
        if view.buffer in lives:
            lives[view.buffer] = (lives[view.buffer][0], len(program.steps))
    placed: list[Buffer] = []
    for buffer in sorted((b for b in lives if b.place is Place.SCRATCH), key=lambda b: -b.size):
        first, last = lives[buffer]
        beside = [
            other
            for other in placed
            if other.kind == buffer.kind and lives[other][0] <= last and lives[other][1] >= first
        ]
        buffer.offset = 0
        for other in sorted(beside, key=lambda b: b.offset):
            if buffer.offset + buffer.size <= other.offset:
                break
            buffer.offset = max(buffer.offset, other.offset + other.size)
        placed.append(buffer)
        program.scratch[buffer.kind] = max(program.scratch.get(buffer.kind, 0), buffer.offset + buffer.size)
