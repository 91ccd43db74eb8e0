"""Where the features are in what a module gives: one rule for tensors, tuples, dicts and Hugging Face outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from protoattend.errors import UserError

Output = str | int | Callable[[Any], Tensor] | None
PREFERRED = ("pooler_output", "last_hidden_state", "logits")


class Reader(nn.Module):
    """A module and the choice of its output: whatever a front gives it, as features `(B, F)`.

    A dict from the front becomes named arguments, and its attention mask says which tokens count.
    """

    def __init__(self, module: nn.Module, output: Output = None) -> None:
        super().__init__()
        self.module = module
        self.output = output

    def forward(self, x: Tensor | dict[str, Tensor]) -> Tensor:
        if isinstance(x, dict):
            n_rows = len(next(iter(x.values())))
            given, mask = self.module(**x), x.get("attention_mask")
        else:
            n_rows, given, mask = len(x), self.module(x), None
        chosen = choose_output(given, self.output)
        features = chosen if callable(self.output) else pool(chosen, mask)
        if features.ndim < 2 or len(features) != n_rows:
            raise UserError(
                f"an encoder must map a batch of {n_rows} samples to features ({n_rows}, F), but "
                f"{type(self.module).__name__} gave a tensor of shape {tuple(chosen.shape)}; choose another part of "
                "what it gives with output=, or wrap it."
            )
        return features.flatten(1).float()


def choose_output(given: Any, output: Output = None) -> Tensor:
    """Return the tensor that `output` computes (a callable) or names (a key, attribute or index) in what a module gave.

    None takes a tensor as it is; of several, `pooler_output`, else `last_hidden_state`, `logits`, or the first one.

    >>> from torch import ones, zeros
    >>> choose_output({"hidden": zeros(2, 5), "pooler_output": ones(2, 3)}).shape
    torch.Size([2, 3])
    >>> choose_output((zeros(2, 5), ones(2, 3)), output=1).shape
    torch.Size([2, 3])
    """
    if callable(output):
        parts = {"what output= returned": output(given)}
        output = None
    else:
        parts = _parts(given)
    tensors = {name: part for name, part in parts.items() if isinstance(part, Tensor)}
    if not tensors:
        raise UserError(
            f"an encoder must give a tensor, but there is none in {type(given).__name__} with {list(parts)}; "
            "pass output=, a callable that takes the features out of it."
        )
    if output is None:
        return next((tensors[name] for name in PREFERRED if name in tensors), next(iter(tensors.values())))
    name = dict(enumerate(parts)).get(output) if isinstance(output, int) else output
    if name not in tensors:
        raise UserError(f"output must choose a tensor among {list(tensors)}, but got output={output!r}.")
    return tensors[name]


def pool(features: Tensor, mask: Tensor | None = None) -> Tensor:
    """Average maps `(B, C, H, W)` over their places, and sequences `(B, T, C)` over the tokens that `mask` keeps.

    >>> from torch import tensor
    >>> pool(tensor([[[1.0], [3.0], [9.0]]]), mask=tensor([[1, 1, 0]]))
    tensor([[2.]])
    """
    if features.ndim == 4:
        return features.mean((2, 3))
    if features.ndim != 3:
        return features
    if mask is None or mask.shape != features.shape[:2]:  # a module may give other tokens than it was given
        return features.mean(1)
    kept = mask[:, :, None].to(features.dtype)
    return (features * kept).sum(1) / kept.sum(1).clamp(min=1)


def _parts(given: Any) -> dict[Any, Any]:
    """Return what a module gave as named or numbered parts."""
    if isinstance(given, Mapping):
        return dict(given)
    if hasattr(given, "_asdict"):
        return dict(given._asdict())
    if isinstance(given, (tuple, list)):
        return dict(enumerate(given))
    return {0: given} if isinstance(given, Tensor) else dict(getattr(given, "__dict__", {}))
