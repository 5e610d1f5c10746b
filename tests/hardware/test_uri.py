from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlstack.errors import UserError
from rlstack.hardware.uri import parse_uri

EXAMPLES = {"serial": "serial:///dev/ttyACM0?baud=115200", "udp": "udp://0.0.0.0:14550"}
OPTIONS = {"baud": 115200, "calibration": "", "timeout_s": 0.1, "imu": True}


def parse(text: str) -> object:
    return parse_uri(text, "feetech", EXAMPLES, OPTIONS)


def test_a_device_with_options() -> None:
    uri = parse_uri("serial:///dev/ttyACM0?baud=1000000&imu=no&calibration=a%20b.json", "feetech", EXAMPLES, OPTIONS)
    assert (uri.scheme, uri.host, uri.port, uri.path) == ("serial", "", 0, "/dev/ttyACM0")
    assert uri.options == {"baud": 1_000_000, "calibration": "a b.json", "timeout_s": 0.1, "imu": False}


def test_an_address() -> None:
    uri = parse_uri("udp://[::1]:14550", "feetech", EXAMPLES, OPTIONS)
    assert (uri.host, uri.port, uri.path) == ("::1", 14550, "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "give --uri, such as serial:///dev/ttyACM0"),
        ("/dev/ttyACM0", "takes serial:///dev/ttyACM0"),
        ("tcp://1.2.3.4:5", "the driver 'feetech' takes"),
        ("udp://host:99999", "Port"),
        ("udp://[::1:5", "Invalid IPv6"),
        ("serial:///dev/x?bauds=5", "Nearest: baud"),
        ("serial:///dev/x?zzz=5", "Known: baud, calibration"),
        ("serial:///dev/x?baud=fast", "a whole number"),
        ("serial:///dev/x?timeout_s=nan", "a finite number"),
        ("serial:///dev/x?imu=maybe", "true or false"),
        ("serial:///dev/x?baud=1&baud=2", "twice"),
    ],
)
def test_a_wrong_uri_is_refused_in_a_sentence(text: str, said: str) -> None:
    with pytest.raises(UserError, match=said.replace("?", r"\?")):
        parse(text)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(UserError):
        parse(text)
