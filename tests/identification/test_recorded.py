"""Bags are read as far as they go, by names and by stamps; what is missing or in doubt is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rosbags")

from rlstack.errors import UserError
from rlstack.identification.recorded import Recorded, _arrivals, read_recording
from tests.identification.conftest import write_flight

ROTORS = ("m1", "m2", "m3", "m4")
SIGNALS = ("position", "orientation", "linear_velocity", "angular_velocity", "rotor_speed")
TIME_S = np.arange(0.0, 6.0, 0.01)
COMMAND = np.arange(4.0) * 100.0 + 1000.0 + TIME_S[:, None]
MOTION = {
    "position": np.stack([TIME_S, 0 * TIME_S, 0 * TIME_S + 1.0], axis=1),
    "orientation": np.tile([0.0, 0.0, 0.0, 1.0], (len(TIME_S), 1)),
    "linear_velocity": np.tile([1.0, 0.0, 0.0], (len(TIME_S), 1)),
    "angular_velocity": np.zeros((len(TIME_S), 3)),
}


def read(bag: Path, **more: Any) -> Recorded:
    return read_recording(bag, SIGNALS, reference="position", names={"rotor_speed": ROTORS}, **more)


def test_signals_are_in_the_robots_order_and_on_the_clock_of_odometry(tmp_path: Path) -> None:
    recorded = read(write_flight(tmp_path / "bag", TIME_S, MOTION, COMMAND))
    np.testing.assert_allclose(recorded.tracks["cmd/rotors"].values["rotor_speed"], COMMAND)
    np.testing.assert_allclose(recorded.tracks["odom"].values["position"], MOTION["position"])
    for track in recorded.tracks.values():
        np.testing.assert_allclose(track.time_s, TIME_S, atol=1e-9)
    assert not recorded.notes


def test_a_bag_that_was_cut_off_is_read_up_to_there(tmp_path: Path) -> None:
    bag = write_flight(tmp_path / "bag", TIME_S, MOTION, COMMAND)
    (file,) = bag.glob("*.mcap")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 3])
    with pytest.raises(UserError, match=r"cannot be read as a bag|readable up to byte|no messages"):
        read(bag)
    file.write_bytes(b"no bag at all")
    with pytest.raises(UserError, match="bag"):
        read(bag)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    bag = write_flight(tmp_path / "bag", TIME_S, MOTION, COMMAND, omit="cmd/rotors")
    with pytest.raises(UserError, match=r"has no topic /crazyflie/cmd/rotors, .* It has: /crazyflie/odom"):
        read(bag)
    short = slice(0, 200)
    motion = {name: array[short] for name, array in MOTION.items()}
    bag = write_flight(tmp_path / "short", TIME_S[short], motion, COMMAND[short])
    with pytest.raises(UserError, match="at least 5 s are needed"):
        read(bag)
    bag = write_flight(tmp_path / "other", TIME_S, MOTION, COMMAND, rotors=("a", "b", "c", "d"))
    with pytest.raises(UserError, match="does not fit the robot"):
        read(bag)


def test_clocks_that_disagree_are_aligned_and_said_or_refused(tmp_path: Path) -> None:
    bag = write_flight(tmp_path / "apart", TIME_S, MOTION, COMMAND, command_clock_s=120.0)
    recorded = read(bag)
    assert len(recorded.notes) == 1 and "-119.998 s off" in recorded.notes[0].replace("+", "")
    np.testing.assert_allclose(recorded.tracks["cmd/rotors"].time_s, TIME_S + 0.002, atol=1e-6)
    bag = write_flight(tmp_path / "drifting", TIME_S, MOTION, COMMAND, command_clock_s=120.0 + 0.01 * TIME_S)
    with pytest.raises(UserError, match=r"two clocks that move by \d+ ms against each other"):
        read(bag)


def test_a_command_counts_from_when_it_came_on_the_clock_of_the_sensors() -> None:
    # a simulation that stands still from 0.1 to 0.3 s of receipt: times of receipt alone would be wrong
    ms = 1_000_000
    ticks = [(0, 0), (50 * ms, 50 * ms), (100 * ms, 100 * ms), (300 * ms, 102 * ms), (301 * ms, 104 * ms)]
    arrived = np.array([60, 250, 302]) * ms
    stamps = np.array([50, 100, 110]) * ms  # the last one answers an observation that was recorded after it
    np.testing.assert_allclose(_arrivals(arrived, stamps, ticks, 0), [0.05, 0.1, 0.11])
