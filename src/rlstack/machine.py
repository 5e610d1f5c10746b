"""What computes: processor, memory, system, and versions of libraries, for records of figures."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_PACKAGES = ("rlstack", "numpy", "torch", "llvmlite", "mujoco", "onnxruntime", "warp-lang")


def machine(device: str = "cpu") -> dict[str, Any]:
    """Describe this machine: processor, cores, memory, system, Python, versions, load, and the GPU if used."""
    installed = {name: installed_version(name) for name in _PACKAGES}
    found: dict[str, Any] = {
        "processor": _processor(),
        "cores": os.cpu_count() or 1,
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 1),
        "versions": {name: number for name, number in installed.items() if number},
    }
    return {**found, "gpu": _gpu()} if device.startswith("cuda") else found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _gpu() -> str:
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip().replace("\n", "; ")


def installed_version(package: str) -> str:
    """Return a package's version; empty: it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        if package != "rlstack":
            return ""
    import rlstack

    return rlstack.__version__
