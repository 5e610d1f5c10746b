"""Adaptation of a policy in flight: what the last seconds tell of the robot, learning for that, and a quick proof."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlstack import schema
from rlstack.data.bags.bag_writer import BagTopic, BagWriter
from rlstack.data.bags.definitions import definition_of
from rlstack.data.bags.mcap_file import Message
from rlstack.files import write_atomically, write_json
from rlstack.identification.identify import identify, read_all
from rlstack.identification.kind_adaptation import Told
from rlstack.identification.recorded import Recorded
from rlstack.identification.robot_file import edited, moved_model, source_text
from rlstack.identification.shooting import WASHOUT_S
from rlstack.kinds import find_kind
from rlstack.policies import Policy, load_policy
from rlstack.policies.record import RECORD_NAME
from rlstack.policies.record_check import ADAPTED_FROM
from rlstack.policies.signing import signed
from rlstack.robots import RobotSpec, load_robot
from rlstack.sim.vector import BATCH
from rlstack.training import run
from rlstack.training.adaptation_check import adaptable
from rlstack.training.adaptation_messages import Candidate, Origin
from rlstack.training.origin import read_origin
from rlstack.verification.quick_grid import TRIALS, Elsewhere, quick_grid
from rlstack.verification.reality import Reality
from rlstack.verification.report import RECORD_VERSION, environment
from rlstack.verification.request import Request
from rlstack.yaml_files import parse_yaml

LEAST_FLIGHT_S = 1.4
"""Least time of free motion that is fitted: thrust over mass is then told to a few permille."""

_FLIGHT = "flight"
"""The recording that was looked at."""

_SEGMENTS_S = (0.2,)
"""Lengths of the fit's segments: long enough to tell, and short enough that a weak motor does not turn the body far."""

_STREAM = 0xADA9
"""Seed of the proof's trials, which neither training nor any verification has."""


