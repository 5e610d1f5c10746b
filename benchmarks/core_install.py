#!/usr/bin/env python3
"""Size of what a robot needs to run a policy: `pip install .`, with a driver's extra or without, in a new environment.

The bare environment is subtracted; ROS comes from the robot's own system or from the extra `ros`. The installed package
then loads and steps a policy file, if one is given, to show that nothing is missing.

    python benchmarks/core_install.py [--extras mavlink] [--policy FILE] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

STEP = """
import sys
from rlstack.policies import load_policy
import numpy as np
policy = load_policy(sys.argv[1])
command = policy.step({p.name: np.ones(p.shape) / 2 for p in policy.contract.inputs})
print("steps a policy:", {name: value.round(1).tolist() for name, value in command.items()})
assert "torch" not in sys.modules
"""


def megabytes(folder: Path) -> float:
    """Return the size of all files under ``folder`` in MB (10^6 bytes)."""
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file() and not f.is_symlink()) / 1e6


def main() -> None:
    """Install, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", type=Path)
    parser.add_argument("--extras", default="", help="extras to install too, such as mavlink or feetech,serial")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    top = Path(__file__).resolve().parents[1]
    with tempfile.TemporaryDirectory() as folder:
        venv = Path(folder) / "venv"
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        bare = megabytes(venv)
        python = venv / "bin" / "python"
        wanted = f"{top}[{options.extras}]" if options.extras else str(top)
        install = [python, "-m", "pip", "install", "-q", "-c", top / "constraints.txt", wanted]
        subprocess.run([*map(str, install)], check=True)
        total = megabytes(venv)
        site = next((venv / "lib").glob("python3*")) / "site-packages"
        parts = {p.name: megabytes(p) for p in site.iterdir() if p.is_dir() and p.name not in ("pip", "setuptools")}
        name = f"core with {options.extras}" if options.extras else "core"
        print(f"{name} install beyond Python: {total - bare:.0f} MB (the bare environment is {bare:.0f} MB)")
        for name, size in sorted(parts.items(), key=lambda item: -item[1])[:8]:
            print(f"  {name:24}{size:7.1f} MB")
        if options.policy:
            subprocess.run([str(python), "-c", STEP, str(options.policy.resolve())], check=True)
        if options.json:
            options.json.write_text(json.dumps({"core_mb": total - bare, "parts_mb": parts}, indent=2) + "\n")


if __name__ == "__main__":
    main()
