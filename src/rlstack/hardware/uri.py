"""URIs of robots: where a driver finds its robot, and the driver's options, in one string.

``serial:///dev/ttyACM0?baud=1000000&calibration=follower.json`` names a device, ``udp://0.0.0.0:14550`` an address. The
same string goes through `rlstack up deploy --uri`, launch files and the robot node's parameter ``uri``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from rlstack.errors import UserError, unknown_name

Option = TypeVar("Option", bool, int, float, str)
_WORDS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


@dataclass(frozen=True)
class RobotUri:
    """The parts of a robot's URI.

    Args:
        text: The URI as it was given, for messages.
        scheme: What comes before ``://``.
        host: Host name or address; empty for a device.
        port: Port; 0 if the URI has none.
        path: Path of a device, such as ``/dev/ttyACM0``; what follows the host in other schemes.
        options: Every option of the driver, with the default where the URI does not give it.
    """

    text: str
    scheme: str
    host: str
    port: int
    path: str
    options: Mapping[str, Any]


def parse_uri(text: str, driver: str, examples: Mapping[str, str], options: Mapping[str, Any]) -> RobotUri:
    """Return the parts of a URI, checked.

    Args:
        text: The URI.
        driver: The driver's name, for messages.
        examples: An example URI for each scheme that the driver takes.
        options: The driver's options with their defaults, whose types (bool, int, float, str) are theirs.

    Raises:
        UserError: There is none, or the scheme, an option or its value is not one that the driver takes.
    """
    shown = " or ".join(examples.values())
    if not text:
        raise UserError(f"The driver '{driver}' needs to know where the robot is: give --uri, such as {shown}.")
    try:
        parts = urlsplit(text)
        port = parts.port or 0
    except ValueError as error:
        raise UserError(f"The URI '{text}' is not allowed: {error}. The driver '{driver}' takes {shown}.") from error
    if parts.scheme not in examples or "://" not in text:
        raise UserError(f"The URI '{text}' is not allowed: the driver '{driver}' takes {shown}.")
    given: dict[str, Any] = dict(options)
    seen: set[str] = set()
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name in seen:
            raise UserError(f"The URI '{text}' gives {name} twice: leave one out.")
        seen.add(name)
        if name not in options:
            raise unknown_name(f"option of the driver '{driver}'", name, options)
        given[name] = _value(text, name, value, options[name])
    return RobotUri(text, parts.scheme, parts.hostname or "", port, unquote(parts.path), given)


def _value(text: str, name: str, value: str, default: Option) -> Option:
    kind = type(default)
    try:
        if kind is bool:
            return _WORDS[value.lower()]  # type: ignore[return-value]
        read = kind(value)
    except (KeyError, ValueError) as error:
        what = {bool: "true or false", int: "a whole number", float: "a number"}[kind]  # type: ignore[index]
        raise UserError(f"The URI '{text}' has {name}={value}, which is not allowed: give {what}.") from error
    if kind is float and not abs(float(read)) < float("inf"):
        raise UserError(f"The URI '{text}' has {name}={value}, which is not allowed: give a finite number.")
    return read
