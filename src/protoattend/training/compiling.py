"""torch.compile around the encoder, for as long as it trains."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def compiled(module: nn.Module) -> Iterator[None]:
    """Inside the block, calls of the module run compiled; at inference batches of every size would compile again."""
    module.compile()
    try:
        yield
    finally:
        module._compiled_call_impl = None  # torch offers no way back
