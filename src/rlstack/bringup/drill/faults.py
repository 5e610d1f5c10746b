"""The table of faults: what each one does to the deployed chain, and the key of its safe answer.

A fault's ``answer`` is looked up in the robot kind's table (``kinds/<kind>/drill.py``); a kind without an entry leaves
the fault out.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from rlstack.bringup.drill import changes, disturbances
from rlstack.bringup.drill.changes import Change
from rlstack.bringup.drill.fault import COMMANDER, Action, Fault

if TYPE_CHECKING:
    from rlstack.bringup.drill.chain import Chain

LATE_S = 0.2
LOW_RATE = 0.4
"""Share of the control rate; guards warn below a half."""
CLOCK_JUMP_NS, CLOCK_BACK_NS = 10 * 10**9, 10**9
STALE_NS = 10**9 // 2


def on_command(make: Callable[[], Change]) -> Action:
    """Return an action that changes the policy's commands."""
    return lambda chain: chain.policy.set_change(make())


def on_observation(make: Callable[[], Change]) -> Action:
    """Return an action that changes the topic that commands answer."""
    return lambda chain: chain.observed.set_change(make())


def edit_command(name: str) -> Action:
    """Return an action that edits every command of the policy."""
    return lambda chain: chain.policy.set_change(changes.edited(chain.policy.kind, chain.drill.command_edits[name]))


def edit_observation(name: str, *, once: bool = False) -> Action:
    """Return an action that edits every observation, or one."""

    def act(chain: Chain) -> None:
        edit = chain.drill.observation_edits[name]
        chain.observed.set_change(changes.edited(chain.observed.kind, edit, once=once))

    return act


def slow_sensor(chain: Chain) -> None:
    """Pass on so few observations that they come at less than half the control rate."""
    robot = chain.drill.robot
    rate_hz = robot.sensors[chain.drill.observed].rate_hz
    chain.observed.set_change(changes.one_of(math.ceil(rate_hz / (LOW_RATE * robot.control_rate_hz))))


def on_clock(by_ns: int) -> Action:
    """Return an action that sets the robot's clock, which stamps its observations."""

    def act(chain: Chain) -> None:
        observations, commands = changes.another_clock(by_ns)
        chain.observed.set_change(observations)
        chain.command.set_change(commands)

    return act


def on_link(for_s: float | None) -> Action:
    """Return an action that stops everything between robot node and the others, for a time or for good."""

    def act(chain: Chain) -> None:
        for relay in (*chain.sensors.values(), chain.command):
            relay.set_change(changes.lost())
        if for_s is not None:
            chain.at(for_s, chain.clear)

    return act


def send(process: str, number: int) -> Action:
    """Return an action that sends a signal to a process."""
    return lambda chain: chain.signal(process, number)


POLICY_FAULTS = (
    Fault(
        name="policy_killed",
        text="policy process ended by SIGKILL",
        answer="late",
        begin=send(COMMANDER, signal.SIGKILL),
        kills=(COMMANDER,),
    ),
    Fault(
        name="policy_frozen",
        text="policy process stopped by SIGSTOP",
        answer="late",
        begin=send(COMMANDER, signal.SIGSTOP),
        end=send(COMMANDER, signal.SIGCONT),
    ),
    Fault(
        name="policy_nan",
        text="policy commands NaN",
        answer="malformed",
        begin=edit_command("nan"),
        edit="command.nan",
    ),
    Fault(
        name="policy_beyond",
        text="policy commands far beyond the range",
        answer="limited",
        begin=edit_command("beyond"),
        edit="command.beyond",
        watch_s=1.5,
    ),
    Fault(
        name="policy_short",
        text="policy commands one element too few",
        answer="malformed",
        begin=edit_command("short"),
        edit="command.short",
    ),
    Fault(
        name="policy_foreign",
        text="policy of another robot: other names",
        answer="malformed",
        begin=edit_command("foreign"),
        edit="command.foreign",
    ),
    Fault(
        name="policy_slow",
        text="policy ten times too slow",
        answer="late",
        begin=on_command(lambda: changes.slow(10)),
    ),
    Fault(
        name="policy_stale",
        text="commands stamped 0.5 s in the past",
        answer="late",
        begin=on_command(lambda: changes.shifted(-STALE_NS)),
    ),
    Fault(
        name="policy_ahead",
        text="commands stamped 0.5 s in the future",
        answer="late",
        begin=on_command(lambda: changes.shifted(STALE_NS)),
    ),
    Fault(
        name="policy_malformed",
        text="commands cut short (bytes)",
        answer="late",
        begin=on_command(changes.cut_short),
    ),
    Fault(
        name="policy_twice",
        text="every command sent twice",
        answer="unchanged",
        begin=on_command(changes.twice),
    ),
    Fault(
        name="second_policy",
        text="second publisher on the policy's topic",
        answer="second policy",
        begin=disturbances.second_publisher("policy"),
        check=disturbances.named("guard"),
        end=disturbances.no_second_publisher,
        edit="command.beyond",
        watch_s=1.5,
    ),
    Fault(
        name="second_robot",
        text="second publisher on the robot's command topic",
        answer="unchanged",
        begin=disturbances.second_publisher("command"),
        check=disturbances.named("robot"),
        end=disturbances.no_second_publisher,
        edit="command.beyond",
        watch_s=3.0,
    ),
)

