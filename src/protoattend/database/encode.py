"""What a database needs of a model: encoded samples, the decision layer, and a fingerprint."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from protoattend.core.model import KEY_LAYERS_OF_THE_PAPER, Encoded, ProtoAttend
from protoattend.data.samples import Samples, chunks, subset
from protoattend.encoders.build import rows_at_once
from protoattend.encoders.test_time_augmentation import TestTimeAugmentation
from protoattend.parallel import merge, ranks


def decision_weight(model: ProtoAttend) -> Tensor:
    """Return the decision layer's weight `(C, d_out)`: class scores are values times its transpose."""
    return model.decision.weight.detach().cpu()


def fingerprint(model: ProtoAttend) -> str:
    """Return a hash of all parameters, buffers and test-time augmentation: equal exactly for models that encode alike.

    The temperature is no part of it: what is encoded does not depend on it.
    """
    digest = hashlib.sha256(model.normalize.encode())
    digest.update(b"" if len(model.key) == KEY_LAYERS_OF_THE_PAPER else b"keys of one length")
    augmentation = getattr(model.encoder, "test_time_augmentation", TestTimeAugmentation())
    if len(augmentation) > 1:
        # By the name it had in the first saved folders, whose fingerprints must hold.
        digest.update(f"Views(mirror={augmentation.mirror}, shift={augmentation.shift})".encode())
    for name, value in sorted(model.state_dict().items()):
        if name == "temperature":
            continue
        digest.update(name.encode())
        flat = value.detach().cpu().contiguous().view(-1)
        digest.update(flat.view(torch.uint8).numpy().data)  # as bytes, for numpy knows no bfloat16
    return digest.hexdigest()


def encode(model: ProtoAttend, samples: Samples, on_batch: Callable[[int], None] = lambda done: None) -> Encoded:
    """Return queries, keys and values of all samples, on the CPU, without gradient."""
    parts = list(_encode_batches(model, samples, on_batch))
    return Encoded(*(torch.cat([getattr(part, name) for part in parts]) for name in ("queries", "keys", "values")))


def encode_together(model: ProtoAttend, samples: Samples) -> Encoded:
    """Return what `encode` does, in every process; of several, each encodes its share."""
    count = len(samples)
    own = encode(model, subset(samples, ranks().rows(count)))
    return Encoded(merge(own.queries, count), merge(own.keys, count), merge(own.values, count))


def features_together(model: ProtoAttend, samples: Samples) -> Tensor:
    """Return the features of all samples `(n, in_features)`, in every process; of several, each reads its share."""
    count, device = len(samples), next(model.parameters()).device
    own = chunks(subset(samples, ranks().rows(count)), rows_at_once(model.encoder, device))
    model.eval()
    with torch.no_grad():
        return merge(torch.cat([model.features(x.to(device)).cpu() for x in own]), count)


def _encode_batches(model: ProtoAttend, samples: Samples, on_batch: Callable[[int], None]) -> Iterator[Encoded]:
    device = next(model.parameters()).device
    size = rows_at_once(model.encoder, device)
    model.eval()
    done = 0
    with torch.no_grad():
        for x in chunks(samples, size):
            encoded = model.encode(x.to(device))
            yield Encoded(encoded.queries.cpu(), encoded.keys.cpu(), encoded.values.cpu())
            done += len(x)
            on_batch(done)
