"""The driver against autopilots that speak MAVLink over UDP: what the conformance suite asks of no driver."""

from __future__ import annotations

import hashlib
import math
import os
import select
import socket
import threading
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pymavlink")

from rlstack.errors import UserError
from rlstack.hardware.drivers.mavlink import BACKEND
from rlstack.interfaces.backend import Located
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.robots.frames import yaw
from tests.support.peers._mavlink_wire import MESSAGES, checksum
from tests.support.peers.mavlink import AUTO_LAND, POSCTL, ArduPilot, Autopilot, Px4
from tests.support.rates_pilot import Holding, fly, rates_to


def soon(condition: Callable[[], object], within_s: float = 3.0) -> bool:
    end = time.monotonic() + within_s
    while not condition() and time.monotonic() < end:
        time.sleep(0.002)
    return bool(condition())


def connected(peer: Autopilot, options: str = "") -> Any:
    backend = BACKEND(peer.robot, uri=peer.uri + options)
    backend.connect()
    return backend


def refused(peer: Autopilot, options: str = "") -> str:
    backend = BACKEND(peer.robot, uri=peer.uri + options)
    with pytest.raises(UserError) as caught:
        backend.connect()
    return str(caught.value)


def test_px4_takes_off_holds_a_place_on_a_link_that_drops_frames_and_lands_when_set_points_end() -> None:
    """5% of the frames are lost both ways, which costs no fault; then the pilot of the link falls silent."""
    with Px4() as peer:
        backend = connected(peer)
        peer.loss = 0.05
        goal = [0.5, -0.3, 1.0]
        held = Holding(backend, goal, 0.1)
        reading = fly(backend, goal, 20.0, until=held)
        assert peer.armed and peer.failsafes == 0
        assert 10 < len(peer.setpoints) < held.calls - 5, "frames were lost"
        assert "failsafe of PX4" in backend.let_go()
        assert np.linalg.norm(reading.signals["position"] - goal) < 0.15
        assert np.linalg.norm(np.array(peer.airframe.position) - goal) < 0.15
        assert soon(lambda: peer.mode == AUTO_LAND) and peer.failsafes == 1
        assert soon(lambda: backend._engagement.reason)
        assert "its failsafe flies, in AUTO.LAND" in backend._engagement.reason
        count = len(peer.setpoints)
        sent = backend.write(rates_to(backend.read(), goal))
        assert not sent["rates_thrust"].any()
        time.sleep(0.05)
        assert len(peer.setpoints) == count, "nothing is sent while its failsafe flies"
        backend.disarm()
        assert soon(lambda: not peer.armed)
        backend.close()


def test_ardupilot_flies_by_attitude_and_position_without_gps_mode() -> None:
    with ArduPilot() as peer:
        backend = connected(peer, "?mode=GUIDED_NOGPS")
        goal = [0.0, 0.4, 0.8]
        reading = fly(backend, goal, 20.0, until=Holding(backend, goal, 0.1))
        assert peer.mode == 20 and backend.report["firmware"] == "ArduPilot 4.5.7"
        assert np.linalg.norm(reading.signals["position"] - [0.0, 0.4, 0.8]) < 0.15
        assert reading.signals["linear_acceleration"][2] == pytest.approx(9.8, abs=1.0)
        peer.mode = 5  # the pilot's switch
        assert soon(lambda: backend._engagement.reason)
        backend.write(rates_to(backend.read(), [0.0, 0.0, 0.8]))
        backend.disarm()
        time.sleep(0.1)
        assert peer.armed, "a pilot who flies by hand keeps the motors"
        backend.close()


def test_one_that_is_let_go_in_the_air_is_not_disarmed_not_even_by_closing() -> None:
    with ArduPilot() as peer:
        backend = connected(peer)
        fly(backend, [0.0, 0.0, 0.8], 20.0, until=Holding(backend, [0.0, 0.0, 0.8], 0.1))
        backend.close()
        time.sleep(0.1)
        assert peer.armed and not peer.airframe.on_ground


def test_what_the_body_does_is_what_is_read() -> None:
    with Px4() as peer:
        backend = connected(peer)
        body = peer.airframe
        heading = 0.7
        body.q = [0.0, 0.0, math.sin(heading / 2), math.cos(heading / 2)]
        body.position = [3.0, -2.0, 0.0]
        before = backend.read().time_s
        assert soon(lambda: backend.read().time_s > before + 0.05)
        reading = backend.read()
        assert yaw(reading.signals["orientation"]) == pytest.approx(heading, abs=1e-5)
        assert reading.signals["position"][:2] == pytest.approx([3.0, -2.0], abs=1e-5)
        assert abs(time.time() - reading.time_s) < 0.05
        backend.close()


