"""The commands `rlstack verify` and `rlstack fly`: options and entry points."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro

from rlstack.errors import UserError
from rlstack.view.watching import person_watches, view_wanted

_File = Annotated[Path | None, tyro.conf.arg(metavar="FILE")]


@dataclass(frozen=True)
class Verify:
    """Verify policies in held-out trials; write reports and print pass or fail.

    Quadrotors fly from held-out starts with gusts, mass and motor changes; bases drive held-out maps, beside classical
    planners; arms do held-out trials. The trials run in each simulator in process, for statistics, and then over ROS 2
    topics in lock step, through the same policy and guard nodes that are deployed (the batch simulator only in
    process). `rlstack up deploy` requires the record verify.json beside a policy. The exit status is 0 for passed and 1
    for failed.

    With --driver and no policy, a classical planner drives the same maps and gets a report; over topics, its node
    replaces the policy node. --driver astar_policy also takes a policy, which follows the planned paths.
    """

    FLAGS: ClassVar[tuple[Any, ...]] = ()  # --topics and --no-topics, --replay and --no-replay

    policy: tyro.conf.Positional[tuple[Path, ...]]
    """The policy file, or the name of a released policy; with several, a table compares them."""
    backends: str = ""
    """Simulators, separated by commas, such as batch,mujoco,pybullet; default: every installed one (with --driver,
    batch)."""
    topics: bool = True
    """Also verify over topics, which deployment requires."""
    episodes: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Trials in each simulator; default: those of a proof within four minutes on two processors, docs/verification.md.
    Too few are not significant."""
    thorough: bool = False
    """Run the large numbers of trials, for smaller intervals; takes several times as long."""
    seed: int = 1
    """Seed of start states and disturbances, or maps."""
    robot: str = ""
    """A robot's name or file; default: the robot that the policy was trained for."""
    drivers: str | None = None
    """Planners to compare a base's policy with, separated by commas, such as dwa,astar_dwa; the first is the reference
    for judging it. Default: those of its task."""
    margins: str | None = None
    """Margins of the reality grid to measure, separated by commas, such as observation_delay_s,mass_scale, or none;
    default: all, which passing requires."""
    driver: str = ""
    """A planner to verify instead of a policy, such as astar_dwa."""
    task: str = "base_navigation"
    """The task whose maps --driver drives."""
    replay: bool = True
    """Also make a film of trials, and a replay of them in the report, which take some seconds."""
    view: bool = field(default_factory=person_watches)
    """Show figures and trials of each simulator in a browser as soon as they are there; default: if a person sits at
    the terminal."""
    ray: Annotated[str, tyro.conf.arg(metavar="ADDRESS")] = ""
    """Run trials in process and margins on a Ray cluster, with the same figures: local starts one of this machine;
    ray://HOST:10001 or auto. Its machines must see the policy's file. Default: without Ray."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """The report's folder; left out, it is the policy's folder."""
    json: _File = None
    """Write the figures to this file as well."""

    def run(self) -> int:
        """Verify, write the report, and print the figures."""
        from rlstack.bringup.ray_spread import spread_over
        from rlstack.bringup.verification_watch import watched
        from rlstack.bringup.verify import verify_all, verify_planner
        from rlstack.files import write_json
        from rlstack.policies import find_policy

        leads = self.driver == "astar_policy"
        if leads and len(self.policy) != 1:
            raise UserError("astar_policy needs a policy: rlstack verify POLICY --driver astar_policy.")
        if not leads and bool(self.policy) == bool(self.driver):
            raise UserError(
                "Give a policy or --driver, one of the two: rlstack verify POLICY, such as"
                " runs/quadrotor_hover-001/policy.onnx."
            )
        named = _names(self.backends)
        common: dict[str, Any] = {"episodes": self.episodes, "seed": self.seed, "out": self.out, "replay": self.replay}
        common |= {"robot": self.robot, "backends": named if self.backends else None, "topics": self.topics}
        verified: Any
        for one in self.policy:
            find_policy(one)  # before Ray starts
        with spread_over(self.ray) as spread, watched(self.view) as shown:
            common["spread"] = spread
            if self.driver:
                led = str(self.policy[0]) if leads else ""
                verified = verify_planner(self.driver, policy=led, task=self.task, **common, **shown)
            else:
                drivers = None if self.drivers is None else _names(self.drivers)
                margins = None if self.margins is None else _names(self.margins)
                common |= {"thorough": self.thorough, "margins": margins}
                verified = verify_all(self.policy, drivers=drivers, **common, **shown)
        print(verified.table())
        if self.json is not None:
            write_json(self.json, verified.as_data())
        return 130 if verified.incomplete else 0 if verified.passed else 1


@dataclass(frozen=True)
class Fly:
    """Train a recipe, verify its policy in simulation and over ROS 2 topics, and suggest the next commands."""

    recipe: tyro.conf.Positional[str] = "quadrotor_hover"
    """A training recipe's name or file."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """The run's folder, which must not exist yet; left out, the next free one under runs/."""
    seed: Annotated[int | None, tyro.conf.arg(metavar="SEED")] = None
    """Seed of training; default: the recipe's."""
    view: bool = False
    """Show training and verification in a browser, whose address is printed; default: if a person sits at the
    terminal."""
    no_view: bool = False
    """Show nothing in a browser."""
    json: _File = None
    """Write the verification's figures to this file as well."""

    def run(self) -> int:
        """Train, verify and print."""
        from rlstack.bringup.fly import fly

        view = view_wanted(self.view, self.no_view)
        return fly(self.recipe, out=self.out, seed=self.seed, view=view, json=self.json)


def _names(given: str) -> tuple[str, ...]:
    """Split a comma-separated list."""
    return tuple(filter(None, (name.strip() for name in given.split(","))))
