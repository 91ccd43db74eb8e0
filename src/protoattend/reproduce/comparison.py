"""One encoder, one table: confidence, OOD detection and examples of ProtoAttend beside the methods it is compared with.

One PlainClassifier is trained, and all peers sit on it (`protoattend.baselines`), two of them on our encoder too. Each
method's examples are judged by the decision that it explains: ours and kNN by their own, representer points by the sum
they are terms of; influence and TracIn, which do not decide, by that sum too, for it is the network's last layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch

from protoattend.baselines import (
    ConfidenceMethod,
    DeepKnn,
    ExampleMethod,
    InfluenceFunctions,
    MaxProbability,
    MonteCarloDropout,
    NearestNeighbours,
    Network,
    PlainClassifier,
    RepresenterPoints,
    TracIn,
    TrustScore,
)
from protoattend.baselines.network import shuffled
from protoattend.classifier import ProtoAttendClassifier
from protoattend.explain.quality import TrainingSet, prototype_quality
from protoattend.explain.ranking import DatabaseRanker
from protoattend.monitoring.ood import neighbour_distance
from protoattend.monitoring.ood_curves import OodCurve
from protoattend.reproduce.comparison_data import Data, comparison_data
from protoattend.reproduce.data import Rows, shrunk
from protoattend.reproduce.measures import PROTOTYPES, reliable, rounded, selective, share_above, shown
from protoattend.reproduce.record import Arrays, kept_arrays, once
from protoattend.reproduce.work import Work, training_facts

EXAMPLES = 10  # of every method, for an input
LEVELS = np.linspace(0, 1, 21)  # of confidence
SHOWN, PIXELS = 4, 60  # test rows whose examples are shown, and the side of a picture at the most
FALSE_ALARMS = np.linspace(0, 1, 26)  # at which a ROC curve is read


@dataclass(frozen=True)
class Case:
    """One set with one seed: everything trained on it, made when first needed and kept in the run's folder.

    Networks are kept as what they make of every set, so that methods read inputs by the name of their set.
    """

    work: Work
    data: Data

    @cached_property
    def network(self) -> Network:
        return _by_name(self._plain, self.data, "layers")

    @cached_property
    def nothing_learned(self) -> Network:
        """The plain network with its parameters shuffled."""
        return _by_name(self._plain, self.data, "shuffled")

    @cached_property
    def ours(self) -> ProtoAttendClassifier:
        return self._attention("sparsemax")

    @cached_property
    def with_softmax(self) -> ProtoAttendClassifier:
        """As the paper has it for confidence: softmax attention, with lambda_conf."""
        return self._attention("softmax+confidence")

    @cached_property
    def our_network(self) -> Network:
        """Our encoder with its decision on own values, for peers to sit on: what is left is the method alone."""
        network = Network.of(self.ours, self.data.X["train"], self.data.y["train"], inside=())
        return replace(network, read=lambda name: network.read(self.data.X[name]))

    @cached_property
    def ensemble(self) -> Arrays:
        """The mean probabilities of all members by set; the plain network is the first."""
        others = []
        for member in range(1, self.work.config["members"]):
            seed = 1000 * (self.work.run.seed + 1) + member  # that no other training here has
            path = self.work.folder / f"member-{member}.npz"
            others.append(kept_arrays(path, partial(self._train_member, seed)))
        first = {name: self.network.probabilities(name) for name in self.data.X}
        return {name: np.mean([first[name], *(other[name] for other in others)], axis=0) for name in first}

    @cached_property
    def _plain(self) -> Arrays:
        return kept_arrays(self.work.folder / "plain.npz", self._train_plain)

    def _attention(self, training: str) -> ProtoAttendClassifier:
        return self.work.fitted(training, self.work.settings(training), self._rows)

    @property
    def _rows(self) -> Rows:
        return Rows(self.data.X["train"], self.data.y["train"])

    def _train_plain(self) -> Arrays:
        plain = self.work.plain(self.work.settings("baseline"), self._rows)
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
        member = self.work.plain(self.work.settings("baseline"), self._rows, seed)
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

    def probabilities_less(self, X: Any, rows: np.ndarray) -> np.ndarray:
        return self.decider.probabilities_less(X, rows)


def _weight(classifier: PlainClassifier) -> np.ndarray:
    weight: np.ndarray = classifier.model_.decision.weight.detach().double().numpy()
    return weight


def _by_name(arrays: Arrays, data: Data, which: str) -> Network:
    """Return a network that reads a set, given by its name, from arrays."""

    def read(name: str) -> tuple[np.ndarray, ...]:
        count = sum(key.startswith(f"{name}|{which}|") for key in arrays)
        return tuple(arrays[f"{name}|{which}|{i}"] for i in range(count))

    classes = arrays["classes"]
    labels = np.searchsorted(classes, data.y["train"])
    return Network(read, arrays[f"weight|{which}"], classes, read("train"), labels)


def _of(case: Case, clf: ProtoAttendClassifier, confidence: Callable[[np.ndarray], np.ndarray]) -> ByName:
    return ByName(lambda name: clf.predict(case.data.X[name]), lambda name: confidence(case.data.X[name]))


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
    "ProtoAttend, C": lambda case: _of(case, case.ours, case.ours.confidence),
    "ProtoAttend, probability": lambda case: _of(case, case.ours, lambda X: case.ours.predict_proba(X).max(1)),
    "ProtoAttend, ood_score": lambda case: _of(case, case.ours, lambda X: -case.ours.ood_score(X)),
    "ProtoAttend softmax, C": lambda case: _of(case, case.with_softmax, case.with_softmax.confidence),
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


def compare(work: Work) -> dict[str, Any]:
    """Measure every method's confidence and examples on one set."""
    case = Case(work, comparison_data(work))
    confidence, quality = {}, {}
    for name in CONFIDENCE:
        path = work.folder / f"confidence, {name}.json"
        confidence[name] = once(path, partial(measure_confidence, name, case))
    for name in ("ProtoAttend", *RANKERS):
        path = work.folder / f"examples, {name}.json"
        quality[name] = once(path, partial(measure_examples, name, case))
    facts = {
        training: training_facts(clf, len(case.data.y["train"]))
        for training, clf in (("sparsemax", case.ours), ("softmax+confidence", case.with_softmax))
    }
    sizes = {name: len(X) for name, X in case.data.X.items()}
    found = {"confidence": confidence, "examples": quality, "trainings": facts, "sizes": sizes}
    return found | ({"side_by_side": side_by_side(case)} if case.data.pictures else {})


