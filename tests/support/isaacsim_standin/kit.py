"""What the stand-in's modules share: the process's state, the record of calls, and checks of arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np


class MisuseError(AssertionError):
    """A call that Isaac Sim does not allow, or quietly gets wrong, in this order or with these arguments."""


@dataclass(frozen=True)
class Call:
    """One call: its name as ``Class.method`` or ``module.function``, and its arguments by name."""

    name: str
    arguments: dict[str, Any]


@dataclass
class Kit:
    """A process in which Isaac Sim is installed."""

    application: Any = None
    ended: bool = False
    world: Any = None
    stage: Any = None
    physics: Any = None
    """Bodies and shapes while the timeline plays, else None."""
    loading: int = 0
    """Application updates until the stage has loaded."""
    renders: int = 0
    argv: list[str] = field(default_factory=list)
    """Of the process when SimulationApp started."""
    calls: list[Call] = field(default_factory=list)
    cameras: list[Any] = field(default_factory=list)
    hidden: dict[str, Any] = field(default_factory=dict)
    """The modules of pxr, which is loaded once in a process, until SimulationApp brings them back."""

    def names(self) -> list[str]:
        """Return the names of all calls in their order."""
        return [call.name for call in self.calls]

    def named(self, name: str) -> list[dict[str, Any]]:
        """Return the arguments of every call of that name."""
        return [call.arguments for call in self.calls if call.name == name]

    def require(self, allowed: bool, why: str) -> None:
        """Refuse what is not ``allowed``."""
        if not allowed:
            last = ", ".join(self.names()[-5:])
            raise MisuseError(f"{why} (last calls: {last})")

    def require_running(self) -> None:
        """Refuse calls before the application's start and after its end."""
        self.require(self.application is not None, "SimulationApp has not been started")
        self.require(not self.ended, "the application was closed")

    def require_playing(self, what: str) -> None:
        """Refuse calls that need the physics views."""
        self.require_running()
        self.require(self.physics is not None, f"{what} needs world.reset() before it, and no stop() since")


Function = TypeVar("Function", bound=Callable[..., Any])


def recorded(function: Function) -> Function:
    """Record each call of a method of an object with a ``kit``, after its arguments were bound to its signature."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(self, *args, **kwargs)
        arguments = {k: v for k, v in bound.arguments.items() if k != "self"}
        self.kit.calls.append(Call(f"{type(self).__name__}.{function.__name__}", arguments))
        return function(self, *args, **kwargs)

    return wrapper  # type: ignore[return-value]


def checked(kit: Kit, name: str, array: Any, shape: tuple[int, ...], *, single: bool = True) -> np.ndarray:
    """Return an array of exactly that shape, of finite numbers, in single precision where the views hold that."""
    kit.require(isinstance(array, np.ndarray), f"{name} must be a numpy array, is {type(array).__name__}")
    kit.require(array.shape == shape, f"{name} must have the shape {shape}, has {array.shape}")
    wanted = np.float32 if single else np.floating
    kit.require(np.issubdtype(array.dtype, wanted), f"{name} must be {wanted.__name__}, is {array.dtype}")
    kit.require(bool(np.isfinite(array).all()), f"{name} must be finite")
    return array


def checked_quaternion(kit: Kit, name: str, array: Any, shape: tuple[int, ...], *, single: bool = True) -> np.ndarray:
    """Return unit quaternions."""
    checked(kit, name, array, shape, single=single)
    lengths = np.linalg.norm(array, axis=-1)
    kit.require(bool(np.allclose(lengths, 1.0, atol=1e-5)), f"{name} must have length 1, has {lengths}")
    return array
