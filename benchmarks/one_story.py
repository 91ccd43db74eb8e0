"""Do the decision, the prototypes shown and the confidence agree? Constructor defaults only, on sets nobody tuned for.

    PROTOATTEND_DATA=../shared/data python benchmarks/one_story.py [--quick] [--work FOLDER] [--sets A,B]

For each set: accuracy of ours, of the plain encoder and of a peer (gradient boosting, or TF-IDF and logistic
regression); AURC of confidence, of our largest probability, of the plain encoder's and of the peer's; calibration error
of probabilities and of confidence; how often a prediction is not the class with most shown weight (contradiction); how
alike the heaviest prototype is to the input, from a random row of its class (0) to the nearest (1); the share of inputs
whose heaviest prototype is one of two rows (hubs); prototypes for 95 % of a decision; seconds of training; of images
the AUROC of low confidence at telling other images apart, ours and the plain encoder's. Each run is kept in FOLDER, so
that the benchmark goes on where it was stopped. Writes benchmarks/results/one_story.json.
`--quick`: one seed of the sets that train in seconds; writes nothing.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import record
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from protoattend import PlainClassifier, ProtoAttendClassifier
from protoattend.datasets import catalogue
from protoattend.uncertainty.selective import risk_coverage

TABLES = (
    "abalone", "banknote_authentication", "breast-cancer", "ecoli", "haberman", "ionosphere", "mammography",
    "new-thyroid", "phoneme",
)  # fmt: skip
TEXTS = ("trec", "subjectivity", "stackoverflow")
SETS = ("digits", "fashion-mnist", "adult", *TABLES, *TEXTS)
QUICK = ("digits", "breast-cancer", "ecoli", "haberman", "ionosphere", "new-thyroid")
SEEDS = (0, 1, 2)
SMALL = ("breast-cancer", "ecoli", "haberman", "ionosphere", "new-thyroid")  # below 100 test rows, a few of them wrong
SEEDS_OF_SMALL = tuple(range(16))
ROWS, TEST_ROWS = 10_000, 5_000  # of the large sets
OOD_ROWS = 2_000  # images of each set that are to be told apart
BINS = 15
TINY = 1e-4  # of AURC: where hardly anything is wrong, no ratio means anything


@dataclass(frozen=True)
class Split:
    """Training and test rows of one kind: "images", "table" or "texts"."""

    kind: str
    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray


def data_folder() -> Path:
    return Path(os.environ.get("PROTOATTEND_DATA", "../shared/data"))


def load(name: str, seed: int) -> Split:
    """Return a split of a set; a fourth of the rows is for testing unless the set has a test split."""
    if name == "digits":
        digits = load_digits()
        return _divided("images", digits.images.astype(np.uint8), digits.target, seed)
    if name in ("fashion-mnist", "adult"):
        train, test = catalogue.load(name), catalogue.load(name, "test")
        rng = np.random.default_rng(seed)
        rows, others = rng.permutation(len(train.y))[:ROWS], rng.permutation(len(test.y))[:TEST_ROWS]
        if name == "adult":
            return Split("table", train.X.iloc[rows], train.y[rows], test.X.iloc[others], test.y[others])
        return Split("images", train.X[rows], train.y[rows], test.X[others], test.y[others])
    if name in TEXTS:
        parts = [
            pd.read_csv(data_folder() / "texts" / f"{name}-{part}.csv", keep_default_na=False)
            for part in ("train", "test")
        ]
        (X, y), (X_test, y_test) = ((part.text.tolist(), part.label.to_numpy()) for part in parts)
        return Split("texts", X, y, X_test, y_test)
    table = pd.read_csv(data_folder() / "tables" / f"{name}.csv")
    return _divided("table", table.iloc[:, :-1], table.iloc[:, -1].astype(str).to_numpy(), seed)


def _divided(kind: str, X: Any, y: np.ndarray, seed: int) -> Split:
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=seed, stratify=y)
    return Split(kind, X_train, y_train, X_test, y_test)


def ours(split: Split, seed: int) -> tuple[ProtoAttendClassifier, dict[str, Any]]:
    """Train ours by its defaults, and measure it on the test rows."""
    started = time.perf_counter()
    clf = ProtoAttendClassifier(random_state=seed, verbose=0).fit(split.X, split.y)
    seconds = time.perf_counter() - started
    probabilities = clf.predict_proba(split.X_test)
    confidence = clf.confidence(split.X_test)
    explanations = clf.explain(split.X_test)
    predicted = np.array([e.prediction for e in explanations])
    right = predicted == split.y_test
    heaviest = np.array([e.prototypes[0].index for e in explanations])
    two = np.sort(np.bincount(heaviest))[-2:].sum() / len(heaviest)
    return clf, {
        "accuracy": float(right.mean()),
        "aurc": risk_coverage(confidence, right).aurc,
        "aurc_own": risk_coverage(probabilities.max(1), right).aurc,
        "calibration": calibration_bins(probabilities.max(1), right),
        "calibration_of_confidence": calibration_bins(confidence, right),
        "contradiction": float(np.mean([e.note != "" for e in explanations])),
        "likeness": likeness(split, heaviest),
        "hubs": float(two),
        "prototypes": float(np.median([e.n_prototypes(0.95) for e in explanations])),
        "seconds": seconds,
    }


def run(name: str, seed: int) -> dict[str, Any]:
    """Train ours, the plain encoder and the peer by their defaults, and measure them on the test rows."""
    split = load(name, seed)
    clf, figures = ours(split, seed)
    plain = PlainClassifier(random_state=seed, verbose=0).fit(split.X, split.y)
    if split.kind == "images":
        figures |= {"ood": told_apart(split, clf.confidence), "plain_ood": told_apart(split, _largest(plain))}
    for who, classifier in (("plain", plain), ("peer", peer(split, seed))):
        theirs = classifier.predict_proba(_for_peer(split, split.X_test) if who == "peer" else split.X_test)
        correct = classifier.classes_[theirs.argmax(1)] == split.y_test
        figures |= {f"{who}_accuracy": float(correct.mean()), f"{who}_aurc": risk_coverage(theirs.max(1), correct).aurc}
    return figures


def _largest(plain: PlainClassifier) -> Callable[[np.ndarray], np.ndarray]:
    return lambda images: plain.predict_proba(images).max(1)


def told_apart(split: Split, confidence: Callable[[np.ndarray], np.ndarray]) -> dict[str, float]:
    """Return the AUROC of low confidence at telling other images from test images, set by set."""
    known = split.X_test[:OOD_ROWS]
    others = {"rotated": np.rot90(known, axes=(1, 2)).copy(), "inverted": known.max() - known}
    if known.shape[1:] == (28, 28):
        others |= {name: catalogue.load(name, "test").X[:OOD_ROWS] for name in ("notmnist", "mnist")}
    of_known = confidence(known)

    def auroc(images: np.ndarray) -> float:
        of_others = confidence(images)
        is_other = np.repeat([0, 1], [len(of_known), len(of_others)])
        return float(roc_auc_score(is_other, -np.concatenate([of_known, of_others])))

    return {name: auroc(images) for name, images in others.items()}


def calibration_bins(confidence: np.ndarray, right: np.ndarray) -> list[float]:
    """Return for each of 15 bins of confidence how much more was claimed than came true, over all rows."""
    bins = np.clip((confidence * BINS).astype(int), 0, BINS - 1)
    return [*np.bincount(bins, confidence - right, BINS).tolist(), float(len(right))]


def calibration_error(runs: list[dict[str, Any]], key: str) -> float:
    """Return the expected calibration error over the rows of all seeds: one seed of a small table is too few for it."""
    total = np.sum([run[key] for run in runs], axis=0)
    return float(np.abs(total[:-1]).sum() / total[-1])


def peer(split: Split, seed: int) -> Any:
    """Return the fitted method that people would use without us."""
    if split.kind == "texts":
        made = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(max_iter=1000))
    elif split.kind == "images":
        made = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))
    else:
        made = HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=seed)
    return made.fit(_for_peer(split, split.X), split.y)


def _for_peer(split: Split, X: Any) -> Any:
    if split.kind == "images":
        return X.reshape(len(X), -1).astype(float)
    if split.kind == "texts":
        return X
    texts = [column for column in split.X.columns if split.X[column].dtype.kind not in "fiub"]
    known = {column: sorted(split.X[column].dropna().unique()) for column in texts}
    seen = {column: X[column].where(X[column].isin(categories)) for column, categories in known.items()}
    return X.assign(**{column: pd.Categorical(seen[column], categories) for column, categories in known.items()})


def likeness(split: Split, heaviest: np.ndarray) -> float:
    """Return how alike the heaviest prototypes are to the inputs, by pixels, standardised columns or TF-IDF."""
    distances = _distances(split)
    of_class = {label: np.flatnonzero(split.y == label) for label in np.unique(split.y)}
    found = []
    for row, prototype in zip(distances, heaviest, strict=True):
        same = row[of_class[split.y[prototype]]]
        span = same.mean() - same.min()
        if span > 1e-9:
            found.append((same.mean() - row[prototype]) / span)
    return float(np.mean(found))


def _distances(split: Split) -> np.ndarray:
    if split.kind == "texts":
        tfidf = TfidfVectorizer().fit(split.X)
        return np.sqrt(np.maximum(2 - 2 * (tfidf.transform(split.X_test) @ tfidf.transform(split.X).T).toarray(), 0))
    if split.kind == "images":
        own, theirs = (np.asarray(part).reshape(len(part), -1).astype(np.float32) for part in (split.X_test, split.X))
    else:
        both = pd.get_dummies(pd.concat([split.X_test, split.X])).astype(float)
        both = ((both - both.mean()) / both.std().where(both.std() > 0, 1)).fillna(0).to_numpy()
        own, theirs = both[: len(split.X_test)], both[len(split.X_test) :]
    return cdist(own, theirs)


def averaged(runs: list[dict[str, Any]]) -> dict[str, float]:
    """Return the means over seeds."""
    numbers = [key for key, value in runs[0].items() if isinstance(value, float)]
    figures = {key: float(np.mean([run[key] for run in runs])) for key in numbers}
    errors = {"ece": "calibration", "ece_confidence": "calibration_of_confidence"}
    return figures | {name: calibration_error(runs, key) for name, key in errors.items()}


def ratio(means: list[dict[str, float]], of: str, to: str) -> float:
    """Return the geometric mean over sets of the ratio of one figure to another."""
    return float(np.exp(np.mean([np.log((m[of] + TINY) / (m[to] + TINY)) for m in means])))


def headline(runs: dict[str, list[dict[str, Any]]]) -> dict[str, float]:
    """Return geometric means over the sets of ratios of AURC, each of means over seeds, and means of the rest."""
    means = [averaged(own) for own in runs.values()]

    def mean(key: str) -> float:
        return float(np.mean([m[key] for m in means]))

    return {
        "aurc_vs_own": ratio(means, "aurc", "aurc_own"),
        "aurc_vs_plain": ratio(means, "aurc", "plain_aurc"),
        "contradiction": mean("contradiction"),
        "likeness": mean("likeness"),
        "hubs": mean("hubs"),
        "ece": mean("ece"),
        "gap_to_plain": 100 * (mean("plain_accuracy") - mean("accuracy")),
    }


def seeds_of(name: str) -> tuple[int, ...]:
    """Return the seeds of a set, which divide and train it: more where a few test rows make the difference."""
    return SEEDS_OF_SMALL if name in SMALL else SEEDS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="one seed of the sets that train in seconds; writes nothing"
    )
    parser.add_argument("--work", type=Path, help="folder in which each run is kept")
    parser.add_argument("--sets", default=",".join(SETS))
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", category=FutureWarning)
    sets = QUICK if arguments.quick else tuple(arguments.sets.split(","))
    runs: dict[str, list[dict[str, Any]]] = {}
    for name in sets:
        for seed in (0,) if arguments.quick else seeds_of(name):
            path = None if arguments.work is None else arguments.work / f"{name} {seed}.json"
            found = record.once(path, lambda name=name, seed=seed: run(name, seed))
            runs.setdefault(name, []).append(found)
            print(f"{name} {seed}: " + " ".join(f"{k}={v:.4g}" for k, v in averaged([found]).items()), flush=True)
    figures = headline(runs)
    if not arguments.quick:
        record.write("one_story", {"runs": runs, "headline": figures})
    print("one_story " + " ".join(f"{name}={value:.4f}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
