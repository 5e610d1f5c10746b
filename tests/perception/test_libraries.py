from __future__ import annotations

import importlib
from collections.abc import Callable

import pytest

from rlstack.errors import UserError
from rlstack.perception import libraries


@pytest.mark.parametrize(
    ("load", "error", "said"),
    [
        (libraries.import_opencv, ModuleNotFoundError("No module named 'cv2'"), r"pip install 'rlstack\[perception\]'"),
        (libraries.import_open3d, ModuleNotFoundError("No module named 'open3d'"), r"rlstack\[perception\]"),
        (
            libraries.import_open3d,
            OSError("libusb-1.0.so.0: cannot open shared object file"),
            "apt install libusb-1.0-0",
        ),
    ],
)
def test_what_is_missing_is_said_with_what_installs_it(
    monkeypatch: pytest.MonkeyPatch, load: Callable[[], object], error: Exception, said: str
) -> None:
    def fail(name: str) -> object:
        raise error

    monkeypatch.setattr(importlib, "import_module", fail)
    with pytest.raises(UserError, match=said):
        load()