SENSOR_FAULTS = (
    Fault(
        name="sensor_lost",
        text="no observations any more",
        answer="blind",
        begin=on_observation(changes.lost),
    ),
    Fault(
        name="sensor_frozen",
        text="the same observation for ever, same stamp",
        answer="blind",
        begin=on_observation(lambda: changes.frozen(new_stamps=False)),
    ),
    Fault(
        name="sensor_same",
        text="the same values for ever, new stamps",
        answer="same values",
        begin=on_observation(lambda: changes.frozen(new_stamps=True)),
        watch_s=1.0,
    ),
    Fault(
        name="sensor_late",
        text="observations 200 ms late",
        answer="late observations",
        begin=on_observation(lambda: changes.late(LATE_S)),
        watch_s=2.0,
    ),
    Fault(
        name="sensor_jump_once",
        text="one observation with a jump",
        answer="jump once",
        begin=edit_observation("jump", once=True),
        edit="observation.jump",
    ),
    Fault(
        name="sensor_jump",
        text="observations jump for good",
        answer="jump",
        begin=edit_observation("jump"),
        edit="observation.jump",
        watch_s=1.0,
    ),
    Fault(
        name="sensor_nan",
        text="observations are NaN",
        answer="blind",
        begin=edit_observation("nan"),
        edit="observation.nan",
    ),
    Fault(
        name="sensor_frame",
        text="observations in another frame",
        answer="blind",
        begin=edit_observation("frame"),
        edit="observation.frame",
    ),
    Fault(
        name="sensor_malformed",
        text="observations cut short (bytes)",
        answer="blind",
        begin=on_observation(changes.cut_short),
    ),
    Fault(
        name="sensor_twice",
        text="every observation sent twice",
        answer="unchanged",
        begin=on_observation(changes.twice),
    ),
    Fault(
        name="sensor_order",
        text="one stamp 1 ns in the past",
        answer="unchanged",
        begin=on_observation(changes.out_of_order),
    ),
    Fault(
        name="clock_ahead",
        text="stamps jump 10 s ahead for good",
        answer="clock",
        begin=on_clock(CLOCK_JUMP_NS),
        watch_s=1.0,
    ),
    Fault(
        name="clock_back",
        text="stamps jump 1 s back for good",
        answer="clock",
        begin=on_clock(-CLOCK_BACK_NS),
        watch_s=1.0,
    ),
    Fault(
        name="sensor_slow",
        text="observations below half the control rate",
        answer="low rate",
        begin=slow_sensor,
        check=disturbances.warned(" Hz"),
        watch_s=2.5,
    ),
)

SYSTEM_FAULTS = (
    Fault(name="link_short", text="link lost for 0.2 s", answer="link short", begin=on_link(0.2), watch_s=1.0),
    Fault(name="link_2s", text="link lost for 2 s", answer="link", begin=on_link(2.0), watch_s=2.5),
    Fault(name="link_gone", text="link lost for good", answer="link", begin=on_link(None)),
    Fault(
        name="battery_low",
        text="battery low",
        answer="battery low",
        begin=disturbances.battery("low"),
        check=disturbances.warned("battery"),
        watch_s=1.5,
        end=disturbances.full_battery,
    ),
    Fault(
        name="battery_critical",
        text="battery critical",
        answer="battery critical",
        begin=disturbances.battery("critical"),
        end=disturbances.full_battery,
    ),
    Fault(name="estop", text="emergency stop", answer="estop", begin=disturbances.estop),
    Fault(
        name="disk_full",
        text="disk full under a recording",
        answer="unchanged",
        ready=disturbances.start_recording,
        begin=disturbances.fill_disk,
        check=disturbances.disk_was_full,
        end=disturbances.stop_recording,
        watch_s=disturbances.DISK_WATCH_S,
    ),
    Fault(
        name="busy",
        text="processor busy for 2 s",
        answer="busy",
        ready=disturbances.start_idle,
        begin=disturbances.busy,
        end=disturbances.idle,
        watch_s=disturbances.BUSY_S,
    ),
    Fault(
        name="malformed",
        text="malformed bytes on every topic",
        answer="unchanged",
        ready=disturbances.find_topics,
        begin=disturbances.malformed_everywhere,
        end=disturbances.forget_topics,
    ),
    Fault(
        name="parameters",
        text="parameters set in flight, valid ones",
        answer="unchanged",
        begin=disturbances.set_parameters(valid=True),
        check=disturbances.parameters_were(True),
    ),
    Fault(
        name="parameters_bad",
        text="parameters set in flight, invalid ones",
        answer="unchanged",
        begin=disturbances.set_parameters(valid=False),
        check=disturbances.parameters_were(False),
    ),
    Fault(
        name="guard_killed",
        text="guard process ended by SIGKILL",
        answer="guard gone",
        begin=send("guard", signal.SIGKILL),
        kills=("guard",),
    ),
    Fault(
        name="robot_killed",
        text="robot node ended by SIGKILL, and back",
        answer="robot gone",
        begin=send("robot", signal.SIGKILL),
        check=disturbances.stays_off_when_back,
        kills=("robot",),
    ),
)

FAULTS = (*POLICY_FAULTS, *SENSOR_FAULTS, *SYSTEM_FAULTS)
