from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from rlstack.errors import UserError
from rlstack.view.server import ViewServer


@pytest.fixture(scope="module")
def server() -> Iterator[ViewServer]:
    made = ViewServer(port=18080)
    yield made
    made.close()


def asked(url: str, **headers: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_it_serves_a_page_and_says_nothing_of_its_own(server: ViewServer, capfd: pytest.CaptureFixture[str]) -> None:
    status, page = asked(server.url)
    assert (status, server.url) == (200, f"http://localhost:{server.port}")
    assert b"<html" in page and b"no WebGL" in page and not server.watched and not server.browsers()
    assert capfd.readouterr() == ("", "")


def test_another_sites_page_does_not_get_it(server: ViewServer) -> None:
    status, said = asked(server.url, Host="evil.example")
    assert status == 403 and b"evil.example" in said


def test_other_machines_need_the_token_that_is_in_the_address() -> None:
    server = ViewServer("0.0.0.0", 18080)
    try:
        address, _, token = server.url.partition("/?token=")
        assert address == f"http://{socket.gethostname()}:{server.port}"  # nobody can open 0.0.0.0
        here = f"http://127.0.0.1:{server.port}"
        assert len(token) > 20
        assert asked(here)[0] == 403
        cookies = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with cookies.open(f"{here}/?token={token}", timeout=10) as answer:
            assert answer.status == 200 and b"<html" in answer.read()
    finally:
        server.close()


def test_an_address_that_is_not_this_machines_is_refused() -> None:
    with pytest.raises(UserError, match=r"cannot listen on 203\.0\.113\.1, port 8080"):
        ViewServer("203.0.113.1")


def test_nobody_can_ask_it_for_a_tunnel_out_of_the_machine(server: ViewServer) -> None:
    assert server.viser.request_share_url() is None
