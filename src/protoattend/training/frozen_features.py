"""A frozen encoder reads every row once; in training, its features stand for the samples."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from protoattend.data.samples import Samples, chunks, subset
from protoattend.encoders.build import Encoder, rows_at_once
from protoattend.encoders.pretrained import Frozen, require_finite
from protoattend.parallel import merge, ranks
from protoattend.training.progress import counting_bar
from protoattend.training.setup import Prepared


def cache_features(
    encoder: Encoder, prepared: Prepared, *, device: torch.device, verbose: int
) -> tuple[Encoder, Prepared]:
    """Return the part of an encoder that is trained, and the data it is trained on.

    Of a frozen encoder these are the mapping behind it and the features of all rows, of which each process has encoded
    its share; of any other, what was passed.
    """
    if not (isinstance(encoder.front, Frozen) and isinstance(encoder.body, Encoder)):
        return encoder, prepared
    features = _features(encoder, prepared.everything.samples, device, verbose)
    cached = replace(prepared, everything=replace(prepared.everything, samples=features))
    encoder.body.learn_from(cached.train.samples)
    return encoder.body, cached


def _features(encoder: Encoder, samples: Samples, device: torch.device, verbose: int) -> Tensor:
    front, own = encoder.front.to(device), ranks().rows(len(samples))
    parts: list[Tensor] = []
    done = own.start
    with torch.no_grad(), counting_bar(verbose, own.stop, "frozen encoder") as on_rows:
        for x in chunks(subset(samples, own), rows_at_once(encoder, device)):
            features = front(x.to(device)).cpu()
            require_finite(features, "the frozen encoder", start=done)
            parts.append(features)
            done += len(x)
            on_rows(done)
    return merge(torch.cat(parts), len(samples))
