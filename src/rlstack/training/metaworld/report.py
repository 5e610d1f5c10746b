"""Results of the Meta-World benchmark as data, and as a readable report beside published ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from rlstack.training.metaworld.learning import CHUNK, SETTINGS, Learned
from rlstack.training.metaworld.reinforcing import Reinforced
from rlstack.training.metaworld.suite import PUBLISHED, SENTENCES, group_means
from rlstack.training.metaworld.worker import CAMERA, RENDERED, SIZE

RESULTS, REPORT = "results.json", "report.md"
"""Files in a benchmark's folder."""


def summarise(
    options: Mapping[str, Any],
    versions: Mapping[str, str],
    shown: Mapping[str, Mapping[str, float]],
    learned: Learned,
    tried: Mapping[str, Sequence[bool]],
    trials_cpu_s: float,
) -> dict[str, Any]:
    """Return the results as plain data.

    Args:
        options: What was run, by name.
        versions: Of the simulator.
        shown: Figures of each task's demonstrations.
        learned: Figures of learning.
        tried: Success of each trial of each task.
        trials_cpu_s: CPU time of trials.
    """
    success = {task: fmean(map(float, trials)) for task, trials in tried.items()}
    return {
        **{name: value for name, value in options.items() if name != "demonstrations"},
        "episodes": options["demonstrations"],
        "versions": dict(versions),
        "tasks": success,
        "groups": group_means(success),
        "demonstrations": {task: dict(figures) for task, figures in shown.items()},
        "learning": {"updates": learned.updates, "batch": SETTINGS.batch, "curve": learned.curve},
        "cpu_s": {
            "demonstrations": sum(figures["cpu_s"] for figures in shown.values()),
            "learning": learned.cpu_s,
            "trials": trials_cpu_s,
        },
        "published": [asdict(one) for one in PUBLISHED],
        "deviations": deviations(options),
    }


def summarise_reinforced(
    far: Reinforced, episode: int, tried: Mapping[str, Sequence[bool]], trials_cpu_s: float
) -> dict[str, Any]:
    """Return the results of reinforcement as plain data.

    Args:
        far: Its figures.
        episode: Longest episode, steps.
        tried: Success of each trial of each task after it.
        trials_cpu_s: CPU time of these.
    """
    success = {task: fmean(map(float, trials)) for task, trials in tried.items()}
    groups = group_means(success)
    return {**asdict(far), "episode": episode, "tasks": success, "groups": groups, "trials_cpu_s": trials_cpu_s}


def deviations(options: Mapping[str, Any]) -> list[str]:
    """Return what differs from the published results, one sentence each."""
    noise = (
        f"Demonstrations show the scripted expert's actions while noise of {options['stray']:g} is added to what it"
        " does in half of the chunks (DART, arXiv 1703.09327); published ones are without noise."
        if options["stray"]
        else "Demonstrations are recorded here, by the scripted experts that also made the published ones."
    )
    return [
        f"Pictures: one camera ({CAMERA}, moved as in published evaluations), {SIZE} x {SIZE} pixels around the table"
        f" of a picture of {RENDERED} x {RENDERED}, without shadows and anti-aliasing; LeRobot evaluates with 480 x"
        " 480.",
        noise,
        "While learning, the network also predicts the positions of objects and goal, in space and in the picture,"
        " which the simulator knows (losses of their own); the policy gets picture, sentence, hand position and"
        " gripper alone.",
        "The network is small and begins with random weights; published policies begin with pretrained models.",
        f"Trials: {options['trials']} a task with layouts that no demonstration has, at most {options['steps']} steps;"
        " a trial ends with success, as in LeRobot. RLinf's results after PPO are of at most 100 steps.",
        f"One seed ({options['seed']}). A plan is executed for {CHUNK} steps before the next.",
    ]


