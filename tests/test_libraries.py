from __future__ import annotations

import importlib

import pytest

from rlstack.errors import UserError
from rlstack.libraries import import_library


def test_a_library_that_is_installed_is_returned() -> None:
    assert import_library("scipy.ndimage", "navigation").__name__ == "scipy.ndimage"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ModuleNotFoundError("No module named 'open3d'"), r"open3d cannot .* pip install 'rlstack\[perception\]'"),
        (OSError("libusb-1.0.so.0: cannot open shared object file"), "apt install libusb-1.0-0"),
    ],
)
def test_what_is_missing_is_said_with_what_installs_it(
    monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def fail(name: str) -> object:
        raise error

    monkeypatch.setattr(importlib, "import_module", fail)
    with pytest.raises(UserError, match=said):
        import_library("open3d.geometry", "perception")
