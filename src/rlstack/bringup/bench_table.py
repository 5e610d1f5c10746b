"""The table that `rlstack bench` prints."""

from __future__ import annotations

from typing import Any

Row = tuple[str, ...]


def describe_bench(found: dict[str, Any]) -> str:
    """Format the figures of :func:`rlstack.bringup.bench.bench` as text."""
    sections = [
        _machine(found),
        _simulation(found),
        _training(found),
        _policies(found),
        _latency(found),
        _absent(found),
    ]
    return "\n\n".join(section for section in sections if section)


def _machine(found: dict[str, Any]) -> str:
    it = found["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in it["versions"].items())
    lines = [
        f"{it['processor']}, {it['cores']} cores, {it['memory_gib']:g} GiB, {it['system']}, load {it['load']:g}",
        f"Python {it['python']}, {versions}",
        "One thread. CPU-seconds are user and system time. Rates are medians, with minimum and maximum in brackets.",
    ]
    if it.get("gpu"):
        lines.insert(1, it["gpu"])
    if found["quick"]:
        lines.append("QUICK: a smoke test on a small scale; the figures mean nothing.")
    return "\n".join(lines)


def _simulation(found: dict[str, Any]) -> str:
    size = found["sizes"]
    rows = [
        _rate("batch simulator, RK4, 100 Hz", found["simulator"]),
        _rate("batch simulator, commands late", found["simulator"]["late"]),
        _rate("full environment", found["environment"]),
    ]
    peer = found["peers"]["crazyflow"]
    name = _peer_name("crazyflow", peer)
    for integrator, figures in peer.get("figures", {}).items():
        if isinstance(figures, dict):
            rows.append(_rate(f"{name}, {integrator}", figures))
    rows += _failed(name, peer)
    head = ("", "a CPU-second", "a second", "memory", "first step", "error, hover +-15%", "error, full range")
    title = f"Simulation of {size['robots']:,} quadrotors: millions of control periods of 10 ms"
    return f"{title}\n{_columns([head, *rows])}"


def _rate(name: str, figures: dict[str, Any]) -> Row:
    cpu, wall, memory = figures["per_cpu_second"], figures["per_second"], figures.get("peak_memory_mib")
    apart = figures.get("departure", {})
    return (
        name,
        f"{_millions(cpu['median'])} ({_millions(cpu['least'])} to {_millions(cpu['most'])})",
        _millions(wall["median"]),
        "" if memory is None else f"{memory:.0f} MiB",
        f"{figures['first_step_s']:.2f} s" if "first_step_s" in figures else "",
        *(f"{1e3 * kind['position_m']:.2g} mm, {1e3 * kind['attitude_rad']:.3g} mrad" for kind in apart.values()),
    )


def _millions(rate: float) -> str:
    return f"{rate / 1e6:.3g}"


def _training(found: dict[str, Any]) -> str:
    training = found["training"]
    cold, warm, met = training["cold"], training["warm"], training["target"]
    runs = {"nothing compiled yet": cold, "kernels compiled": warm} if warm else {"nothing compiled yet": cold}
    names = ("setup_cpu_s", "learning_cpu_s", "evaluation_cpu_s", "export_cpu_s", "cpu_s", "wall_s")
    rows = [
        (name, *(f"{run[key]:.1f} s" for key in names), f"{run['peak_memory_mib']:.0f} MiB")
        for name, run in runs.items()
    ]
    head = ("CPU-seconds", "set-up", "learning", "evaluation", "export", "together", "wall", "memory")
    lines = [f"Training: {cold['recipe']}, seed {cold['seed']}, {cold['steps']:,} steps", _columns([head, *rows])]
    if warm:
        looks = f"of {len(warm['evaluations'])} evaluations of {warm['evaluations'][0]['episodes']:.0f} starts"
        lines.append(
            f"  99% within 0.1 m and none lost: first after {met['cpu_seconds']:.1f} CPU-seconds of learning ({looks})"
            if met
            else f"  99% within 0.1 m and none lost: in none {looks}"
        )
    return "\n".join(lines)


def _policies(found: dict[str, Any]) -> str:
    cold = found["training"]["cold"]
    rows = [_flown(f"rlstack, {cold['recipe']}", cold["learning_cpu_s"], cold["steps"], found["policy"]["held_out"])]
    peer = found["peers"]["stable-baselines3"]
    name = _peer_name("stable-baselines3", peer) + " PPO"
    if "figures" in peer:
        figures = peer["figures"]
        rows.append(_flown(name, figures["cpu_s"], figures["samples"], figures["held_out"]))
    rows += _failed(name, peer)
    head = ("", "learning", "samples a CPU-second", "within 0.2 m", "within 0.1 m", "lost", "median error")
    episodes = found["policy"]["held_out"]["episodes"]
    return f"Policies on {episodes:,.0f} held-out starts of {cold['recipe']}\n{_columns([head, *rows])}"


def _flown(name: str, cpu_s: float, samples: int, flown: dict[str, Any]) -> Row:
    return (
        name,
        f"{cpu_s:.1f} CPU-s",
        f"{samples / cpu_s / 1e3:,.0f} k",
        *(f"{100.0 * flown[key]:.1f}%" for key in ("success", "within_0_1", "lost")),
        "unbounded" if flown["error_m"] is None else f"{flown['error_m']:.3f} m",
    )


def _latency(found: dict[str, Any]) -> str:
    rows = [_waits("rlstack, the policy above in onnxruntime", found["policy"]["latency"])]
    peer = found["peers"]["foundation-policy"]
    name = _peer_name("foundation-policy", peer) + ", its numpy code"
    if "figures" in peer:
        rows.append(_waits(name, peer["figures"]["latency"]))
    rows += _failed(name, peer)
    head = ("", "median", "99th percentile")
    return f"Latency of one step of a policy for one robot, wall time\n{_columns([head, *rows])}"


def _waits(name: str, took: dict[str, float]) -> Row:
    return (name, f"{took['p50_us']:.1f} us", f"{took['p99_us']:.1f} us")


def _peer_name(name: str, peer: dict[str, Any]) -> str:
    return f"{name} {peer.get('version', '')}".rstrip()


def _failed(name: str, peer: dict[str, Any]) -> list[Row]:
    return [(f"{name}: {peer['error']}",)] if "error" in peer else []


def _absent(found: dict[str, Any]) -> str:
    absent = {name: peer for name, peer in found["peers"].items() if not peer["installed"]}
    if not absent:
        return ""
    rows: list[Row] = [(name, peer["purpose"], peer["install"]) for name, peer in absent.items()]
    return f"Peers that are not installed\n{_columns(rows, left=True)}"


def _columns(rows: list[Row], left: bool = False) -> str:
    full = [row for row in rows if len(row) > 1]  # a row of one sentence does not widen a column
    count = max(len(row) for row in full)
    widths = [max(len(row[k]) for row in full if k < len(row)) for k in range(count)]
    lines = []
    for row in rows:
        if len(row) == 1:
            lines.append(f"  {row[0]}")
            continue
        cells = [row[0].ljust(widths[0])]
        cells += [c.ljust(w) if left else c.rjust(w) for c, w in zip(row[1:], widths[1:])]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return "\n".join(lines)