def report_of(results: Mapping[str, Any]) -> str:
    """Return a readable report (Markdown)."""
    groups, tasks, cpu = results["groups"], results["tasks"], results["cpu_s"]
    names = [name for name in SENTENCES if name in groups]
    whole = len(tasks) == sum(map(len, SENTENCES.values()))
    lines = [
        f"# {results['suite']}: {_percent(groups['mean'])} (mean of the groups)",
        "",
        f"{results['episodes']} demonstrations and {results['trials']} trials of each of {len(tasks)}"
        f" tasks, seed {results['seed']}; metaworld {results['versions']['metaworld']}, mujoco"
        f" {results['versions']['mujoco']}. Mean of the tasks: {_percent(fmean(tasks.values()))}.",
        "",
        "| policy | " + " | ".join(SENTENCES) + " | mean | source |",
        "|" + " --- |" * (len(SENTENCES) + 3),
        _row("this one, supervised", groups, results["suite"]),
    ]
    after = results.get("reinforced")
    if after:
        lines.append(_row("this one, and PPO", after["groups"], results["suite"]))
    for one in results["published"]:
        lines.append(f"| {one['policy']} |" + " |" * len(SENTENCES) + f" {one['mean']:.1f} | {one['source']} |")
    if not whole:
        lines += ["", "Published results are of all 50 tasks, so that this suite's figures are not comparable."]
    lines += ["", "What differs from the published results:", "", *(f"- {one}" for one in results["deviations"]), ""]
    columns = {"success": tasks, **({"after PPO": after["tasks"]} if after else {})}
    lines += ["| task | group | " + " | ".join(columns) + " |", "|" + " --- |" * (2 + len(columns))]
    lines += [
        f"| {task} | {name} | " + " | ".join(_percent(column[task]) for column in columns.values()) + " |"
        for name in names
        for task in SENTENCES[name]
        if task in tasks
    ]
    lines += [
        "",
        f"CPU time: demonstrations {cpu['demonstrations']:.0f} s, learning {cpu['learning']:.0f} s"
        f" ({results['learning']['updates']} updates of {results['learning']['batch']}), trials {cpu['trials']:.0f} s.",
        "",
        "| updates | CPU-s | loss of actions | loss of positions |",
        "| --- | --- | --- | --- |",
    ]
    curve = results["learning"]["curve"]
    for row in curve[:: max(1, len(curve) // 12)]:
        losses = (f"{row[name]:.3f}" if name in row else "" for name in ("actions", "labels"))
        lines.append(f"| {row['updates']} | {row['cpu_s']:.0f} | " + " | ".join(losses) + " |")
    if after:
        lines += [
            "",
            f"PPO: {after['iterations']} iterations, {after['episodes']} episodes of at most {after['episode']} steps,"
            f" {after['cpu_s']:.0f} CPU-s, and {after['trials_cpu_s']:.0f} of trials. Practised:"
            f" {', '.join(after['practised'])}. Kept: the policy after {after['kept']} iterations, by validation on"
            f" other layouts: {', '.join(_validated(one) for one in after['validated'])}. Success of sampled actions in"
            " what is practised:",
            "",
            "| episodes | CPU-s | success |",
            "| --- | --- | --- |",
        ]
        for row in after["curve"][:: max(1, len(after["curve"]) // 12)]:
            lines.append(f"| {row['episodes']:.0f} | {row['cpu_s']:.0f} | {_percent(row['success'])} |")
    return "\n".join(lines) + "\n"


def _row(name: str, groups: Mapping[str, float], source: str) -> str:
    cells = [_percent(groups[group]) if group in groups else "" for group in SENTENCES]
    return f"| {name} | " + " | ".join(cells) + f" | **{_percent(groups['mean'])}** | {source} |"


def _validated(one: Mapping[str, float]) -> str:
    return f"{_percent(one['success'])} after {one['iterations']:.0f}"


def _percent(share: float) -> str:
    return f"{100.0 * share:.1f}%"
