"""What an encoder is made of, as data: a saved folder names every part and its arguments, and loading remakes them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import wraps
from typing import Any, TypeVar

from torch import nn

from protoattend.data.samples import Samples
from protoattend.errors import BadFile

PARTS: dict[str, type[nn.Module]] = {}
Part = TypeVar("Part", bound=type[nn.Module])
_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def part(cls: Part) -> Part:
    """Let a module remember the arguments it was made with, and be known by its name."""
    make, signature = cls.__init__, inspect.signature(cls.__init__)

    @wraps(make)
    def remember(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        given = signature.bind(self, *args, **kwargs)
        given.apply_defaults()
        named = (name for name, kind in signature.parameters.items() if kind.kind not in _VARIABLE)
        self.arguments = {name: given.arguments[name] for name in named if name != "self"}

    cls.__init__ = remember  # type: ignore[method-assign]
    PARTS[cls.__name__] = cls
    return cls


def show(module: nn.Module, samples: Samples) -> None:
    """Let a part that learns from the training samples before training, such as their mean, see them."""
    learn: Any = getattr(module, "learn_from", None)
    if learn is not None:
        learn(samples)


def describe(module: nn.Module) -> dict[str, Any]:
    """Return a part as JSON can hold it.

    >>> describe(make_part({"part": "LayerNorm", "normalized_shape": 4}))
    {'part': 'LayerNorm', 'normalized_shape': 4}
    """
    if isinstance(module, nn.LayerNorm):
        return {"part": "LayerNorm", "normalized_shape": module.normalized_shape[0]}
    arguments: Mapping[str, Any] = {} if isinstance(module, nn.Identity) else module.arguments  # type: ignore[assignment]
    listed = {name: list(value) if isinstance(value, tuple) else value for name, value in arguments.items()}
    return {"part": type(module).__name__, **listed}


def make_part(description: Mapping[str, Any]) -> nn.Module:
    """Return the part that was described, with fresh weights."""
    known = PARTS | {"LayerNorm": nn.LayerNorm, "Identity": nn.Identity}
    arguments = dict(description)
    name = arguments.pop("part", None)
    if name not in known:
        raise BadFile(
            f"an encoder is made of {sorted(known)}, but the folder names {name!r}; use the version it is of."
        )
    return known[name](**arguments)
