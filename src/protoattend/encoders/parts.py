"""What an encoder is made of, as data: a saved folder names every part and its arguments, and loading remakes them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from protoattend.data.samples import Samples
from protoattend.errors import BadFile

PARTS: dict[str, type[nn.Module]] = {}
Part = TypeVar("Part", bound=type[nn.Module])
# Arguments that say what is read.
OF_INPUTS = ("n_numbers", "cardinalities", "n_grams", "n_subwords", "length", "channels")
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
    hints = get_type_hints(known[name].__init__)
    for argument, value in arguments.items():
        if argument in hints and not _fits(value, hints[argument]):
            raise BadFile(
                f"{argument} of {name} must be {hints[argument]}, but the folder has {value!r:.80}; restore it."
            )
    return known[name](**arguments)


@contextmanager
def shapes_alone() -> Iterator[None]:
    """Let modules be made of shapes alone: something huge takes no memory, and no weights are drawn.

    >>> with shapes_alone():
    ...     nn.Embedding(10, 4).weight.device
    device(type='meta')
    """
    with torch.device("meta"), _Undrawn():
        yield


class _Undrawn(TorchFunctionMode):
    """Draws no normal numbers: on the device "meta" torch would load its compiler for them, which takes a second."""

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        if function in (nn.init.normal_, Tensor.normal_):
            return args[0] if args else named["tensor"]
        return function(*args, **named)


def require_form(descriptions: Iterable[Mapping[str, Any]], form: Mapping[str, Any]) -> None:
    """Raise unless parts that read inputs read those of this form: some have no weights whose shapes would tell."""
    for description in descriptions:
        for name in OF_INPUTS:
            if name in description and description[name] != form.get(name):
                raise BadFile(
                    f"{name} of an encoder must be as its inputs are, {form.get(name)}, but the folder has another; "
                    "restore it."
                )


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a value out of JSON is what a part asks for: numbers, texts, true or false, or lists of these."""
    if isinstance(hint, UnionType) or get_origin(hint) is Union:
        return any(_fits(value, each) for each in get_args(hint))
    if hint in (int, float):
        return isinstance(value, (int, hint)) and not isinstance(value, bool)
    if hint in (bool, str, NoneType):
        return isinstance(value, hint)
    inner = get_args(hint)
    if isinstance(value, (list, tuple)):
        return bool(inner) and all(_fits(each, inner[0]) for each in value)
    return False