def measure_confidence(name: str, case: Case) -> dict[str, Any]:
    """Return accuracy, AURC with its curve, bins of confidence, and how OOD sets are told from test rows."""
    method, data = CONFIDENCE[name](case), case.data
    correct = method.predict("test") == data.y["test"]
    inside = method.confidence("test")
    outside = {name: method.confidence(name) for name in data.out_of_distribution}
    curves = {name: OodCurve.from_scores(-inside, -scores) for name, scores in outside.items()}
    found: dict[str, Any] = {
        "accuracy": float(correct.mean()),
        "selective": selective(inside, correct),
        "ood_auroc": {name: curve.auroc for name, curve in curves.items()},
        "roc": {
            name: rounded(np.interp(FALSE_ALARMS, curve.false_alarms, curve.detected)) for name, curve in curves.items()
        },
    }
    if inside.min() >= 0 and inside.max() <= 1:
        found["reliability"] = reliable(inside, correct)
        found["above"] = {name: share_above(scores, LEVELS) for name, scores in {"test": inside, **outside}.items()}
    return found


def side_by_side(case: Case) -> list[dict[str, Any]]:
    """Return the first test row of each of some classes, with the training rows that methods hold most important."""
    labels, pictures = case.data.y["explained"], case.data.pictures
    rows = np.sort([np.flatnonzero(labels == label)[0] for label in np.unique(labels)])[:SHOWN]
    ranked = {"ProtoAttend": DatabaseRanker(case.ours.database_, top=EXAMPLES).rank(case.data.X["explained"][rows])}
    for name in ("representer points", "influence functions"):
        everything = RANKERS[name](case.network).rank("explained")
        ranked[name] = (everything[0][rows], everything[1][rows])
    size = -(-pictures["train"].shape[1] // PIXELS)

    def card(name: str, row: int) -> dict[str, Any]:
        picture = shrunk(pictures[name][row : row + 1], size)[0]
        return {"label": str(case.data.y[name][row]), "input": shown(picture)}

    return [
        card("explained", row)
        | {
            "found_by": {
                name: [
                    card("train", position)
                    for position, weight in zip(positions[i], weights[i], strict=True)
                    if weight > 0
                ][:PROTOTYPES]
                for name, (positions, weights) in ranked.items()
            }
        }
        for i, row in enumerate(rows)
    ]


def measure_examples(name: str, case: Case) -> dict[str, float]:
    """Return the quality of a method's examples for some test rows."""
    numbers = case.data.X["train"].reshape(len(case.data.y["train"]), -1).astype(float)
    train = TrainingSet(case.data.y["train"], features=numbers)
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
