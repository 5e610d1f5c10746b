"""Adaptation in flight, measured: a simulated Crazyflie that differs from its file, flown by `up deploy --adapt`.

The simulator (MuJoCo; in lock step, so that a busy machine delays no command, unless ``--pace``) has another robot
file than policy and guard, or its first motor weakens in the hover. Flown is the released policy; what the adaptation
says is printed with the robot's time and the wall's, and the distance from the goal over the last seconds before and
after the swap. Then the policies fly held-out starts of the batch simulator on the changed robot: the one of the file,
the adapted one, and with ``--trained`` one that was trained for the changed robot from the start.

    python benchmarks/adapt.py --load 1.3             # or --motor 0.8
    rlstack train quadrotor_hover --robot build/adapt/crazyflie_1.3_1.yaml --out build/adapt/trained
    python benchmarks/adapt.py --load 1.3 --trained build/adapt/trained/policy.onnx
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.bringup.deploy import checked_deployment
from rlstack.bringup.loop.flight import with_other_robot
from rlstack.bringup.status_monitor import Monitor
from rlstack.bringup.supervisor import Supervisor
from rlstack.identification.motion_model import Edit
from rlstack.identification.robot_file import edited, source_text
from rlstack.interfaces import topics
from rlstack.nodes.kind_topics import kind_topics
from rlstack.policies import load_policy
from rlstack.policies.released import find_policy
from rlstack.robots import load_robot
from rlstack.training.recipe import recipe_from_data
from rlstack.verification.request import Request
from rlstack.verification.runner import take
from rlstack.verification.training_evaluation import Evaluator, verification_of

HELD_OUT, HELD_OUT_SEED = 500, 77_000
"""Held-out starts, of a seed that no training, selection or verification has."""

DEPARTED, MARGINS = 200, ("mass_scale", "thrust_scale", "together")
"""Flights with the departures that a deployment asks for, on top of the payload, and which ones."""

HOVERS_S = 8.0
"""Time under the policy, once it is watched, until the motor weakens, s of the robot's time."""

SETTLES_S, JUDGED_S = 4.0, 5.0
"""Time after the swap until the hover counts, and how long it does, s of the robot's time."""


