"""``isaacsim.SimulationApp``, the stage's utilities and the commands."""

from __future__ import annotations

import signal
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

from tests.support.isaacsim_standin.importer import Importer
from tests.support.isaacsim_standin.kit import Kit, recorded

CONFIG = {
    "headless", "hide_ui", "active_gpu", "physics_gpu", "multi_gpu", "max_gpu_count", "sync_loads", "width", "height",
    "window_width", "window_height", "display_options", "subdiv_refinement_level", "renderer", "anti_aliasing",
    "samples_per_pixel_per_frame", "denoiser", "max_bounces", "max_specular_transmission_bounces", "max_volume_bounces",
    "open_usd", "fast_shutdown", "profiler_backend", "create_new_stage", "extra_args", "enable_crashreporter",
    "limit_cpu_threads", "disable_viewport_updates", "experience",
}  # fmt: skip
"""The keys of SimulationApp.DEFAULT_LAUNCHER_CONFIG in 5.1.0."""
LOADING_UPDATES = 3


def application_class(kit: Kit) -> type:
    """Return the class ``SimulationApp`` of a process."""

    class SimulationApp:
        def __init__(self, launch_config: dict[str, Any] | None = None, experience: str = "") -> None:
            kit.require(kit.application is None, "SimulationApp starts once in a process")
            early = sorted(n for n in sys.modules if n.split(".")[0] in ("omni", "pxr"))
            kit.require(not early, f"{early} were imported before SimulationApp was started")
            unknown = sorted(set(launch_config or {}) - CONFIG)
            kit.require(not unknown, f"SimulationApp does not know the settings {unknown}")
            self.kit, self.config = kit, dict(launch_config or {})
            kit.argv = list(sys.argv)  # the real one hands all that it does not know on to Kit
            signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
            kit.application = self
            sys.modules.update(kit.hidden)
            new_stage(kit)

        @recorded
        def update(self) -> None:
            kit.require_running()
            kit.loading = max(0, kit.loading - 1)

        @recorded
        def close(self, wait_for_replicator: bool = True, skip_cleanup: bool = False) -> None:
            kit.require_running()
            kit.ended = True

        def is_running(self) -> bool:
            return not kit.ended

    return SimulationApp


def new_stage(kit: Kit) -> Any:
    """Open an empty stage; a World on the old one would be invalid."""
    from pxr import Usd

    kit.require_running()
    kit.require(kit.world is None, "a new stage makes the World invalid: clear its instance first")
    kit.stage, kit.physics, kit.loading = Usd.Stage.CreateInMemory(), None, LOADING_UPDATES
    kit.cameras.clear()
    return kit.stage


class Stages:
    """``isaacsim.core.utils.stage``."""

    def __init__(self, kit: Kit) -> None:
        self.kit = kit

    @recorded
    def create_new_stage(self) -> Any:
        return new_stage(self.kit)

    @recorded
    def get_current_stage(self, fabric: bool = False) -> Any:
        self.kit.require_running()
        return self.kit.stage

    @recorded
    def is_stage_loading(self) -> bool:
        self.kit.require_running()
        return self.kit.loading > 0


class Extensions:
    """``isaacsim.core.utils.extensions``."""

    def __init__(self, kit: Kit) -> None:
        self.kit = kit

    @recorded
    def enable_extension(self, extension_name: str) -> bool:
        self.kit.require_running()
        return extension_name == "isaacsim.ros2.bridge"


class ImportConfig:
    """What URDFCreateImportConfig returns: its attributes in 5.1.0, and no others."""

    __slots__ = (
        "collision_from_visuals", "convex_decomp", "create_physics_scene", "default_drive_strength",
        "default_drive_type", "default_position_drive_damping", "density", "distance_scale", "fix_base",
        "import_inertia_tensor", "make_default_prim", "merge_fixed_joints", "override_joint_dynamics", "parse_mimic",
        "replace_cylinders_with_capsules", "self_collision", "subdivision_scheme", "up_vector",
    )  # fmt: skip

    def __init__(self) -> None:
        self.merge_fixed_joints, self.fix_base, self.import_inertia_tensor = True, True, True
        self.distance_scale, self.self_collision, self.create_physics_scene = 1.0, False, False


class Commands:
    """``omni.kit.commands``, with the URDF importer's."""

    def __init__(self, kit: Kit) -> None:
        self.kit = kit

    @recorded
    def execute(self, name: str, **arguments: Any) -> tuple[bool, Any]:
        self.kit.require_running()
        if name == "URDFCreateImportConfig":
            return True, ImportConfig()
        self.kit.require(name == "URDFParseAndImportFile", f"there is no command {name}")
        known = {"urdf_path", "import_config", "dest_path", "get_articulation_root"}
        self.kit.require(set(arguments) <= known, f"{name} does not take {sorted(set(arguments) - known)}")
        config = arguments["import_config"]
        self.kit.require(isinstance(config, ImportConfig), f"{name} needs an ImportConfig")
        self.kit.require(not config.merge_fixed_joints, "fixed joints are merged, and their links are gone")
        self.kit.require(config.distance_scale == 1.0 and not config.self_collision, "metres, and links that pass")
        self.kit.loading = LOADING_UPDATES
        path = Path(arguments["urdf_path"])
        if not path.is_file():
            return False, None
        return True, Importer(self.kit.stage, ElementTree.parse(path).getroot(), config).run()
