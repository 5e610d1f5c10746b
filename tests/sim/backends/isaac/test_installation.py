"""Which Isaac Sim is there, and what is said where it is none or the wrong one."""

from __future__ import annotations

import re

import pytest

from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.sim.backends.isaac import IsaacBackend
from rlstack.sim.backends.isaac.installation import installed_version, require_supported
from tests.support.isaacsim_standin import Kit


@pytest.mark.skipif(installed_version() is not None, reason="Isaac Sim is installed")
def test_where_it_is_missing_the_backend_says_how_to_get_it():
    with pytest.raises(
        UserError, match=r"isaacsim\[all,extscache\]==5\.1\.0.*NVIDIA's package index.*rlstack\[isaac\]"
    ):
        IsaacBackend(load_quadrotor("crazyflie"))


def test_the_version_of_an_unpacked_archive_is_in_its_folder(kit: Kit):
    assert installed_version() == "5.1.0"
    assert installed_version({}) == "unknown"


@pytest.mark.parametrize("version", ["5.0.0", "5.1.0", "5.1"])
def test_what_it_is_written_for_is_taken(version: str):
    require_supported(version, (3, 11))


@pytest.mark.parametrize("version", ["4.5.0", "5.2.0", "6.0.1", "50.1"])
def test_another_generation_is_refused_by_its_number(version: str):
    with pytest.raises(
        UserError, match=rf"Isaac Sim {re.escape(version)} is installed, and rlstack is written for 5\.0"
    ):
        require_supported(version, (3, 11))


def test_6_is_refused_with_the_reason():
    with pytest.raises(UserError, match="deprecated extensions"):
        require_supported("6.0.1", (3, 12))


def test_a_python_that_it_is_not_built_for_is_refused():
    with pytest.raises(UserError, match=r"5\.1\.0 runs on Python 3\.11, and this is 3\.13"):
        require_supported("5.1.0", (3, 13))


def test_an_unknown_version_says_what_to_set():
    with pytest.raises(UserError, match="ISAAC_PATH"):
        require_supported("unknown", (3, 11))
