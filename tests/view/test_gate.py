from __future__ import annotations

import gzip
import socket
from urllib.parse import quote

import pytest

from rlstack.view.gate import Gate, free_port


def head(path: str = "/", method: str = "GET", **headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def status(answer: bytes | None) -> int:
    return 0 if answer is None else int(answer.split(b" ")[1])


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1:8080", "[::1]:8080"])
def test_this_machines_browsers_need_no_token(host: str) -> None:
    assert Gate(("127.0.0.1", 1)).answer(head(Host=host)) is None


def test_its_own_page_goes_to_those_alone_who_may_see_the_viewers() -> None:
    gate = Gate(("127.0.0.1", 1), page="<html>page</html>")
    plain = gate.answer(head(Host="localhost:8080"))
    assert status(plain) == 200 and plain is not None and plain.endswith(b"<html>page</html>")
    packed = gate.answer(head(Host="localhost:8080", **{"Accept-Encoding": "gzip, br"}))
    assert packed is not None and b"Content-Encoding: gzip" in packed
    assert gzip.decompress(packed.partition(b"\r\n\r\n")[2]) == b"<html>page</html>"
    assert gate.answer(head(Host="localhost:8080", Upgrade="websocket")) is None
    assert gate.answer(head("/other", Host="localhost:8080")) is None
    assert status(gate.answer(head(Host="evil.example"))) == 403
    assert status(Gate(("127.0.0.1", 1), "secret", "page").answer(head(Host="robot:8080"))) == 403


@pytest.mark.parametrize("host", ["evil.example:8080", "", "192.168.1.7:8080"])
def test_a_page_that_a_name_of_another_machine_leads_to_is_refused(host: str) -> None:
    assert status(Gate(("127.0.0.1", 1)).answer(head(Host=host))) == 403


def test_another_sites_page_may_not_open_a_socket() -> None:
    gate = Gate(("127.0.0.1", 1))
    assert gate.answer(head(Host="localhost:8080", Origin="http://localhost:8080", Upgrade="websocket")) is None
    assert status(gate.answer(head(Host="localhost:8080", Origin="http://evil.example", Upgrade="websocket"))) == 403


def test_the_token_is_asked_for_once_and_kept_in_a_cookie() -> None:
    gate = Gate(("127.0.0.1", 1), "secret")
    assert status(gate.answer(head(Host="robot:8080"))) == 403
    assert status(gate.answer(head("/?token=guess", Host="robot:8080"))) == 403
    assert status(gate.answer(head(Host="robot:8080", Cookie="rlstack_view_0=guess"))) == 403
    told = gate.answer(head("/?token=secret", Host="robot:8080"))
    assert told is not None and status(told) == 303 and b"Location: /\r\n" in told
    cookie = next(line for line in told.decode().split("\r\n") if line.startswith("Set-Cookie: "))
    kept = cookie.removeprefix("Set-Cookie: ").split(";")[0]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert gate.answer(head(Host="robot:8080", Cookie=f"other=1; {kept}")) is None


@pytest.mark.parametrize("token", ["a+b&c", "two words;", "schlüssel", 'say "so"'])
def test_a_token_may_have_any_characters(token: str) -> None:
    gate = Gate(("127.0.0.1", 1), token)
    told = gate.answer(head(f"/?token={quote(token, safe='')}", Host="robot:8080"))
    assert told is not None and status(told) == 303
    kept = next(line for line in told.decode().split("\r\n") if line.startswith("Set-Cookie: "))
    assert gate.answer(head(Host="robot:8080", Cookie=kept.removeprefix("Set-Cookie: ").split(";")[0])) is None


@pytest.mark.parametrize(("path", "host", "origin"), [("/", "[", ""), ("/", "localhost", "http://["), ("//[", "a", "")])
def test_an_address_that_is_none_is_refused(path: str, host: str, origin: str) -> None:
    gate = Gate(("127.0.0.1", 1), "secret" if host == "a" else "")
    assert status(gate.answer(head(path, Host=host, Origin=origin))) == 400


@pytest.mark.parametrize("request_head", [b"\r\n\r\n", b"\xff\xfe\r\n\r\n", head(method="POST", Host="localhost")])
def test_what_is_no_request_for_a_page_is_refused(request_head: bytes) -> None:
    assert status(Gate(("127.0.0.1", 1)).answer(request_head)) == 400


def test_the_next_free_port_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with free_port("127.0.0.1", port) as found:
            assert port < found.getsockname()[1] < port + 100


def test_an_address_of_another_machine_is_refused_at_once() -> None:
    with pytest.raises(OSError):
        free_port("203.0.113.1", 8080)
