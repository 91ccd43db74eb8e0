"""Selective prediction, label errors and out-of-distribution inputs on real data, beside peers.

    PROTOATTEND_DATA=../shared/data python benchmarks/trust.py --work FOLDER [--quick] [--seed 0]

Fashion-MNIST and CIFAR-10 classifiers are trained once, as quality.py does, and kept in FOLDER, like what each further
part computes, so that a run that was stopped goes on where it was; what `quality.py fashion-fast-cnn --keep FOLDER`
kept is used. Half of the test split is held out for calibration. Answers are ranked by C of softmax attention, as in
the paper, and by that of sparsemax at the number of prototypes that is best on the other half. Peers are MSP, energy
and kNN of the plain encoder and of our own, and cleanlab with the cross-validated probabilities of the same models.
`--quick` takes digits for everything and writes nothing but FOLDER. Writes benchmarks/results/trust.json. Ratios are
ours / peer.
"""

from __future__ import annotations

import argparse
import copy
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import record
import torch
import trust_data
from cleanlab.rank import get_label_quality_scores
from safetensors.torch import load_file
from sklearn.metrics import average_precision_score

from protoattend import ProtoAttendClassifier
from protoattend.baselines.plain import PlainClassifier
from protoattend.core.model import Encoded, ProtoAttend
from protoattend.data_quality.judges import cross_fit_opinions
from protoattend.data_quality.label_errors import inject_label_noise, label_error_scores
from protoattend.monitoring.ood import METHODS, Seen, energy
from protoattend.monitoring.ood_curves import OodCurve
from protoattend.monitoring.ood_detector import encoder_features
from protoattend.uncertainty.selective import risk_coverage

NEIGHBOURS = (1, 10, 50)
VOTERS = 10
PROTOTYPES = (8, 25, 100, 400, 1600)  # numbers at which C is tried
FOLDS = 3
Arrays = dict[str, np.ndarray]


def kept(path: Path, make: Callable[[], Arrays]) -> Arrays:
    """Return the arrays kept at `path`, made and written whole where they are not there yet."""
    if not path.exists():
        part = path.with_suffix(".part.npz")
        np.savez(part, **make())
        part.rename(path)
    with np.load(path) as arrays:
        return dict(arrays)


def classifier(folder: Path, data: trust_data.Images, seed: int, normalize: str) -> ProtoAttendClassifier:
    """Return our classifier from `folder`, trained first where it is not there yet."""
    if not folder.exists():
        ours = ProtoAttendClassifier(**data.params, normalize=normalize, random_state=seed)
        ours.fit(data.X, data.y).save(folder)
    encoder = data.params.get("encoder")
    return ProtoAttendClassifier.load(
        folder, encoder=copy.deepcopy(encoder) if isinstance(encoder, torch.nn.Module) else None
    )


def sets(data: trust_data.Images) -> dict[str, np.ndarray]:
    return {"test": data.X_test, **data.out_of_distribution}


def every_set(data: trust_data.Images) -> dict[str, np.ndarray]:
    return {"train": data.X, "held": data.X_held, **sets(data)}


def features(model: ProtoAttend, inputs: Any, by_name: Mapping[str, np.ndarray]) -> Arrays:
    """Return what the encoder makes of every image `(n, d)`, by set: the slow part, and all that scores are made of."""
    found = {}
    for name, X in by_name.items():
        found[name] = encoder_features(model, inputs.tensor(inputs.source(X))).float().numpy()
        print(f"features of {name}: {found[name].shape}", flush=True)
    return found


def peers(model: ProtoAttend, rows: Arrays, data: trust_data.Images) -> Arrays:
    """Return, for each set, probabilities, votes of the nearest neighbours, and the peers' scores by name."""

    def unit(name: str) -> torch.Tensor:
        return torch.nn.functional.normalize(torch.from_numpy(rows[name]).double())

    reference, labels = unit("train"), torch.from_numpy(np.unique(data.y, return_inverse=True)[1])
    found: Arrays = {}
    for name in ("held", *sets(data)):
        with torch.no_grad():
            logits = model.decision(model.value(torch.from_numpy(rows[name]))).double()
        found[f"{name}|probabilities"] = logits.softmax(1).numpy()
        found[f"{name}|msp"] = -logits.softmax(1).max(1).values.numpy()
        found[f"{name}|energy"] = energy(logits.numpy())
        distances, nearest = nearest_neighbours(unit(name), reference, max(NEIGHBOURS))
        found |= {f"{name}|knn{k}": distances[:, k - 1].numpy() for k in NEIGHBOURS}
        votes = torch.nn.functional.one_hot(labels[nearest[:, :VOTERS]], logits.shape[1]).double().mean(1)
        found[f"{name}|votes"] = votes.numpy()
    return found


