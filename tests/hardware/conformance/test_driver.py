"""What every driver of a real robot promises, against its peer; tests/sim/conformance has what simulators promise."""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.interfaces.backend import BACKENDS, Backend, Located
from tests.support.peers import CASES, DRIVERS, Peer, peer_of
from tests.support.waiting import SOON_S, soon


@pytest.fixture(params=DRIVERS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def peer(name: str) -> Iterator[Peer]:
    try:
        made = peer_of(name)
    except ImportError as error:
        if error.name and error.name.startswith("tests."):
            raise
        pytest.skip(f"{name}: {error}")
    with made:
        yield made


@pytest.fixture
def backend(name: str, peer: Peer) -> Iterator[Backend]:
    made: Backend = BACKENDS.load(name)(peer.robot, uri=peer.uri)
    made.connect()
    with located(made, peer):
        yield made
    made.close()


@contextmanager
def located(backend: Backend, peer: Peer) -> Iterator[None]:
    """Give a robot whose place comes from outside its pose, as motion capture would."""
    if not isinstance(backend, Located):
        yield
        return
    over = threading.Event()

    def locate() -> None:
        while not over.wait(0.01):
            backend.locate(time.time(), *peer.pose())  # type: ignore[attr-defined]

    thread = threading.Thread(target=locate)
    thread.start()
    assert soon(lambda: backend.read().signals)
    yield
    over.set()
    thread.join()


def test_it_is_a_real_robot(backend: Backend) -> None:
    assert isinstance(backend, Backend) and not backend.owns_time


def test_it_measures_every_signal_that_it_names_and_goes_on(backend: Backend) -> None:
    first = backend.read()
    assert set(first.signals) == set(backend.sensed)
    for signal in first.signals.values():
        assert np.isfinite(signal).all()
    assert soon(lambda: backend.read().time_s > first.time_s)


def test_reading_never_blocks_for_long(backend: Backend) -> None:
    start = time.monotonic()
    for _ in range(20):
        backend.read()
    assert time.monotonic() - start < 2.0  # a lost link would cost a timeout each time


def test_a_command_is_returned_within_the_limits(backend: Backend, peer: Peer) -> None:
    sent = backend.write(peer.rest())
    assert set(sent) == set(backend.commanded)
    assert all(np.isfinite(value).all() for value in sent.values())


def test_a_command_that_is_not_finite_is_refused_and_nothing_is_sent(backend: Backend, peer: Peer) -> None:
    command = {name: np.full_like(value, np.nan) for name, value in peer.rest().items()}
    with pytest.raises(ValueError, match="finite"):
        backend.write(command)


def test_a_command_of_another_size_is_refused(backend: Backend, peer: Peer) -> None:
    command = {name: np.append(value, 0.0) for name, value in peer.rest().items()}
    with pytest.raises(ValueError):
        backend.write(command)


def test_disarming_takes_the_power_away_at_once(backend: Backend, peer: Peer) -> None:
    end = time.monotonic() + SOON_S  # an autopilot wants a second of set-points first
    while time.monotonic() < end and not peer.powered:
        backend.write(peer.rest())
        time.sleep(0.01)
    assert peer.powered
    backend.disarm()
    assert soon(lambda: not peer.powered, 0.5)


def test_it_stands_without_power_once_its_commands_have_ended(backend: Backend, peer: Peer) -> None:
    """What it does in the air is its own; the tests of its driver say it."""
    end = time.monotonic() + SOON_S
    while time.monotonic() < end and not peer.powered:
        backend.write(peer.rest())
        time.sleep(0.01)
    assert peer.powered
    assert backend.let_go()
    assert soon(lambda: not peer.powered, 0.5)
    backend.disarm()
    assert not peer.powered


def test_closing_takes_the_power_away_and_a_second_time_does_nothing(backend: Backend, peer: Peer) -> None:
    backend.write(peer.rest())
    backend.close()
    assert soon(lambda: not peer.powered, 0.5)
    backend.close()


def test_a_lost_link_shows_in_the_age_of_the_measurement_and_heals(backend: Backend, peer: Peer) -> None:
    peer.lose_link()
    time.sleep(0.3)
    lost = backend.read().time_s
    time.sleep(0.2)
    assert backend.read().time_s == lost
    peer.regain_link()
    assert soon(lambda: backend.read().time_s > lost)


def test_noise_on_the_line_harms_nothing(backend: Backend, peer: Peer) -> None:
    generator = np.random.default_rng(1)
    for size in (1, 7, 64, 300):
        peer.send_noise(generator.bytes(size))
    before = backend.read().time_s
    assert soon(lambda: backend.read().time_s > before)


def test_reset_and_step_do_nothing_to_a_real_robot(backend: Backend) -> None:
    before = backend.read().time_s
    backend.reset()
    backend.step(0.5)
    assert backend.read().time_s - before < 0.4


def test_its_threads_end_with_it(name: str, peer: Peer) -> None:
    before = {thread.ident for thread in threading.enumerate()}
    backend = BACKENDS.load(name)(peer.robot, uri=peer.uri)
    backend.connect()
    backend.close()
    assert soon(lambda: {thread.ident for thread in threading.enumerate()} <= before)


def test_without_a_robot_there_it_says_so(name: str, peer: Peer) -> None:
    peer.lose_link()
    backend = BACKENDS.load(name)(peer.robot, uri=peer.uri)
    start = time.monotonic()
    with pytest.raises(UserError):
        backend.connect()
    assert time.monotonic() - start < 15.0
    backend.close()


@pytest.mark.parametrize("case", CASES)
def test_what_does_not_fit_is_refused_before_power_with_both_values(name: str, peer: Peer, case: str) -> None:
    misfit = peer.misfits()[case]
    if isinstance(misfit, str):
        pytest.skip(f"{name} cannot tell '{case}': {misfit}")
    misfit.change()
    powered = peer.powered  # one board switches its motors on by itself
    with pytest.raises(UserError) as caught:
        BACKENDS.load(name)(peer.robot, uri=misfit.uri or peer.uri).connect()
    for value in misfit.said:
        assert value in str(caught.value)
    assert peer.powered is powered


def test_a_port_that_a_driver_has_is_refused_to_a_second_one_and_left_alone(name: str, peer: Peer) -> None:
    if not peer.uri.startswith("serial://"):
        pytest.skip("its peer is no serial port")
    first, second = (BACKENDS.load(name)(peer.robot, uri=peer.uri) for _ in range(2))
    first.connect()
    try:
        with pytest.raises(UserError, match="another program uses it"):
            second.connect()
        second.close()
        with located(first, peer):
            before = first.read().time_s
            assert soon(lambda: first.read().time_s > before)
    finally:
        first.close()


def test_a_uri_of_another_scheme_is_refused_before_connecting(name: str, peer: Peer) -> None:
    with pytest.raises(UserError, match="URI"):
        BACKENDS.load(name)(peer.robot, uri="carrier-pigeon://loft").connect()


def test_importing_it_needs_neither_torch_nor_the_vendors_library(name: str) -> None:
    assert importlib.import_module(f"rlstack.hardware.drivers.{name}").BACKEND
