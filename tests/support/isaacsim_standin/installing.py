"""Put the stand-in where Isaac Sim's modules would be, for the length of a test."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.isaacsim_standin.application import Commands, Extensions, Stages, application_class
from tests.support.isaacsim_standin.joint_views import Articulation
from tests.support.isaacsim_standin.kit import Kit
from tests.support.isaacsim_standin.seeing import Camera, SceneQuery
from tests.support.isaacsim_standin.views import RigidPrim
from tests.support.isaacsim_standin.world import world_class

OWN = ("isaacsim", "omni", "carb", "pxr")


class _Finder(importlib.abc.MetaPathFinder):
    """Finds nothing but what the application has brought, as where Isaac Sim is installed."""

    def __init__(self, kit: Kit) -> None:
        self.kit = kit

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: Any = None) -> Any:
        top = fullname.split(".")[0]
        if top not in OWN or (top == "pxr" and self.kit.application is not None):
            return None
        if fullname in self.modules and self.kit.application is not None:
            return importlib.machinery.ModuleSpec(fullname, _Loader(self.modules[fullname]), is_package=True)
        why = "SimulationApp has not been started" if self.kit.application is None else "the stand-in has none"
        raise ModuleNotFoundError(f"No module named '{fullname}' ({why})", name=fullname)

    modules: dict[str, dict[str, Any]] = {}  # noqa: RUF012 - set once for the one instance


class _Loader(importlib.abc.Loader):
    def __init__(self, contents: dict[str, Any]) -> None:
        self.contents = contents

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        module.__dict__.update(self.contents)


def _functions(thing: Any) -> dict[str, Any]:
    return {name: getattr(thing, name) for name in dir(thing) if not name.startswith("_") and name != "kit"}


@contextmanager
def installed(folder: Path, version: str = "5.1.0-rc.19") -> Iterator[Kit]:
    """Have the stand-in installed in ``folder``, with the VERSION file of an unpacked archive; yield the process.

    The caller sets ISAAC_PATH to the folder. ``pxr`` is hidden until SimulationApp has started, as it is there.
    """
    kit = Kit()
    (folder / "VERSION").write_text(version)
    own = {"kit": kit}
    query = SceneQuery(kit)
    finder = _Finder(kit)
    finder.modules = {
        "isaacsim.core": {},
        "isaacsim.core.api": {"World": world_class(kit)},
        "isaacsim.core.prims": {
            "RigidPrim": type("RigidPrim", (RigidPrim,), own),
            "Articulation": type("Articulation", (Articulation,), own),
        },
        "isaacsim.core.utils": {},
        "isaacsim.core.utils.stage": _functions(Stages(kit)),
        "isaacsim.core.utils.extensions": _functions(Extensions(kit)),
        "isaacsim.sensors": {},
        "isaacsim.sensors.camera": {"Camera": type("Camera", (Camera,), own)},
        "omni": {},
        "omni.kit": {},
        "omni.kit.commands": _functions(Commands(kit)),
        "omni.physx": {"get_physx_scene_query_interface": lambda: query},
    }
    top = types.ModuleType("isaacsim")
    top.__spec__ = importlib.machinery.ModuleSpec("isaacsim", None, is_package=True)
    top.__spec__.submodule_search_locations = [str(folder)]
    top.__path__ = [str(folder)]
    top.SimulationApp = application_class(kit)  # type: ignore[attr-defined]
    hidden = {n: sys.modules.pop(n) for n in list(sys.modules) if n.split(".")[0] in OWN}
    sys.modules["isaacsim"] = top
    sys.meta_path.insert(0, finder)
    kit.hidden = {n: m for n, m in hidden.items() if n.split(".")[0] == "pxr"}
    try:
        yield kit
    finally:
        sys.meta_path.remove(finder)
        pxr = {n: m for n, m in sys.modules.items() if n.split(".")[0] == "pxr"}
        for name in [n for n in sys.modules if n.split(".")[0] in OWN]:
            del sys.modules[name]
        sys.modules.update({**hidden, **pxr})