class Listener:
    """Hears what the adaptation says, in a ROS context of its own."""

    def __init__(self, space: str) -> None:
        import rclpy
        from rcl_interfaces.srv import SetParameters
        from rclpy.context import Context
        from rclpy.executors import SingleThreadedExecutor
        from rclpy.signals import SignalHandlerOptions

        self._context: Any = Context()
        rclpy.init(context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        self._node = rclpy.create_node("adapt_bench", namespace=space, context=self._context)
        self.said: list[str] = []
        kind = topics.type_of(topics.ADAPTATION)
        self._node.create_subscription(kind, topics.ADAPTATION, self._on_said, topics.quality("latched"))
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)

        self._set = self._node.create_client(SetParameters, f"{space}/robot/set_parameters")

    def weaken(self, factor: float) -> None:
        """Let the first motor of the simulated robot weaken to a share of its thrust."""
        from rcl_interfaces.srv import SetParameters
        from rclpy.parameter import Parameter as RosParameter

        value = RosParameter("rotor_thrust", value=[factor, 1.0, 1.0, 1.0]).to_parameter_msg()
        self._set.call_async(SetParameters.Request(parameters=[value]))

    def _on_said(self, message: Any) -> None:
        self.said.append(message.data)

    def spin(self) -> None:
        self._executor.spin_once(timeout_sec=0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--load", type=float, default=1.0, help="mass over the file's")
    parser.add_argument("--motor", type=float, default=1.0, help="thrust of its first motor over the file's")
    parser.add_argument("--pace", type=float, help="seconds of the robot a second, 1 is real time; default: lock step")
    parser.add_argument("--policy", default="quadrotor_hover")
    parser.add_argument("--trained", type=Path, help="a policy that was trained for the changed robot")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--most", type=float, default=240.0, help="end at the latest after so many s of the robot's time"
    )
    parser.add_argument("--out", type=Path, default=Path("build/adapt"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    _, text = source_text("crazyflie")
    real, changed = (given.out / f"crazyflie_{given.load:g}{end}.yaml" for end in ("", f"_{given.motor:g}"))
    heavier = Edit(("body", "mass_kg"), given.load * load_robot("crazyflie").body.mass_kg, "")
    real.write_text(edited(text, [heavier]))
    changed.write_text(edited(text, [heavier, Edit(("rotors", 0, "thrust_factor"), given.motor, "", adds=True)]))
    pace: dict[str, Any] = {"real_time_factor": given.pace} if given.pace else {"lock_step": True}
    system = checked_deployment(given.policy, "crazyflie", adapt=True, **pace, noise_seed=given.seed)
    system = with_other_robot(system, str(real))
    from rlstack.nodes.runtime import prepare_environment

    prepare_environment()
    space = next(one.namespace for one in system.processes if one.node_name == "guard")
    monitor, heard = Monitor([space], kind_topics(load_robot("crazyflie")).observed), Listener(space)
    distances: list[tuple[float, float]] = []
    modes: set[str] = set()
    told, ready_s, weakened_s, swapped_s, wall = 0, math.inf, math.inf, math.inf, time.monotonic()

    def tick() -> bool:
        nonlocal told, ready_s, weakened_s, swapped_s
        monitor.spin(0.02)
        heard.spin()
        at = monitor.seconds
        if math.isfinite(monitor.distance_m) and monitor.mode == "policy":
            distances.append((at, monitor.distance_m))
            ready_s = min(ready_s, at) if any(one.startswith("Ready") for one in heard.said) else ready_s
            if given.motor != 1.0 and math.isinf(weakened_s) and at > max(distances[0][0], ready_s) + HOVERS_S:
                weakened_s = at
                heard.weaken(given.motor)
                print(f"{at:6.1f} s of flight, {time.monotonic() - wall:6.1f} s: the motor weakens", flush=True)
        if monitor.armed:
            modes.add(monitor.mode)
        for sentence in heard.said[told:]:
            print(f"{at:6.1f} s of flight, {time.monotonic() - wall:6.1f} s: {sentence}", flush=True)
            if sentence.startswith("Swapped"):
                swapped_s = min(swapped_s, at)
        told = len(heard.said)
        return at < min(swapped_s + SETTLES_S + JUDGED_S, given.most)

    Supervisor(system).run(tick, done_at_once=True).report()
    seen = np.array(distances)
    if len(lost := seen[(seen[:, 0] > weakened_s) & (seen[:, 0] <= swapped_s), 1]):
        print(f"swapped {swapped_s - weakened_s:.1f} s after the motor weakened, up to {1e3 * lost.max():.0f} mm off")
    before = seen[(seen[:, 0] > swapped_s - JUDGED_S) & (seen[:, 0] <= swapped_s), 1]
    after = seen[seen[:, 0] > swapped_s + SETTLES_S, 1]
    if len(before) and len(after):
        print(f"distance from the goal: {1e3 * before.mean():.1f} mm before, {1e3 * after.mean():.1f} mm after")
    print(f"guard's modes once armed: {', '.join(sorted(modes))}")
    folder = next(Path(str(one.parameters["out"])) for one in system.processes if one.node_name == "adapt")
    named = {"of the file": find_policy(given.policy), "adapted": folder / "01" / "run" / "policy.onnx"}
    for name, policy in {**named, "trained for it": given.trained}.items():
        if policy is not None and policy.is_file():
            print(f"{name}: {held_out(policy, changed)}", flush=True)


def held_out(policy: Path, robot: Path) -> str:
    """Return how a policy flies held-out starts of its task on a robot, in the batch simulator."""
    spec = load_robot(str(robot))
    loaded = load_policy(policy, robot=spec)
    task = recipe_from_data(dict(loaded.contract.training["recipe"]), str(policy)).task_settings
    found = Evaluator(task, spec, HELD_OUT, HELD_OUT_SEED).evaluate(loaded).figures
    within, error_mm = 100.0 * found["success"], 1e3 * found["error_m"]
    said = f"{within:.1f}% of {HELD_OUT} starts succeed, median of the mean distances {error_mm:.2f} mm"
    asked = Request.of_policy(loaded, spec, str(robot), task=task, episodes=DEPARTED, seed=HELD_OUT_SEED)
    verifier = verification_of(task, spec.kind)(asked)
    for axis in verifier.axes():
        if axis.key in MARGINS:
            conditions = verifier.conditions(take(verifier.trials, 0, DEPARTED))
            flown = verifier.run_under(axis.apply(axis.required, conditions), None)
            share = 100.0 * float(verifier.score(flown, {})["success"] or 0.0)
            said += f"; {axis.title.lower()}, {axis.text(axis.required)}: {share:.1f}% of {DEPARTED}"
    return said


if __name__ == "__main__":
    main()
