"""One encoder, one table: confidence, out-of-distribution (OOD) detection and examples of ProtoAttend beside its peers.

    PROTOATTEND_DATA=../shared/data python benchmarks/compare.py --work FOLDER [--quick] [--sets A,B] [--seeds 0,1,2]

On digits (900 rows) and Fashion-MNIST (10,000) one PlainClassifier is trained by its defaults, and all peers sit on
it (`protoattend.baselines`), two of them on our encoder too; ours is trained by our defaults. Of confidence: AURC,
and AUROC at telling test rows from rotated and inverted digits, or rotated images and notMNIST. Of examples, ten for
an input: the share of their weight on the input's class, whether the decision rests on them (deletion), and whether
others take their place when parameters are shuffled. Each is judged by the decision that it explains: ours and kNN by
their own, representer points by the sum they are terms of; influence and TracIn, which do not decide, by that sum
too, for it is the network's last layer.

What is trained and measured is kept in FOLDER, so that a run that was stopped goes on where it was. Writes
benchmarks/results/compare.json. `--quick`: short trainings on digits, two networks in the ensemble; writes nothing but
FOLDER.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import record
import torch
from compare_data import SETS, Data

from protoattend import PlainClassifier, ProtoAttendClassifier
from protoattend.baselines import (
    ConfidenceMethod,
    DeepKnn,
    ExampleMethod,
    InfluenceFunctions,
    MaxProbability,
    MonteCarloDropout,
    NearestNeighbours,
    Network,
    RepresenterPoints,
    TracIn,
    TrustScore,
)
from protoattend.baselines.network import shuffled
from protoattend.explain.quality import TrainingSet, prototype_quality
from protoattend.explain.ranking import DatabaseRanker
from protoattend.monitoring.ood import neighbour_distance
from protoattend.monitoring.ood_curves import OodCurve
from protoattend.uncertainty.selective import risk_coverage

EXAMPLES = 10  # of every method, for an input
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """One set with one seed: everything trained on it, made when first needed and kept in a folder.

    Networks are kept as what they make of every set, so that methods read inputs by the name of their set.
    """

    data: Data
    folder: Path
    seed: int
    params: Mapping[str, Any]
    members: int

    @cached_property
    def network(self) -> Network:
        return _by_name(self._plain, self.data, "layers")

    @cached_property
    def nothing_learned(self) -> Network:
        """The plain network with its parameters shuffled."""
        return _by_name(self._plain, self.data, "shuffled")

    @cached_property
    def ours(self) -> ProtoAttendClassifier:
        folder = self.folder / "protoattend"
        if not folder.exists():
            clf = ProtoAttendClassifier(**self.params, random_state=self.seed, verbose=0)
            clf.fit(self.data.X["train"], self.data.y["train"]).save(folder)
        return ProtoAttendClassifier.load(folder)

    @cached_property
    def our_network(self) -> Network:
        """Our encoder with its decision on own values, for peers to sit on: what is left is the method alone."""
        network = Network.of(self.ours, self.data.X["train"], self.data.y["train"], inside=())
        return replace(network, read=lambda name: network.read(self.data.X[name]))

    @cached_property
    def ensemble(self) -> Arrays:
        """The mean probabilities of all members by set; the plain network is the first."""
        others = []
        for member in range(1, self.members):
            seed = 1000 * (self.seed + 1) + member  # that no other training here has
            path = self.folder / f"member-{member}.npz"
            others.append(kept(path, lambda seed=seed: self._train_member(seed)))
        first = {name: self.network.probabilities(name) for name in self.data.X}
        return {name: np.mean([first[name], *(other[name] for other in others)], axis=0) for name in first}

    @cached_property
    def _plain(self) -> Arrays:
        return kept(self.folder / "plain.npz", self._train_plain)

    def _train_plain(self) -> Arrays:
        plain = PlainClassifier(**self.params, random_state=self.seed, verbose=0)
        plain.fit(self.data.X["train"], self.data.y["train"])
        without = shuffled(plain)
        found = {"weight|layers": _weight(plain), "weight|shuffled": _weight(without), "classes": plain.classes_}
        few = self.data.X["train"][:2], self.data.y["train"][:2]  # all rows are read below
        network, random = (Network.of(classifier, *few) for classifier in (plain, without))
        for name, X in self.data.X.items():
            found |= {f"{name}|layers|{i}": layer for i, layer in enumerate(network.read(X))}
        for name in ("train", "explained"):
            found[f"{name}|shuffled|0"] = random.read(self.data.X[name])[-1]
        return found

    def _train_member(self, seed: int) -> Arrays:
        member = PlainClassifier(**self.params, random_state=seed, verbose=0)
        member.fit(self.data.X["train"], self.data.y["train"])
        return {name: member.predict_proba(X) for name, X in self.data.X.items()}


@dataclass(frozen=True)
class ByName:
    """A confidence method as two functions of a set's name."""

    predict: Callable[[str], np.ndarray]
    confidence: Callable[[str], np.ndarray]


