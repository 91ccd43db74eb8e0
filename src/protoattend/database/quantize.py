"""Keys in fewer bits: float16 or int8, with the error that follows for every score."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from protoattend.errors import UserError, choose

DTYPES = {"float16": torch.float16, "int8": torch.int8}
LARGEST = {"float16": 65504.0, "int8": 127.0}


@dataclass(frozen=True)
class Quantization:
    """How keys are kept: 1 stands for `scale` `(d_att,)`, and no key is further off than `error` `(d_att,)`.

    A score differs from that of the unrounded keys by at most eps = sum_d |q_d| error_d / (sqrt(d_att) temperature).
    With sparsemax tau then moves by at most eps and each weight of a candidate that counts once by at most 2 eps; with
    softmax each weight changes at most by the factor exp(2 eps).
    """

    dtype: str
    scale: Tensor
    error: Tensor

    @classmethod
    def of(cls, keys: Tensor, dtype: str) -> Quantization:
        """Return a rounding for keys `(D, d_att)` and any others in their range: half a step is what they are off.

        The steps of int8 are equal, 127 up to the largest key of each dimension; those of float16 are at most 2^-10 of
        it, and at least 2^-24.
        """
        choose(dtype, DTYPES, "dtype")
        largest = keys.abs().amax(0).clamp(min=1e-6)
        if dtype == "int8":
            return cls(dtype, largest / 127, largest / 254)
        return cls(dtype, torch.ones_like(largest), (largest / 2048).clamp(min=2**-25))

    def round(self, keys: Tensor) -> Tensor:
        """Return keys in the smaller dtype; raise where one is further off than `error`."""
        scaled = (keys / self.scale).clamp(-LARGEST[self.dtype], LARGEST[self.dtype])
        rounded = (scaled.round() if self.dtype == "int8" else scaled).to(DTYPES[self.dtype])
        off = (self.widen(rounded) - keys).abs().amax(0)
        if bool((off > 1.001 * self.error).any()):  # the sum itself is rounded to float32
            raise UserError(
                f"keys must lie within the range of those first rounded to {self.dtype}, but one is off by "
                f"{float((off / self.error).max()):.1f} times the error stated; add to the unrounded database and "
                "round that again."
            )
        return rounded

    def widen(self, keys: Tensor) -> Tensor:
        return keys.to(self.scale.dtype) * self.scale

    def scaled(self, queries: Tensor) -> Tensor:
        """Return queries whose products with rounded keys are those with the keys they stand for."""
        return queries * self.scale.to(queries.dtype)

    def score_error(self, queries: Tensor, temperature: float = 1.0) -> Tensor:
        """Return eps `(B,)`: how far any score of each query can be off at the model's temperature."""
        return (queries.abs() * self.error).sum(1) / (math.sqrt(queries.shape[1]) * temperature)

    def state(self) -> dict[str, Any]:
        return {"dtype": self.dtype, "scale": self.scale.tolist(), "error": self.error.tolist()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any] | None) -> Quantization | None:
        if state is None:
            return None
        return cls(state["dtype"], torch.tensor(state["scale"]), torch.tensor(state["error"]))
