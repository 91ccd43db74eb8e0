"""The paper's encoder for tables (Appendix A.3): one LSTM that reads the same features several times."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from protoattend.encoders.parts import part
from protoattend.errors import UserError


@part
class PaperLSTM(nn.Module):
    """Concatenated features `(B, in_features)` through FC, ReLU and `steps` LSTM steps: `(B, hidden)`.

    The features become a 64-dimensional vector (fully-connected layer, ReLU), which after dropout is the
    input of each of 4 timesteps; the output of the last one is used, again after dropout. Each timestep draws
    its own dropout mask, so that the steps see the features through different gaps.

    >>> import torch
    >>> PaperLSTM(108)(torch.zeros(2, 108)).shape
    torch.Size([2, 64])
    """

    def __init__(self, in_features: int, hidden: int = 64, *, steps: int = 4, dropout: float = 0.5) -> None:
        super().__init__()
        for name, count in (("in_features", in_features), ("hidden", hidden), ("steps", steps)):
            if count < 1:
                raise UserError(f"{name} must be at least 1, but got {count}; pass {name}=1 or more")
        if not 0 <= dropout < 1:
            raise UserError(f"dropout must be in [0, 1), but got {dropout}; the paper's is dropout=0.5")
        self.out_features = hidden
        self.steps = steps
        self.dropout = nn.Dropout(dropout)
        self.embed = nn.Linear(in_features, hidden)
        self.lstm = nn.LSTM(hidden, hidden, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """Map features `(B, in_features)` to `(B, out_features)`."""
        embedded = F.relu(self.embed(x))
        repeated = embedded.unsqueeze(1).expand(-1, self.steps, -1)
        outputs, _ = self.lstm(self.dropout(repeated))
        last: Tensor = self.dropout(outputs[:, -1])
        return last
