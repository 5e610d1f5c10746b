"""A body that moves freely, on legs whose joints are driven by position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rlstack.robots.joints import DrivenJoint, RevoluteJoint
from rlstack.robots.links import Link, check_links
from rlstack.robots.spec import RobotSpec
from rlstack.schema import value


@dataclass(frozen=True, kw_only=True)
class Walker(RobotSpec):
    """Links that hang together, the first of them ``base_link``."""

    kind: Literal["walker"]
    links: tuple[Link, ...]
    joints: tuple[RevoluteJoint, ...]
    rest_height_m: float = value(unit="m", above=0.0)

    has_links = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_links(self.links, tuple(joint.name for joint in self.joints))

    @property
    def drives(self) -> tuple[DrivenJoint, ...]:
        """Its joints."""
        return tuple(joint.driven for joint in self.joints)


SPEC = Walker
