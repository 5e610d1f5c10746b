"""`rlstack identify`: what a robot really is, from recordings of it."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from rlstack.errors import UserError
from rlstack.progress import AFTER_S, StageLines, working
from rlstack.text_table import aligned

if TYPE_CHECKING:
    from rlstack.identification.gap import Gap
    from rlstack.identification.identify import Identification
    from rlstack.identification.motion_model import Estimate
    from rlstack.identification.residual import Residual


@dataclass(frozen=True)
class Identify:
    """Find a robot's parameters from recordings (`rlstack record`), and write a new robot file with the evidence.

    Beside each number that the recording tells stand its value, 90% interval, bag and method; what it cannot tell
    keeps the old file's number, with the reason and the motion that would tell it. The report beside the file has the
    gap between recorded and simulated motion, before and after. `rlstack train RECIPE --robot NEW.yaml` trains with
    ranges from what is left uncertain.
    """

    bags: tyro.conf.Positional[Annotated[tuple[Path, ...], tyro.conf.arg(metavar="BAG ...")]]
    """Bags of the robot: folders, or files of them."""
    robot: str
    """The robot file to start from: a name or a file."""
    out: Annotated[str, tyro.conf.arg(metavar="NAME")] = ""
    """Name or path of the new robot file; default: ROBOT_identified."""
    known: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE ...")] = ()
    """What was measured otherwise, such as mass=0.032, in SI units; `mass` of a quadrotor is never told by odometry."""
    namespace: str = ""
    """Namespace of the robot's topics; default: the only robot in the bag."""
    check: bool = False
    """Fit nothing: report how far the robot file's prediction is from the recordings."""
    residual: bool = False
    """Also fit a residual model to what physics leaves over, and write it beside the file where it helps."""
    json: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Also write the figures to this file (JSON)."""

    def run(self) -> int:
        """Identify, or check."""
        from rlstack.files import write_json
        from rlstack.identification.identify import check, identify, read_all
        from rlstack.identification.page import gap_table, residual_table, write_check, write_identification
        from rlstack.identification.residual import fit_residual
        from rlstack.identification.robot_file import checked_out, write_robot
        from rlstack.robots import load_robot
        from rlstack.sim.physics.residual import write_residual

        if self.check and self.residual:
            raise UserError("--residual fits what an identification leaves over, and --check fits nothing: give one.")
        if not self.bags:
            raise UserError("Name the bags to identify from: rlstack identify bags/one --robot crazyflie.")
        robot, known = load_robot(self.robot), known_values(self.known)
        name = self.out or f"{robot.name}_{'check' if self.check else 'identified'}"
        new = Path(name).expanduser() if self.check else checked_out(name)
        report = new.with_suffix(".html")
        with working("reading the recordings"):
            recordings = read_all(robot, self.bags, self.namespace)
        for recorded in recordings:
            for note in recorded.notes:
                print(f"{recorded.path}: {note}", file=sys.stderr)
        if self.check:
            with working("predicting the recordings"):
                gaps = check(robot, recordings, known)
            print(gap_table(gaps))
            notes = [note for recorded in recordings for note in recorded.notes]
            write_check(report, robot.name, gaps, [str(bag) for bag in self.bags], notes)
            print(f"Report: {report}")
            if self.json is not None:
                write_json(
                    self.json,
                    {
                        "gap": by_term(list(gaps.values())[-1]),
                        "gaps": by_gap(gaps),
                    },
                )
            return 0
        with working("identifying"):
            found = identify(
                robot,
                recordings,
                known,
                lambda stage: print(f"Fitting {stage} ...", flush=True),
                on_stage=StageLines(after_s=AFTER_S),
            )
        residual = None
        if self.residual:
            with working("fitting what physics leaves over"):
                residual = fit_residual(found)
        write_identification(report, new.stem, found, residual)
        write_robot(new, self.robot, found, report.name)
        print(described(found))
        for note in found.model.notes(found.values):
            print(note)
        print("\n" + gap_table(found.gaps | (residual.gaps if residual else {})))
        option = ""
        if residual is not None:
            print("\n" + residual_table(residual))
            if residual.model is not None:
                file = new.with_suffix(".residual.onnx")
                bags = ", ".join(str(bag) for bag in self.bags)
                write_residual(file, residual.model, f"beyond {new.name}, from {bags}. {residual.why}")
                print(f"\nResidual model: {file}", end="")
                option = f" --task-settings.residual {file}"
        print(f"\nRobot file: {new}\nReport: {report}\nNext: rlstack train RECIPE --robot {new}{option}")
        if self.json is not None:
            write_json(self.json, as_data(found) | ({} if residual is None else {"residual": residual_data(residual)}))
        return 0


def known_values(given: tuple[str, ...]) -> dict[str, float]:
    """Return the values of ``--known`` by name.

    Raises:
        UserError: One is not of the form name=number.
    """
    found = {}
    for word in given:
        name, equals, text = word.partition("=")
        try:
            found[name] = float(text)
        except ValueError:
            equals = ""
        if not equals or not name:
            raise UserError(f"--known {word} is not allowed: give a name and a number, such as mass=0.032.")
    return found


def described(found: Identification) -> str:
    """Return the parameters as text: old and new value, interval, and what could not be told and why."""
    from rlstack.bringup.kind_deployment import deployment_of

    if (untold := _untold(found)) and deployment_of(found.robot).EXCITES:
        flown = f"rlstack excite --policy POLICY --robot FILE --tell {' '.join(untold)}"
        advice = ["", f"`{flown}` flies and records the motion that tells most of them."]
    else:
        advice = []
    rows = [["parameter", "file", "now", "90% interval", ""]]
    reasons = []
    for one in (*found.estimates.values(), *found.sensors.values()):
        unit = f" {one.parameter.unit}" if one.parameter.unit else ""
        interval = "" if one.interval is None else f"{one.interval[0]:.5g} to {one.interval[1]:.5g}"
        rows.append([one.parameter.name, f"{one.parameter.value:.5g}{unit}", f"{one.value:.5g}", interval, one.verdict])
        if one.verdict == "kept":
            reasons.append(f"{one.parameter.name} is not told: {one.why}.")
    table = aligned(rows)
    return "\n".join([*table, *([""] if reasons else []), *reasons, *advice])


def _untold(found: Identification) -> list[str]:
    """Return the names of the parameters that a motion could have told and the recording did not."""
    return [one.parameter.name for one in found.estimates.values() if one.verdict == "kept" and not one.parameter.given]


def by_term(gap: Gap) -> dict[str, list[float]]:
    """Return the errors of a gap as plain data, by term."""
    return {term: errors.tolist() for term, errors in gap.errors.items()}


def by_gap(gaps: Mapping[str, Gap]) -> dict[str, dict[str, list[float]]]:
    """Return the errors of several gaps as plain data."""
    return {which: by_term(gap) for which, gap in gaps.items()}


def residual_data(residual: Residual) -> dict[str, object]:
    """Return the figures of a residual model as plain data."""
    return {
        "used": residual.model is not None,
        "why": residual.why,
        "terms": [dataclasses.asdict(term) for term in residual.terms],
        "gaps": by_gap(residual.gaps),
        "cpu_s": residual.seconds,
    }


def _estimates(estimates: Mapping[str, Estimate]) -> dict[str, object]:
    return {
        name: {
            "value": one.value,
            "interval_90": None if one.interval is None else list(one.interval),
            "unit": one.parameter.unit,
            "verdict": one.verdict,
            "why": one.why,
        }
        for name, one in estimates.items()
    }


def as_data(found: Identification) -> dict[str, object]:
    """Return the figures of an identification as plain data."""
    from rlstack.identification.gap import HORIZONS_S

    return {
        "robot": found.robot.name,
        "bags": [str(recorded.path) for recorded in found.recordings],
        "parameters": _estimates(found.estimates),
        "sensors": _estimates(found.sensors),
        "horizons_s": list(HORIZONS_S),
        "gap_before": by_term(found.before),
        "gap_after": by_term(found.after),
        "driven_by": found.model.driven_by,
        "gaps": by_gap(found.gaps),
        "cpu_s": found.seconds,
    }
