"""Tensors of a checkpoint's folder, by name: safetensors, or a file of torch that holds nothing but tensors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rlstack.errors import UserError
from rlstack.libraries import import_library

EXTRA = "vla"
"""Extra of rlstack with the libraries that checkpoints need."""

_ONE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_TORCH = "pytorch_model.bin"
_NAMED = 3
"""Tensors that are named where several differ."""


class Weights:
    """A checkpoint's tensors, which are read when they are asked for.

    Args:
        folder: Of the checkpoint.

    Raises:
        UserError: It has no weights, they are damaged, or they are more than weights.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._torch: dict[str, Tensor] = {}
        self._files: dict[str, Any] = {}
        """File of each tensor."""
        if (folder / _INDEX).is_file():
            self._open({folder / name for name in self._listed()})
        elif (folder / _ONE).is_file():
            self._open({folder / _ONE})
        elif (folder / _TORCH).is_file():
            self._torch = _loaded(folder / _TORCH)
        else:
            raise UserError(f"{folder} has no {_ONE}, {_INDEX} or {_TORCH}: name a checkpoint's folder.")

    def _listed(self) -> set[str]:
        path = self.folder / _INDEX
        try:
            names = {str(name) for name in json.loads(path.read_bytes())["weight_map"].values()}
        except (ValueError, KeyError, AttributeError, TypeError, OSError) as error:
            raise UserError(f"{path} is not an index of weights ({error}): copy it again.") from error
        if outside := [name for name in names if Path(name).name != name]:
            raise UserError(f"{path} names {outside[0]}, which is not in the folder.")
        return names

    def _open(self, files: set[Path]) -> None:
        opened = import_library("safetensors", EXTRA).safe_open
        for path in sorted(files):
            try:
                held = opened(path, framework="pt")
                self._files.update(dict.fromkeys(held.keys(), held))
            except Exception as error:  # safetensors raises kinds of its own
                raise UserError(f"{path} cannot be read ({error}): copy it again.") from error

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each tensor."""
        read = {name: tuple(file.get_slice(name).get_shape()) for name, file in self._files.items()}
        return read or {name: tuple(tensor.shape) for name, tensor in self._torch.items()}

    def tensor(self, name: str) -> Tensor:
        """Return a tensor as it is in its file."""
        found: Tensor = self._files[name].get_tensor(name) if name in self._files else self._torch[name]
        return found


def _loaded(path: Path) -> dict[str, Tensor]:
    try:
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:
        raise UserError(
            f"{path} cannot be read as weights alone ({type(error).__name__}); what is more than that is not run."
            " Convert it to safetensors where you trust it."
        ) from error
    if not isinstance(found, dict) or not all(isinstance(one, Tensor) for one in found.values()):
        raise UserError(f"{path} holds more than named tensors.")
    return found


def fill(parts: Mapping[str, nn.Module], weights: Weights, unused: Iterable[str] = ()) -> None:
    """Give modules their tensors as float32.

    Args:
        parts: By the prefix of their tensors' names in the checkpoint; on the device ``meta``.
        weights: The checkpoint's.
        unused: Beginnings of the names of tensors that the modules do not have, and need not.

    Raises:
        UserError: Tensors are missing, left over, or of another shape; the first ones are named.
    """
    held, where = weights.shapes(), weights.folder
    wanted = {
        prefix + name: tuple(tensor.shape)
        for prefix, part in parts.items()
        for name, tensor in part.state_dict().items()
    }
    if missing := [name for name in wanted if name not in held]:
        raise UserError(f"{where} lacks {_named(missing)}.")
    extra = [name for name in held if name not in wanted and not name.startswith(tuple(unused))]
    if extra:
        raise UserError(f"{where} has {_named(extra)}, which its network has no place for.")
    for name, shape in wanted.items():
        if held[name] != shape:
            raise UserError(
                f"{where}: the tensor '{name}' has the shape {list(held[name])}, and its config.json means"
                f" {list(shape)}."
            )
    for prefix, part in parts.items():
        given = {name: weights.tensor(prefix + name).float() for name in part.state_dict()}
        part.load_state_dict(given, assign=True)


def _named(names: list[str]) -> str:
    several = "" if len(names) <= _NAMED else f" and {len(names) - _NAMED} more"
    return f"the tensor{'s' * (len(names) > 1)} {', '.join(f'{name!r}' for name in names[:_NAMED])}{several}"
