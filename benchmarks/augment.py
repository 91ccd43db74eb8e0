"""How many 32x32x3 images a second one thread augments, against a plain loop over the images.

    python benchmarks/augment.py [--quick]

Writes benchmarks/results/augment.json.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import record
import torch
from torch import Tensor
from torch.nn import functional as F

from protoattend.data.augment import Augmentation, random_crop, random_cutout, random_flip, standardize_per_image

SEED = 0
THREADS = 1
BATCH = 256  # what a training step augments at once

# Standardisation is part of "all": the paper applies it after every crop and flip.
AUGMENT = Augmentation(padding=3, horizontal=True)
STEPS: dict[str, Callable[[Tensor, torch.Generator], Tensor]] = {
    "crop": lambda images, generator: random_crop(images, 3, generator),
    "flip": lambda images, generator: random_flip(images, generator, -1),
    "cutout": lambda images, generator: random_cutout(images, 8, generator),
    "standardize": lambda images, generator: standardize_per_image(images),
    "all": lambda images, generator: standardize_per_image(AUGMENT(images, generator)),
}


def loop_over_images(images: Tensor, generator: torch.Generator) -> Tensor:
    """The peer: the same crop, flip and standardisation, one image after the other."""
    augmented = []
    for image in F.pad(images, (3, 3, 3, 3)):
        down, right = torch.randint(0, 7, (2,), generator=generator).tolist()
        window = image[:, down : down + 32, right : right + 32]
        if torch.rand((), generator=generator) < 0.5:
            window = window.flip(-1)
        window = window.float()
        augmented.append((window - window.mean()) / window.std().clamp_min(1 / 3072**0.5))
    return torch.stack(augmented)


def images_per_second(step: Callable[[Tensor, torch.Generator], Tensor], images: Tensor, *, repeats: int) -> float:
    """Return the rate of the fastest of `repeats` passes: the others waited for something else."""
    generator = torch.Generator().manual_seed(SEED)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        for batch in images.split(BATCH):
            step(batch, generator)
        times.append(time.perf_counter() - start)
    return len(images) / min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer images and passes")
    quick = parser.parse_args().quick
    torch.set_num_threads(THREADS)
    n_images, repeats = (2048, 5) if quick else (8192, 20)
    generator = torch.Generator().manual_seed(SEED)
    images = torch.randint(0, 256, (n_images, 3, 32, 32), dtype=torch.uint8, generator=generator)
    rates = {name: images_per_second(step, images, repeats=repeats) for name, step in STEPS.items()}
    loop = images_per_second(loop_over_images, images[:1024], repeats=3)
    report = {
        "image": [3, 32, 32],
        "dtype": "uint8",
        "all": "crop + flip + standardize",
        "batch": BATCH,
        "images_per_second": {name: round(rate) for name, rate in rates.items()},
        "loop_images_per_second": round(loop),
        "ratio_to_loop": round(rates["all"] / loop, 1),
        "quick": quick,
        "seed": SEED,
    }
    record.write("augment", report)
    print(f"crop + flip + standardize, threads={THREADS}: {rates['all'] / loop:.1f} times a loop over images")
    shown = " ".join(f"{name}={rates[name]:.0f}" for name in ("crop", "flip", "cutout", "all"))
    print(f"augment {shown} images/s")


if __name__ == "__main__":
    main()
