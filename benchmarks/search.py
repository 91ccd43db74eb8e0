"""Exact attention over many candidates against dense softmax, entmax, faiss and the bare product, interleaved.

    python benchmarks/search.py [--quick]

Ours gives logits, class mass and the ten heaviest prototypes, with confidence also the flat reading of all candidates;
faiss gives 64 neighbours and no decision. `--quick`
leaves out ten million candidates. Writes benchmarks/results/search.json.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import entmax
import faiss
import numpy as np
import record
import torch
from torch import Tensor, nn
from torch.nn import functional

from protoattend import CandidateDatabase, ProtoAttend
from protoattend.data.inputs import Inputs, fit_inputs
from protoattend.data.labels import Classes
from protoattend.database.flat_mass import Flat
from protoattend.database.rows import Block, Blocks, Rows
from protoattend.database.search import attend
from protoattend.database.searchable import Searchable

D_ATT, N_CLASSES, TOP, NEIGHBOURS = 16, 10, 10, 64
ENTMAX_AT_MOST = 100_000  # candidates: it sorts all scores
DENSE_AT_MOST = 1_000_000
FLAT = 0.5  # temperature of the flat reading, beside 1 of the decision
A_TURN = 8  # single queries in a row, as a server answers them; what they need is then in the cache
Way = Callable[[], object]


def make(n_queries: int, n_candidates: int) -> tuple[Tensor, Searchable]:
    """Return queries and candidates as a trained encoder gives them: classes apart, a dozen prototypes a query."""
    generator = torch.Generator().manual_seed(0)
    centres = 2.4 * torch.randn(N_CLASSES, D_ATT, generator=generator).relu()

    def around(count: int) -> tuple[Tensor, Tensor]:
        labels = torch.randint(N_CLASSES, (count,), generator=generator)
        noise = torch.randn(count, D_ATT, generator=generator)
        return (centres[labels] + 0.5 * noise).relu(), labels

    queries, _ = around(n_queries)
    keys, labels = around(n_candidates)
    class_scores = functional.one_hot(labels, N_CLASSES) * 4.0
    return queries, Searchable(keys.T.contiguous().T, class_scores, labels)  # laid out as a database does


def ways(queries: Tensor, candidates: Searchable) -> Mapping[str, Way]:
    """Return every method that this size allows, by name."""
    columns = torch.cat([candidates.class_scores, functional.one_hot(candidates.labels, N_CLASSES)], dim=1)
    keys = candidates.keys.contiguous()
    index = faiss.IndexFlatIP(D_ATT)
    index.add(np.ascontiguousarray(candidates.keys))
    as_array = queries.numpy()

    def dense(normalize: Callable[..., Tensor]) -> tuple[Tensor, Any]:
        weights = normalize(queries / D_ATT**0.5 @ keys.T, dim=1)
        return weights @ columns, weights.topk(TOP)

    def dense_softmax() -> Tensor:
        return torch.softmax(queries / D_ATT**0.5 @ keys.T, dim=1) @ columns

    found: dict[str, Way] = {
        "ours, sparsemax": lambda: attend(queries, candidates, normalize="sparsemax", top=TOP),
        "ours, with confidence": lambda: attend(queries, candidates, normalize="sparsemax", top=TOP, flat=Flat(FLAT)),
        "ours, softmax": lambda: attend(queries, candidates, normalize="softmax", top=0),
        "faiss top 64": lambda: index.search(as_array, NEIGHBOURS),
    }
    if len(candidates.keys) <= DENSE_AT_MOST:
        found["bare product"] = lambda: queries @ keys.T
        found["dense softmax"] = dense_softmax
    if len(candidates.keys) <= ENTMAX_AT_MOST:
        found["entmax"] = lambda: dense(entmax.sparsemax)
    return found


def compare(n_queries: int, n_candidates: int, budget: float) -> dict[str, float]:
    """Return each method's median milliseconds for a call, taking turns for about `budget` seconds."""
    queries, candidates = make(n_queries, n_candidates)
    methods = ways(queries, candidates)
    times: dict[str, list[float]] = {name: [] for name in methods}
    until = time.perf_counter() + budget
    while len(times["faiss top 64"]) < 4 or time.perf_counter() < until:
        for name, method in methods.items():
            for _ in range(A_TURN if n_queries == 1 else 1):
                started = time.perf_counter()
                method()
                times[name].append(time.perf_counter() - started)
    return {name: 1000 * median(values[1:]) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="leave out ten million candidates; under 3 minutes")
    quick = parser.parse_args().quick
    faiss.omp_set_num_threads(torch.get_num_threads())
    sizes = [(b, d) for d in (32_768, 1_000_000) for b in (1, 256)]
    found: dict[str, dict[str, float]] = {}
    for b, d in sizes:
        found[f"B={b} D={d}"] = compare(b, d, budget=5 if d < 100_000 else 20)
        _show(f"B={b} D={d}", found[f"B={b} D={d}"])
    at_32k, at_1m = found["B=256 D=32768"], found["B=256 D=1000000"]
    ratios = {
        "vs_entmax_32k": at_32k["entmax"] / at_32k["ours, sparsemax"],
        "vs_faiss_1m": at_1m["faiss top 64"] / at_1m["ours, sparsemax"],
        "vs_matmul_32k": at_32k["ours, sparsemax"] / at_32k["bare product"],
        "softmax_vs_dense_1m": at_1m["dense softmax"] / at_1m["ours, softmax"],
        **{
            f"confidence_{name}": found[size]["ours, with confidence"] / found[size]["ours, sparsemax"]
            for name, size in (("single_1m", "B=1 D=1000000"), ("1m", "B=256 D=1000000"))
        },
        "confidence_vs_faiss_1m": at_1m["faiss top 64"] / at_1m["ours, with confidence"],
        "single_vs_faiss_32k": found["B=1 D=32768"]["faiss top 64"] / found["B=1 D=32768"]["ours, sparsemax"],
        "single_vs_faiss_1m": found["B=1 D=1000000"]["faiss top 64"] / found["B=1 D=1000000"]["ours, sparsemax"],
    }
    rss = float("nan")
    if not quick:
        large = ten_million()
        _show("D=10000000, from disk", large)
        rss = large["rss_gb"]
        record.write(
            "search", {"milliseconds": found, "ratios": ratios, "ten_million": large, "d_att": D_ATT, "seed": 0}
        )
    print(", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items()))
    print(
        f"search vs_entmax_32k={ratios['vs_entmax_32k']:.1f} vs_faiss_1m={ratios['vs_faiss_1m']:.2f} "
        f"vs_matmul_32k={ratios['vs_matmul_32k']:.2f} rss_10m_gb={rss:.2f}"
    )


def ten_million() -> dict[str, float]:
    """Write a database of ten million rows, and open and search it in a process of its own; return what that took."""
    with tempfile.TemporaryDirectory(prefix="protoattend-search-") as folder:
        path = Path(folder) / "database"
        _, candidates = make(1, 10_000_000)
        count = len(candidates.keys)
        keys = candidates.keys.contiguous()
        block = Block(keys, torch.zeros(1, 8).expand(count, 8), np.zeros((count, 1), dtype=np.float32))
        rows = Rows(
            np.arange(count),
            candidates.labels,
            keys,
            candidates.class_scores,
            edited=torch.zeros(1, dtype=torch.bool).expand(count),
            sample_weight=torch.ones(1).expand(count),
            blocks=Blocks((block,)),
        )
        model, inputs, classes = _owner()
        CandidateDatabase(model, inputs, classes, rows, next_id=count).save(path)
        del rows, block, candidates, keys
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
            return alone.submit(_open_and_search, str(path)).result()


def _open_and_search(folder: str) -> dict[str, float]:
    queries, _ = make(256, 256)
    model, inputs, classes = _owner()
    started = time.perf_counter()
    database = CandidateDatabase.open(folder, model, inputs=inputs, classes=classes)
    opened = time.perf_counter() - started
    found = {"open": 1000 * opened}
    for b in (1, 256):
        times = []
        for _ in range(4):
            started = time.perf_counter()
            assert database.decide(queries[:b]).exact
            times.append(time.perf_counter() - started)
        found[f"B={b}"] = 1000 * median(times[1:])
    return found | {"rss_gb": _most_memory() / 2**30}


def _most_memory() -> int:
    """Return the most bytes this process has held; getrusage would count those of the process it was forked from."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def _owner() -> tuple[ProtoAttend, Inputs, Classes]:
    torch.manual_seed(0)
    model = ProtoAttend(nn.Flatten(), N_CLASSES, in_features=D_ATT, d_att=D_ATT, d_out=8)
    return model, fit_inputs(np.zeros((2, 1))), Classes.fit(np.arange(N_CLASSES))


def _show(title: str, times: Mapping[str, float]) -> None:
    print(f"{title}: " + ", ".join(f"{name} {taken:.2f} ms" for name, taken in times.items()), flush=True)


if __name__ == "__main__":
    main()