class Adapter:
    """Adapts one policy, again and again, each time from the proven one.

    Args:
        origin: The policy and its robot.
        folder: Where each adaptation's recording, robot file, run and record are kept.
        elsewhere: Another process that proves meanwhile; None: there is none.

    Raises:
        UserError: See :func:`rlstack.training.adaptation_check.adaptable`, or a file is not the one that was checked.
    """

    def __init__(self, origin: Origin, folder: Path, elsewhere: Elsewhere | None = None) -> None:
        self.origin, self.folder, self._elsewhere = origin, folder, elsewhere
        self.robot = load_robot(origin.robot, sha256=origin.robot_sha256)
        self._policy = load_policy(origin.policy, robot=self.robot, sha256=origin.sha256)
        self._recipe, self._kind = adaptable(self._policy, self.robot)
        read_origin(origin.policy, self._recipe.algorithm)

    def warm(self) -> None:
        """Do all of it once, briefly, so that nothing has to be loaded or compiled in flight."""
        robot = self._robot_file(self.folder / "warm_up", self._kind.unchanged())
        learned = self._learn(robot, self.folder / "warm_up" / "run", steps=1)
        self._grid(learned, load_robot(robot), robot, margins=())

    def look(self, messages: Sequence[Message]) -> Told:
        """Return what the last seconds of flight tell of the robot.

        Args:
            messages: Odometry and commands, byte for byte, in the order of their receipt.

        Raises:
            UserError: They do not tell, because it hardly flew, or something else moved it.
        """
        bag = self.folder / _FLIGHT  # only that of an adaptation is kept, there
        shutil.rmtree(bag, ignore_errors=True)
        _write(bag, messages)
        space = self.origin.namespace.strip("/")
        return self.told(read_all(self.robot, [bag], space, shortest_s=LEAST_FLIGHT_S + WASHOUT_S))

    def told(self, recordings: Sequence[Recorded]) -> Told:
        """Return what some seconds of flight tell of the robot.

        Raises:
            UserError: See :meth:`look`.
        """
        model = find_kind(self.robot.kind).load("identification").model(self.robot, recordings)
        known = {
            one.name: one.value for one in model.parameters if one.name not in self._kind.free and not one.observed
        }
        found = identify(
            self.robot, list(recordings), known, least_s=LEAST_FLIGHT_S, segments_s=_SEGMENTS_S, whole=True
        )
        return self._kind.told(self.robot, found.estimates)

    def adapt(self, told: Told, number: int) -> Candidate:
        """Return the policy fine-tuned for what was told, with the record of its proof beside it.

        Raises:
            UserError: Learning diverged, or a file cannot be written.
        """
        folder = self.folder / f"{number:02d}"
        robot = self._robot_file(folder, told)
        if (bag := self.folder / _FLIGHT).is_dir():
            bag.rename(folder / _FLIGHT)
        spec, began = load_robot(robot), time.process_time()
        policy = self._learn(robot, folder / "run", steps=self._recipe.steps)
        learned_s, began = time.process_time() - began, time.process_time()
        grid = self._grid(policy, spec, robot)
        proved_s = time.process_time() - began
        loaded = load_policy(policy, robot=spec)
        write_json(policy.with_name(RECORD_NAME), signed(self._record(loaded, spec, told, grid)))
        nominal = grid.axes[0].policy.points[0].figures.get("error_m") or float("nan")
        conditions = len(grid.axes) + 1
        failures = tuple(grid.failures)
        return Candidate(policy, loaded.sha256, failures, grid.trials, conditions, nominal, learned_s, proved_s)

    def _robot_file(self, folder: Path, told: Told) -> Path:
        """Write the robot file with what was told; its name stays, as the policy's is for a robot of that name."""
        source, text = source_text(self.origin.robot)
        edits = [*told.edits, *moved_model(parse_yaml(text, str(source)), source)]
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.robot.name}.yaml"
        head = f"# {self.robot.name} as it flew: {told.sentence}, by `rlstack up deploy --adapt`.\n"
        write_atomically(path, head + edited(text, edits), what="the robot file")
        return path

    def _learn(self, robot: Path, folder: Path, steps: int) -> Path:
        recipe = replace(self._recipe, robot=str(robot), fine_tuned_from=self.origin.policy, steps=steps)
        return run.start(recipe, folder, evaluate=False).policy

    def _grid(self, policy: Path, spec: RobotSpec, robot: Path, margins: tuple[str, ...] | None = None) -> Reality:
        how: dict[str, Any] = {"task": self._recipe.task_settings, "episodes": TRIALS, "seed": _STREAM}
        request = Request.of_policy(load_policy(policy, robot=spec), spec, str(robot), margins=margins, **how)
        return quick_grid(request, self._elsewhere)

    def _record(self, policy: Policy, spec: RobotSpec, told: Told, grid: Reality) -> dict[str, Any]:
        success = [one.policy.points[0].success for one in grid.axes[:1]]
        return {
            "schema_version": RECORD_VERSION,
            "policy": policy.contract.name,
            "sha256": policy.sha256,
            "contract_sha256": policy.contract.sha256,
            "task": policy.contract.task,
            "robot": spec.name,
            "robot_sha256": spec.sha256,
            ADAPTED_FROM: self.origin.sha256,
            "told": told.sentence,
            "passed": not grid.failures,
            "reasons": grid.failures,
            "worth": f"Adapted in flight, and proven in process on a quick grid: {grid.trials} flights at each required"
            f" margin. It may take the place of the policy {self.origin.sha256[:16]}... in flight, and is deployed by"
            " nothing else: verify it for that.",
            "left_out": {},
            "backends": {BATCH: {"flown_in": "batch simulator", "episodes": grid.trials, "success": success[0]}},
            "reality": grid.to_json(),
            "provenance": {"seed": _STREAM, "recipe": schema.to_data(self._recipe), **environment()},
        }


def _write(bag: Path, messages: Sequence[Message]) -> None:
    """Write a bag of messages."""
    from rlstack.interfaces.topics import TYPES

    writer = BagWriter(bag)
    for name in dict.fromkeys(message.topic for message in messages):
        kind = next(kind for topic, kind in TYPES.items() if name.endswith(f"/{topic}"))
        writer.add_topic(BagTopic(name, kind, definition_of(kind)))
    for message in messages:
        writer.write(*message)
    writer.close()