def test_an_arming_that_is_refused_says_why_and_can_be_tried_again() -> None:
    command = {"rates_thrust": np.array([0.5, 0.4, -0.3, 2.0])}
    with ArduPilot() as peer:
        peer.arming_failures = ["PreArm: Compass not calibrated"]
        backend = connected(peer)
        with pytest.raises(ValueError, match=r"arming is refused \(failed\): PreArm: Compass not calibrated"):
            fly(backend, [0.0, 0.0, 1.0], 3.0)
        assert not peer.armed
        peer.arming_failures = []
        backend.disarm()
        assert soon(lambda: backend.write(command)["rates_thrust"].any() or time.sleep(0.01))
        assert peer.armed and peer.mode == 4
        assert soon(lambda: peer.setpoints[-1][1][0] != 0.0)
        assert peer.setpoints[-1][1][:3] == pytest.approx([0.5, -0.4, 0.3]), "FRD"
        backend.close()
        assert not peer.armed


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"number": 4}, "autopilot type 4, not PX4 or ArduPilot"),
        ({"vehicle": 1}, "vehicle of type 1"),
        ({"version": (1, 11, 3)}, "version 1.11.3; this driver needs 1.13"),
        ({"systems": [1, 7]}, "systems 1, 7: choose one by system="),
        ({"armed": True, "mode": POSCTL}, "armed already"),
        ({"slow": 0.4}, r"4\d times a second, the robot file says 100"),
        ({"mute": {331}}, "does not measure position"),
        ({"mute": {111}}, "TIMESYNC"),
        ({"deaf": {511}}, "does not agree to send"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_what_does_not_fit_is_refused_before_anything_moves(
    change: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import re

    monkeypatch.setattr("rlstack.hardware.drivers.mavlink._ANSWER_S", 0.6)
    peer = Px4()
    vars(peer).update(change)
    with peer:
        assert re.search(said, refused(peer))
        assert not peer.setpoints


def test_parameters_that_do_not_fit_are_refused_with_both_values() -> None:
    with ArduPilot() as peer:
        peer.parameters["GUID_OPTIONS"] = 0
        assert "GUID_OPTIONS is 0, must be 8 (its thrust is thrust" in refused(peer)
    with Px4() as peer:
        assert "hovers at 0.55 of its motors' top speed, but by hover_thrust = 0.10 it is 0.14" in refused(
            peer, "?hover_thrust=0.1"
        )
        assert "mode=GUIDED" in refused(peer, "?mode=GUIDED")
        assert "CBRK_FLIGHTTERM is 121212, must be 0" in refused(peer, "?termination=true")


def test_the_driver_listens_where_the_uri_says_and_a_port_in_use_is_refused() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        with pytest.raises(UserError, match=f"127.0.0.1:{port} is in use"):
            BACKEND(load_quadrotor("x500_rates"), uri=f"udp://127.0.0.1:{port}").connect()
    with Px4() as peer:
        peer.listen(port)
        backend = BACKEND(peer.robot, uri=f"udpin://127.0.0.1:{port}")
        backend.connect()
        assert backend.report["odometry"].endswith("of 100 Hz")
        backend.close()


@contextmanager
def serial_line(peer: Autopilot) -> Iterator[str]:
    """Put a pseudo-terminal before an autopilot, which cuts frames anywhere; return its path."""
    ours, theirs = os.openpty()
    tty.setraw(ours)
    tty.setraw(theirs)
    over, (host, port) = threading.Event(), peer.uri.removeprefix("udpout://").split(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        link.connect((host, int(port)))

        def relay() -> None:
            while not over.is_set():
                for source in select.select([ours, link], [], [], 0.01)[0]:
                    if source is link:
                        data = link.recv(2048)
                        for at in range(0, len(data), 50):
                            os.write(ours, data[at : at + 50])
                    else:
                        link.send(os.read(ours, 4096))

        thread = threading.Thread(target=relay)
        thread.start()
        try:
            yield os.ttyname(theirs)
        finally:
            over.set()
            thread.join()
            os.close(ours)
            os.close(theirs)


def test_a_serial_port_does_as_well_and_one_driver_has_it_alone() -> None:
    with ArduPilot() as peer, serial_line(peer) as path:
        uri = f"serial://{path}?baud=921600"
        backend = BACKEND(peer.robot, uri=uri)
        backend.connect()
        with pytest.raises(UserError, match="another program uses it"):
            BACKEND(peer.robot, uri=uri).connect()
        command = {"rates_thrust": np.array([0.0, 0.0, 0.0, 2.0])}
        assert soon(lambda: backend.write(command)["rates_thrust"].any() or time.sleep(0.01))
        assert peer.armed
        backend.close()
        assert not peer.armed


def test_a_disarming_that_is_not_obeyed_terminates_the_flight_where_that_is_allowed() -> None:
    with Px4() as peer:
        peer.parameters["CBRK_FLIGHTTERM"] = 0
        backend = connected(peer, "?termination=true")
        command = {"rates_thrust": np.array([0.0, 0.0, 0.0, 2.0])}
        assert soon(lambda: backend.write(command)["rates_thrust"].any() or time.sleep(0.01))
        peer.deaf.add(400)
        backend.let_go()
        time.sleep(0.5)
        assert peer.armed and not peer.terminated, "it is let go, and not stopped"
        backend.disarm()
        assert soon(lambda: peer.terminated)
        backend.close()


def test_tcp_does_as_well() -> None:
    with Px4() as peer, socket.create_server(("127.0.0.1", 0)) as server:
        over = threading.Event()

        def relay() -> None:
            host, port = peer.uri.removeprefix("udpout://").split(":")
            with server.accept()[0] as link, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as vehicle:
                vehicle.connect((host, int(port)))
                while not over.is_set():
                    for source in select.select([link, vehicle], [], [], 0.01)[0]:
                        data = source.recv(4096)
                        (vehicle if source is link else link).sendall(data)

        thread = threading.Thread(target=relay)
        thread.start()
        backend = BACKEND(peer.robot, uri=f"tcp://127.0.0.1:{server.getsockname()[1]}")
        backend.connect()
        command = {"rates_thrust": np.array([0.0, 0.0, 0.0, 2.0])}
        assert soon(lambda: backend.write(command)["rates_thrust"].any() or time.sleep(0.01))
        over.set()
        thread.join()
        backend.close()


class Signed:
    """A socket that signs every frame that goes out, and counts those that come with a right signature and without."""

    def __init__(self, plain: socket.socket, key: bytes) -> None:
        self._plain, self._key = plain, key
        self.right = self.wrong = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)

    def _signature(self, frame: bytes, link_and_time: bytes) -> bytes:
        return hashlib.sha256(self._key + frame + link_and_time).digest()[:6]

    def sendto(self, data: bytes, to: Any) -> None:
        head = bytes([data[1], 1]) + data[3:10]
        extra = MESSAGES[int.from_bytes(data[7:10], "little")][1]
        body = head + data[10:-2]
        frame = b"\xfd" + body + checksum(body + bytes([extra])).to_bytes(2, "little")
        moment = b"\0" + int((time.time() - 1420070400) * 1e5).to_bytes(6, "little")
        self._plain.sendto(frame + moment + self._signature(frame, moment), to)

    def recvfrom(self, size: int) -> tuple[bytes, Any]:
        data, sender = self._plain.recvfrom(size)
        frame, moment, signature = data[:-13], data[-13:-6], data[-6:]
        if data[2] & 1 and self._signature(frame, moment) == signature:
            self.right += 1
        else:
            self.wrong += 1
        return data, sender


def test_with_a_key_every_message_is_signed_and_none_without_its_signature_counts(tmp_path: Path) -> None:
    key = bytes(range(32))
    (tmp_path / "key").write_text(key.hex())
    peer = Px4()
    signed = Signed(peer._socket, key)
    peer._socket = signed  # type: ignore[assignment]
    with peer:
        backend = connected(peer, f"?key={tmp_path / 'key'}")
        command = {"rates_thrust": np.array([0.0, 0.0, 0.0, 2.0])}
        assert soon(lambda: backend.write(command)["rates_thrust"].any() or time.sleep(0.01))
        assert signed.right > 20 and not signed.wrong
        backend.close()
    other = Px4()
    with other:
        assert "No autopilot" in refused(other, f"?key={tmp_path / 'key'}")


def test_poses_of_motion_capture_go_to_the_estimator_in_its_frames() -> None:
    place, turned = np.array([1.0, 2.0, 3.0]), np.array([0.0, 0.0, math.sin(0.2), math.cos(0.2)])
    for kind, number in ((Px4, 331), (ArduPilot, 102)):
        with kind() as peer:
            peer.lost = True  # it has no position before
            backend = connected(peer, "?external_pose=true")
            assert isinstance(backend, Located) and backend.read().signals == {}
            backend.locate(time.time(), place, turned)
            assert soon(lambda peer=peer: peer.poses)
            got, fields = peer.poses[0]
            assert got == number and fields[1:4] == pytest.approx([2.0, 1.0, -3.0])
            assert abs(fields[0] / 1e6 - time.monotonic()) < 0.5
            assert soon(lambda backend=backend: backend.read().signals)
            if kind is ArduPilot:
                assert fields[4:7] == pytest.approx([0.0, 0.0, math.pi / 2 - 0.4], abs=1e-6)
            backend.close()


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("", "give --uri"),
        ("udp://", "lacks the host or the port"),
        ("serial://", "names no device"),
        ("serial:///dev/ttyACM0?baud=0", "baud=0"),
        ("udp://0.0.0.0:14550?hover_thrust=1.5", "0 to 1"),
        ("udp://0.0.0.0:14550?system=300", "1 to 255"),
        ("udp://0.0.0.0:14550?hoover=0.5", "hover_thrust"),
        ("udp://0.0.0.0:14550?key=/nowhere/key", "cannot be read"),
    ],
)
def test_a_wrong_uri_is_refused_before_connecting(uri: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        BACKEND(load_quadrotor("x500_rates"), uri=uri)


def test_a_key_of_another_length_and_a_port_that_is_not_there_are_refused(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("00ff")
    with pytest.raises(UserError, match="has 2 bytes"):
        BACKEND(load_quadrotor("x500_rates"), uri=f"udp://127.0.0.1:14550?key={key}")
    with pytest.raises(UserError, match="cannot be opened"):
        BACKEND(load_quadrotor("x500_rates"), uri=f"serial://{tmp_path}/none").connect()
