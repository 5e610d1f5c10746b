"""Where a policy server is, and what it is to load: ``lerobot://HOST:PORT?pretrained=...&type=act``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlstack.errors import UserError
from rlstack.hardware.uri import parse_uri

SCHEME = "lerobot"
_EXAMPLE = {SCHEME: "lerobot://127.0.0.1:8080?pretrained=/home/me/act&type=act"}
_OPTIONS: dict[str, Any] = {
    "pretrained": "",
    "type": "act",
    "device": "cpu",
    "task": "",
    "units": "rad",
    "reverse": "",
    "speeds": False,
    "cameras": "",
    "rate": 30.0,
    "actions": 50,
    "refill": 0.5,
    "share": 0.7,
    "timeout": 0.5,
}


@dataclass(frozen=True)
class ServerSettings:
    """A policy server and the policy that it serves.

    Args:
        address: ``HOST:PORT``.
        pretrained: The policy's folder or name, as the server finds it.
        type: LeRobot's name of the policy's class.
        device: Where the server runs it.
        task: The task in words, for policies that take one.
        units: See :data:`rlstack.interfaces.lerobot_features.Units`.
        reverse: Joints that count the other way.
        speeds: Whether the policy's state has the joints' speeds as well.
        cameras: Cameras whose images the policy takes, ``wrist`` and ``scene``.
        rate_hz: Actions per second.
        actions: Longest chunk.
        refill: Share of a chunk that is left when the next one is asked for.
        share: Share of the newer chunk where two overlap.
        timeout_s: Greatest age of an observation when its actions arrive, s.
    """

    address: str
    pretrained: str
    type: str
    device: str
    task: str
    units: str
    reverse: tuple[str, ...]
    speeds: bool
    cameras: tuple[str, ...]
    rate_hz: float
    actions: int
    refill: float
    share: float
    timeout_s: float


def server_settings(text: str) -> ServerSettings:
    """Return the settings in a URI.

    Raises:
        UserError: It is not one, an option is unknown, or a value is not allowed.
    """
    uri = parse_uri(text, SCHEME, _EXAMPLE, _OPTIONS)
    given = uri.options
    if not uri.host or not uri.port or uri.path.strip("/"):
        raise UserError(f"The URI '{text}' is not allowed: give host and port alone, such as {_EXAMPLE[SCHEME]}.")
    if not given["pretrained"]:
        raise UserError(
            f"The URI '{text}' does not say which policy the server is to load: give pretrained, its folder on the"
            f" server, such as {_EXAMPLE[SCHEME]}."
        )
    ranges = {"rate": (1.0, 200.0), "actions": (1, 1000), "refill": (0.0, 1.0), "share": (0.0, 1.0)}
    for name, (low, high) in {**ranges, "timeout": (0.02, 10.0)}.items():
        if not low <= given[name] <= high:
            raise UserError(f"The URI '{text}' has {name}={given[name]:g}: give a number from {low:g} to {high:g}.")
    host = f"[{uri.host}]" if ":" in uri.host else uri.host
    return ServerSettings(
        address=f"{host}:{uri.port}",
        pretrained=given["pretrained"],
        type=given["type"],
        device=given["device"],
        task=given["task"],
        units=given["units"],
        reverse=_words(given["reverse"]),
        speeds=given["speeds"],
        cameras=_words(given["cameras"]),
        rate_hz=given["rate"],
        actions=given["actions"],
        refill=given["refill"],
        share=given["share"],
        timeout_s=given["timeout"],
    )


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split(",") if word)