def nearest_neighbours(rows: torch.Tensor, reference: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return distances and positions `(n, k)` of the nearest of the reference, nearest first."""
    found = [torch.cdist(part, reference).topk(k, largest=False) for part in rows.split(256)]
    return torch.cat([part.values for part in found]), torch.cat([part.indices for part in found])


def plain_model(work: Path, ours: ProtoAttendClassifier, data: trust_data.Images, seed: int) -> ProtoAttend:
    """Return the plain encoder's model from `work`, trained first where it is not there yet."""
    path = work / "plain.safetensors"
    if not path.exists():
        plain = PlainClassifier(**data.params, random_state=seed).fit(data.X, data.y)
        record.keep_state(plain.model_, path)
    model = copy.deepcopy(ours.model_)
    without_attention = {
        name: part for name, part in load_file(path).items() if not name.startswith(("query.", "key."))
    }
    model.load_state_dict(without_attention, strict=False)
    return model


def our_scores(ours: ProtoAttendClassifier, rows: Arrays, data: trust_data.Images) -> Arrays:
    """Return our scores of every set by name; the combination is learned from held-out in-distribution images."""
    detector = ours.ood_detector(data.X_held)
    found = {f"{name}|combined": detector.score(X) for name, X in sets(data).items()}
    for name in sets(data):
        seen = Seen(ours.database_, for_attention(ours, rows[name]))
        found |= {f"{name}|{method}": score(seen) for method, score in METHODS.items()}
    return found


def for_attention(ours: ProtoAttendClassifier, rows: np.ndarray) -> Encoded:
    """Return queries, keys and values of features `(n, d)`."""
    model, of = ours.model_, torch.from_numpy(rows)
    with torch.no_grad():
        return Encoded(model.query(of), model.key(of), model.value(of))


def aurc(confidence: np.ndarray, correct: np.ndarray) -> float:
    return risk_coverage(confidence, correct).aurc


@dataclass(frozen=True)
class Ranked:
    """A classifier with what its encoder makes of the images."""

    classifier: ProtoAttendClassifier
    rows: Arrays


def selective(sparse: Ranked, soft: Ranked, plain: Arrays, data: trust_data.Images) -> dict[str, Any]:
    """Return AURC of our confidence, of the plain encoder's MSP and of the share of agreeing neighbours.

    All are means over the two halves of the test split: a few hundred errors in one make a ratio too coarse. With how
    many prototypes the C of sparsemax is taken is chosen on the other half.
    """
    labels = {"held": data.y_held, "test": data.y_test}
    by_number = {}
    for number in PROTOTYPES:
        sparse.classifier.database_.set_n_prototypes(number)
        by_number[number] = {half: ranking(sparse, half, y) for half, y in labels.items()}
        print(f"{number} prototypes: {by_number[number]}", flush=True)
    best = {
        half: min(PROTOTYPES, key=lambda number: by_number[number][other]["aurc"])
        for half, other in (("test", "held"), ("held", "test"))
    }
    return {
        **_means([ranking(soft, half, y) for half, y in labels.items()]),
        **_means([peer_ranking(plain, half, y, np.unique(data.y)) for half, y in labels.items()]),
        "sparsemax": _means([by_number[best[half]][half] for half in labels]) | {"n_prototypes": best},
        "by_number_of_prototypes": {number: _means(list(by_half.values())) for number, by_half in by_number.items()},
    }


def _means(parts: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([part[name] for part in parts])) for name in parts[0]}


def peer_ranking(plain: Arrays, half: str, y: np.ndarray, classes: np.ndarray) -> dict[str, float]:
    probabilities, votes = plain[f"{half}|probabilities"], plain[f"{half}|votes"]
    right = classes[probabilities.argmax(1)] == y
    return {
        "plain_accuracy": float(right.mean()),
        "aurc_msp": aurc(probabilities.max(1), right),
        "aurc_knn": aurc(votes.max(1), classes[votes.argmax(1)] == y),
    }


def ranking(ours: Ranked, half: str, y: np.ndarray) -> dict[str, float]:
    decisions = ours.classifier.database_.decide(for_attention(ours.classifier, ours.rows[half]).queries)
    correct = ours.classifier.classes_[decisions.predicted.numpy()] == y
    return {
        "accuracy": float(correct.mean()),
        "aurc": aurc(decisions.confidence.numpy(), correct),
        "aurc_probability": aurc(decisions.probabilities.max(1).values.numpy(), correct),
    }


def ood_inputs(scores: Mapping[str, Arrays], data: trust_data.Images) -> dict[str, dict[str, float]]:
    """Return the AUROC of every score on every out-of-distribution set."""
    table: dict[str, dict[str, float]] = {}
    for whose, arrays in scores.items():
        methods = {key.split("|")[1] for key in arrays} - {"probabilities", "votes"}
        for method in sorted(methods):
            table[f"{whose} {method}"] = {
                name: OodCurve.from_scores(arrays[f"test|{method}"], arrays[f"{name}|{method}"]).auroc
                for name in data.out_of_distribution
            }
    return table


