"""The permissions of a secured deployment name what its nodes publish and ask for beyond their own namespace."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

from rlstack.interfaces import topics

FILE = Path(__file__).parents[1] / "config" / "security" / "deploy.policy.xml"


def allowed(node: str, what: str, how: str) -> set[str]:
    profile = ElementTree.parse(FILE).find(f".//profile[@node='{node}']")
    assert profile is not None
    return {str(one.text) for group in profile.findall(f"{what}s[@{how}='ALLOW']") for one in group}


def test_an_adaptation_may_ask_the_policy_node_and_command_nothing() -> None:
    assert topics.POLICY_FILE in allowed("policy", "topic", "publish") & allowed("adapt", "topic", "subscribe")
    assert topics.ADAPTATION in allowed("adapt", "topic", "publish") & allowed("operator", "topic", "subscribe")
    assert allowed("adapt", "service", "request") == {"policy/set_parameters_atomically"}
    assert {topics.ODOM, topics.ROTOR_COMMAND} <= allowed("adapt_listener", "topic", "subscribe")
    for node in ("adapt", "adapt_listener", "operator"):
        assert not any("cmd" in one for one in allowed(node, "topic", "publish"))
