"""``isaacsim.core.api.World``: time, the singleton, callbacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.isaacsim_standin.kit import Kit, recorded
from tests.support.isaacsim_standin.physics import Physics


class Context:
    """``World.get_physics_context()``."""

    def __init__(self, kit: Kit, rate: int) -> None:
        self.kit, self.rate, self.gravity = kit, rate, -9.81

    @recorded
    def set_gravity(self, value: float) -> None:
        self.kit.require(value < 0.0, "gravity above 0 pulls up")
        self.gravity = value


def world_class(kit: Kit) -> type:
    """Return the class ``World`` of a process."""
    holder = kit

    class World:
        kit = holder

        @recorded
        def __init__(
            self,
            physics_dt: float | None = None,
            rendering_dt: float | None = None,
            stage_units_in_meters: float | None = None,
            physics_prim_path: str = "/physicsScene",
            sim_params: dict[str, Any] | None = None,
            set_defaults: bool = True,
            backend: str = "numpy",
            device: str | None = None,
        ) -> None:
            kit.require_running()
            kit.require(kit.world is None, "World is a singleton: the old one would come back, with its old settings")
            kit.require(backend == "numpy" and device == "cpu", "the stand-in's views are numpy's, on the CPU")
            kit.require(stage_units_in_meters == 1.0, "metres must be asked for")
            assert physics_dt is not None and rendering_dt is not None
            kit.require(int(rendering_dt / physics_dt) == 1, "the stand-in renders after each physics step or never")
            rate = int(1.0 / physics_dt)  # what PhysicsContext.set_physics_dt keeps
            kit.world, self._context = self, Context(kit, rate)
            self._functions: dict[str, Callable[[float], None]] = {}

        @classmethod
        def instance(cls) -> Any:
            kit.require_running()
            return kit.world

        @classmethod
        def clear_instance(cls) -> None:
            kit.require_running()
            kit.require(kit.physics is None, "stop() the World before its instance is cleared")
            kit.world = None

        def _require_present(self) -> None:
            kit.require_running()
            kit.require(kit.world is self, "this World was cleared")

        @property
        def physics_sim_view(self) -> Any:
            return kit.physics

        def get_physics_context(self) -> Context:
            self._require_present()
            return self._context

        def get_physics_dt(self) -> float:
            self._require_present()
            return 1.0 / self._context.rate

        @recorded
        def set_block_on_render(self, block: bool) -> None:
            self._require_present()

        @recorded
        def reset(self, soft: bool = False) -> None:
            self._require_present()
            kit.require(kit.loading == 0, "the stage is still loading")
            kit.physics = Physics(kit, kit.stage, self._context.gravity, 1.0 / self._context.rate)
            for _ in range(2):  # warming up
                kit.physics.step()

        @recorded
        def stop(self) -> None:
            self._require_present()
            kit.physics = None  # and with it all that was set through views

        @recorded
        def step(self, render: bool = True, step_sim: bool = True, update_fabric: bool = False) -> None:
            self._require_present()
            kit.require_playing("World.step")
            for function in list(self._functions.values()):
                function(1.0 / self._context.rate)
            kit.physics.step()
            if render:
                self.render()

        @recorded
        def render(self) -> None:
            self._require_present()
            kit.renders += 1
            for camera in kit.cameras:
                camera.expose()

        @recorded
        def add_physics_callback(self, callback_name: str, callback_fn: Callable[[float], None]) -> None:
            self._require_present()
            kit.require(callback_name not in self._functions, f"the callback {callback_name} exists")
            self._functions[callback_name] = callback_fn

        @recorded
        def remove_physics_callback(self, callback_name: str) -> None:
            self._require_present()
            kit.require(callback_name in self._functions, f"there is no callback {callback_name}")
            del self._functions[callback_name]

        def physics_callback_exists(self, callback_name: str) -> bool:
            self._require_present()
            return callback_name in self._functions

        @recorded
        def clear_all_callbacks(self) -> None:
            self._require_present()
            self._functions.clear()

    return World
