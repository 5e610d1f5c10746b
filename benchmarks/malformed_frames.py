#!/usr/bin/env python3
"""Feed malformed frames to the parser of a driver's protocol, and count what it takes, what it raises and what hangs.

    python benchmarks/malformed_frames.py NAME [--frames 100000] [--seed 0]

NAME is a file of benchmarks/malformed_frames/; without one, each of them is fed. A file defines ``frames(random)``, an
endless iterator of byte strings that are no whole frame of the protocol, ``good(random)``, a frame that is whole, and
``parser()``, which returns a function that takes bytes and returns whether they were taken for a frame. Silent
acceptance, an exception and a frame that takes longer than a second are failures; the exit status is then 1.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import sys
import time
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_suffix("")
SLOW_S = 1.0


def protocol(name: str) -> Any:
    """Return a file of the folder as a module."""
    spec = importlib.util.spec_from_file_location(f"malformed_frames_{name}", FOLDER / f"{name}.py")
    if spec is None or spec.loader is None or not (FOLDER / f"{name}.py").is_file():
        known = ", ".join(sorted(path.stem for path in FOLDER.glob("[!_]*.py")))
        raise SystemExit(f"There is no protocol '{name}'; there are {known}.")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(FOLDER))
    spec.loader.exec_module(module)
    return module


def fed(name: str, count: int, seed: int) -> bool:
    """Feed a protocol; print a line, and return whether there was no failure."""
    module = protocol(name)
    source, parse = module.frames(random.Random(seed)), module.parser()
    if not parse(module.good(random.Random(seed))):
        raise SystemExit(f"{name}: a whole frame is not taken.")
    taken = raised = slow = 0
    start = time.perf_counter()
    for _ in range(count):
        data, begun = next(source), time.perf_counter()
        try:
            taken += bool(parse(data))
        except Exception as error:
            raised += 1
            print(f"{name}: {error!r} at {data.hex()}", file=sys.stderr)
        slow += time.perf_counter() - begun > SLOW_S
    took = time.perf_counter() - start
    print(f"{name}: {count} frames in {took:.1f} s; {taken} taken, {raised} raised, {slow} longer than {SLOW_S:g} s")
    return not (taken or raised or slow)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", default="")
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    names = [options.name] if options.name else sorted(path.stem for path in FOLDER.glob("[!_]*.py"))
    results = [fed(name, options.frames, options.seed) for name in names]
    raise SystemExit(not all(results))


if __name__ == "__main__":
    main()