@dataclass(frozen=True)
class Judged:
    """Examples of one method, judged by what another decides without them."""

    examples: ExampleMethod
    decider: RepresenterPoints

    def rank(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        return self.examples.rank(X)

    def probabilities(self, X: Any, *, without: np.ndarray | None = None, only: np.ndarray | None = None) -> np.ndarray:
        return self.decider.probabilities(X, without=without, only=only)


def kept(path: Path, make: Callable[[], Arrays]) -> Arrays:
    """Return the arrays kept at `path`, made and written whole where they are not there yet."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part.npz")
        np.savez(part, **make())
        part.rename(path)
    with np.load(path) as arrays:
        return dict(arrays)


def _weight(classifier: PlainClassifier) -> np.ndarray:
    return classifier.model_.decision.weight.detach().double().numpy()


def _by_name(arrays: Arrays, data: Data, which: str) -> Network:
    """Return a network that reads a set, given by its name, from arrays."""

    def read(name: str) -> tuple[np.ndarray, ...]:
        count = sum(key.startswith(f"{name}|{which}|") for key in arrays)
        return tuple(arrays[f"{name}|{which}|{i}"] for i in range(count))

    classes = arrays["classes"]
    labels = np.searchsorted(classes, data.y["train"])
    return Network(read, arrays[f"weight|{which}"], classes, read("train"), labels)


def _ours(case: Case, confidence: Callable[[ProtoAttendClassifier, np.ndarray], np.ndarray]) -> ByName:
    return ByName(
        lambda name: case.ours.predict(case.data.X[name]), lambda name: confidence(case.ours, case.data.X[name])
    )


def _dropout(case: Case) -> MonteCarloDropout:
    # The image encoders have no dropout of their own: draws differ by what the last layer reads alone.
    return MonteCarloDropout(lambda name, draw: case.network.read(name)[-1], case.network.weight, case.network.classes)


def _ensemble(case: Case) -> ByName:
    return ByName(
        lambda name: case.network.classes[case.ensemble[name].argmax(1)], lambda name: case.ensemble[name].max(1)
    )


def _deep_knn(case: Case) -> DeepKnn:
    return DeepKnn(case.network, "calibration", case.data.y["calibration"])


def _credibility(case: Case) -> ByName:
    deep = _deep_knn(case)
    return ByName(deep.predict, deep.credibility)


def _distance(case: Case) -> ByName:
    reference = torch.from_numpy(case.network.values)
    return ByName(
        case.network.predict,
        lambda name: -neighbour_distance(torch.from_numpy(case.network.read(name)[-1]), reference, EXAMPLES),
    )


CONFIDENCE: Mapping[str, Callable[[Case], ConfidenceMethod]] = {
    "ProtoAttend, C": lambda case: _ours(case, lambda clf, X: clf.confidence(X)),
    "ProtoAttend, probability": lambda case: _ours(case, lambda clf, X: clf.predict_proba(X).max(1)),
    "ProtoAttend, ood_score": lambda case: _ours(case, lambda clf, X: -clf.ood_score(X)),
    "MSP": lambda case: MaxProbability(case.network),
    "dropout": _dropout,
    "deep ensemble": _ensemble,
    "deep kNN, credibility": _credibility,
    "deep kNN, confidence": _deep_knn,
    "trust score": lambda case: TrustScore(case.network),
    "trust score, alpha 0.1": lambda case: TrustScore(case.network, alpha=0.1),
    "kNN, share of votes": lambda case: NearestNeighbours(case.network),
    "kNN, distance": _distance,
    "MSP on our encoder": lambda case: MaxProbability(case.our_network),
    "trust score on our encoder": lambda case: TrustScore(case.our_network),
}
RANKERS: Mapping[str, Callable[[Network], ExampleMethod]] = {
    "kNN": lambda network: NearestNeighbours(network, k=EXAMPLES),
    "representer points": lambda network: RepresenterPoints(network, top=EXAMPLES),
    "influence functions": lambda network: InfluenceFunctions(network, top=EXAMPLES),
    "TracIn": lambda network: TracIn([network], top=EXAMPLES),
}


def measure_confidence(method: ConfidenceMethod, data: Data) -> dict[str, Any]:
    """Return accuracy, AURC and the AUROC of every OOD set."""
    correct = method.predict("test") == data.y["test"]
    inside = method.confidence("test")
    return {
        "accuracy": float(correct.mean()),
        "aurc": risk_coverage(inside, correct).aurc,
        "ood_auroc": {
            name: OodCurve.from_scores(-inside, -method.confidence(name)).auroc for name in data.out_of_distribution
        },
    }


def measure_examples(name: str, case: Case) -> dict[str, float]:
    """Return the quality of a method's examples for some test rows."""
    pixels = case.data.X["train"].reshape(len(case.data.y["train"]), -1).astype(float)
    train = TrainingSet(case.data.y["train"], features=pixels)
    labels = case.data.y["explained"]
    if name == "ProtoAttend":
        ours = DatabaseRanker(case.ours.database_, top=EXAMPLES)
        found = prototype_quality(ours, case.data.X["explained"], labels, train=train, randomised=ours.shuffled())
        return found.to_dict()
    method: Any = RANKERS[name](case.network)
    if name in ("influence functions", "TracIn"):
        method = Judged(method, RepresenterPoints(case.network))
    nothing = RANKERS[name](case.nothing_learned)
    return prototype_quality(method, "explained", labels, train=train, randomised=nothing).to_dict()


def run(case: Case) -> dict[str, Any]:
    """Measure every method that has not been measured yet."""
    confidence, examples = {}, {}
    for name, make in CONFIDENCE.items():
        path = case.folder / f"confidence, {name}.json"
        confidence[name] = record.once(path, lambda make=make: measure_confidence(make(case), case.data))
        ood = " ".join(f"{other}={auroc:.3f}" for other, auroc in confidence[name]["ood_auroc"].items())
        print(f"  {name}: AURC {confidence[name]['aurc']:.4f}, AUROC {ood}", flush=True)
    for name in ("ProtoAttend", *RANKERS):
        path = case.folder / f"examples, {name}.json"
        examples[name] = record.once(path, lambda name=name: measure_examples(name, case))
        told = " ".join(f"{key}={examples[name][key]:.3f}" for key in ("same_class", "deletion", "learned"))
        print(f"  examples of {name}: {told}", flush=True)
    return {"confidence": confidence, "examples": examples}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="folder for what is trained and measured; needed unless --quick")
    parser.add_argument("--quick", action="store_true", help="short trainings on digits; writes nothing but the folder")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--seeds", default="0,1,2")
    arguments = parser.parse_args()
    if arguments.work is None and not arguments.quick:
        parser.error("--work FOLDER is needed: training takes long, and is kept there")
    work = arguments.work or Path(tempfile.mkdtemp(prefix="compare-"))
    sets = ["digits"] if arguments.quick else arguments.sets.split(",")
    seeds = [0] if arguments.quick else [int(seed) for seed in arguments.seeds.split(",")]
    params: dict[str, Any] = {"max_epochs": 4} if arguments.quick else {}
    members = 2 if arguments.quick else 4
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in sets}
    for seed in seeds:
        for name in sets:
            print(f"{name} {seed}", flush=True)
            folder = work / f"{name}-{seed}{'-quick' if arguments.quick else ''}"
            runs[name].append(run(Case(SETS[name](seed), folder, seed, params, members)))
    if not arguments.quick:
        record.write("compare", {"seeds": seeds, "members": members, "examples": EXAMPLES, "runs": runs})
    for name, found in runs.items():
        aurc = {of: np.mean([one["confidence"][of]["aurc"] for one in found]) for of in CONFIDENCE}
        best = min((of for of in aurc if not of.startswith("ProtoAttend")), key=aurc.__getitem__)
        ratio = aurc["ProtoAttend, C"] / aurc[best] if aurc[best] else float("nan")
        print(f"compare {name} aurc_vs_best_peer={ratio:.3f} best_peer={best!r}")


if __name__ == "__main__":
    main()