def noisy_labels(name: str, rate: float, *, seed: int) -> Arrays:
    """Return which labels were flipped, what speaks for each class, and cross-validated probabilities of the models."""
    X, y, params = trust_data.LABELS[name]()
    noisy = inject_label_noise(y, rate, random_state=seed)
    said = cross_fit_opinions(ProtoAttendClassifier(**params, random_state=seed), X, noisy.labels, cv=FOLDS)
    return {
        "flipped": noisy.flipped, "support": said.support, "probabilities": said.by_prototypes, "labels": said.labels,
    }  # fmt: skip


def label_precision(found: Arrays) -> dict[str, float]:
    """Return average precisions at finding flipped labels; cleanlab's is its better one of two scores."""
    errors, _ = label_error_scores(found["support"], found["labels"])
    scores = [
        get_label_quality_scores(found["labels"], found["probabilities"], method=method)
        for method in ("self_confidence", "normalized_margin")
    ]
    return {
        "ours": float(average_precision_score(found["flipped"], errors)),
        "cleanlab": max(float(average_precision_score(found["flipped"], -score)) for score in scores),
    }


def images(name: str, data: trust_data.Images, work: Path, seed: int) -> dict[str, Any]:
    """Measure everything on one set of images."""
    work.mkdir(parents=True, exist_ok=True)
    ours, soft = (
        classifier(work / folder, data, seed, normalize)
        for folder, normalize in (("protoattend", "sparsemax"), ("softmax", "softmax"))
    )
    model = plain_model(work, ours, data, seed)
    rows = kept(work / "features.npz", lambda: features(ours.model_, ours.inputs_, every_set(data)))
    plain_rows = kept(work / "plain-features.npz", lambda: features(model, ours.inputs_, every_set(data)))
    halves = {"held": data.X_held, "test": data.X_test}
    soft_rows = kept(work / "softmax-features.npz", lambda: features(soft.model_, soft.inputs_, halves))
    plain = kept(work / "plain.npz", lambda: peers(model, plain_rows, data))
    own = kept(work / "own-peers.npz", lambda: peers(ours.model_, rows, data))
    mine = kept(work / "ours.npz", lambda: our_scores(ours, rows, data))
    scores = {"ours": mine, "plain": plain, "same encoder": own}
    table = ood_inputs(scores, data)
    means = {score: float(np.mean(list(by_set.values()))) for score, by_set in table.items()}
    peer = max((score for score in means if not score.startswith("ours")), key=means.__getitem__)
    margin = means["ours combined"] - means[peer]
    print(f"{name}: combined {means['ours combined']:.4f}, best peer {peer} {means[peer]:.4f}", flush=True)
    return {
        "selective": selective(Ranked(ours, rows), Ranked(soft, soft_rows), plain, data),
        "ood_auroc": table,
        "ood_best_peer": peer,
        "ood_margin": margin,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="folder for what is trained and computed; needed unless --quick")
    parser.add_argument("--quick", action="store_true", help="digits alone; nothing is written but the work folder")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.work is None and not arguments.quick:
        parser.error("--work FOLDER is needed: training takes long, and is kept there")
    work = arguments.work or Path(tempfile.mkdtemp(prefix="trust-"))
    makers = {"digits": trust_data.digits} if arguments.quick else trust_data.IMAGES
    by_images = {name: images(name, make(), work / name, arguments.seed) for name, make in makers.items()}
    cases = [
        (name, rate) for name in (["digits"] if arguments.quick else trust_data.LABELS) for rate in (0.05, 0.1, 0.2)
    ]
    by_labels = {}
    for name, rate in cases[1:2] if arguments.quick else cases:
        path = work / f"labels-{name}-{rate}.npz"
        found = kept(path, lambda name=name, rate=rate: noisy_labels(name, rate, seed=arguments.seed))
        by_labels[f"{name} {rate}"] = label_precision(found)
        print(f"labels {name} {rate}: {by_labels[f'{name} {rate}']}", flush=True)
    first = next(iter(by_images.values()))
    risk = first["selective"]
    figures = {
        "aurc_vs_msp": risk["aurc"] / risk["aurc_msp"],
        "aurc_vs_knn": risk["aurc"] / risk["aurc_knn"],
        "labels_ap_vs_cleanlab": min(case["ours"] / case["cleanlab"] for case in by_labels.values()),
        "ood_auroc_minus_best_peer": min(found["ood_margin"] for found in by_images.values()),
    }
    everything = {**figures, "images": by_images, "labels": by_labels, "seed": arguments.seed}
    if arguments.quick:
        (work / "trust-quick.json").write_text(json.dumps(everything, indent=2) + "\n")
    else:
        record.write("trust", everything)
    print("trust " + " ".join(f"{name}={value:.4f}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
