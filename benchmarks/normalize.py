"""Sparsemax forward and backward against entmax's and torch's softmax, interleaved.

    python benchmarks/normalize.py [--quick]

Prints peer time / ours, writes benchmarks/results/normalize.json.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from functools import partial
from statistics import median

import entmax
import record
import torch
from torch import Tensor

from protoattend.core.sparsemax import sparsemax

SIZES = {"1024 x 1024": (1024, 1024), "128 x 1024": (128, 1024), "128 x 32768": (128, 32768)}
WAYS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "ours": sparsemax,
    "entmax": partial(entmax.sparsemax, dim=-1),
    "entmax k=128": partial(entmax.sparsemax, dim=-1, k=128),
    "softmax": partial(torch.softmax, dim=-1),
}


def seconds(way: Callable[[Tensor], Tensor], scores: Tensor, gradient: Tensor) -> float:
    """Time one forward and backward."""
    scores = scores.detach().requires_grad_()
    started = time.perf_counter()
    way(scores).backward(gradient)
    return time.perf_counter() - started


def compare(shape: tuple[int, int], rounds: int) -> dict[str, float]:
    """Return the median milliseconds of every way, each timed once a round."""
    generator = torch.Generator().manual_seed(0)
    scores = 2 * torch.randn(shape, generator=generator)  # about a dozen in the support of a thousand
    gradient = torch.randn(shape, generator=generator)
    times: dict[str, list[float]] = {name: [] for name in WAYS}
    for turn in range(rounds + 1):
        for name, way in WAYS.items():
            taken = seconds(way, scores, gradient)
            if turn:
                times[name].append(taken)
    return {name: 1000 * median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 5 if parser.parse_args().quick else 25
    found = {name: compare(shape, rounds) for name, shape in SIZES.items()}
    ratios = {
        size: {name: taken / times["ours"] for name, taken in times.items() if name != "ours"}
        for size, times in found.items()
    }
    for size, times in found.items():
        shown = ", ".join(f"{name} {taken:.2f} ms" for name, taken in times.items())
        print(f"{size}: {shown}")
    record.write("normalize", {"milliseconds": found, "peer_over_ours": ratios, "seed": 0, "rounds": rounds})
    square, wide = ratios["1024 x 1024"], ratios["128 x 32768"]
    print(
        f"normalize vs_entmax_1024={square['entmax']:.2f} vs_entmax_32k={wide['entmax']:.2f} "
        f"vs_softmax_1024={square['softmax']:.2f}"
    )


if __name__ == "__main__":
    main()
