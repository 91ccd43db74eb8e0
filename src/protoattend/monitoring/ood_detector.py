"""One out-of-distribution score of several distances to the training data, learned from in-distribution inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from protoattend.core.model import ProtoAttend
from protoattend.data.inputs import require_rows
from protoattend.data.samples import Samples, chunks
from protoattend.database.store import CandidateDatabase
from protoattend.encoders.build import rows_at_once
from protoattend.encoders.tabular import PlainTable
from protoattend.errors import UserError
from protoattend.monitoring.ood import finite, neighbour_distance

NEAREST = 3
ANCHORS = 10_000  # candidates at the most that distances are taken to
REFERENCE = 2_000  # candidates at the most that stand for in-distribution inputs where none are given
SHRINKAGE = 0.1  # of the covariance towards a sphere
TAIL = 0.1  # share of the in-distribution scores that the tail is learned from


@dataclass(frozen=True)
class TailScore:
    """How extreme a score is beside ascending `reference` scores `(n,)`: -log of the share above it.

    Beyond the largest tenth the share falls exponentially, as fast as that tenth does on average: OOD inputs score
    far above all in-distribution ones, and how far must still count.
    """

    reference: np.ndarray

    @classmethod
    def fit(cls, scores: np.ndarray) -> TailScore:
        return cls(np.sort(finite(scores, "in-distribution scores")))

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        n = len(self.reference)
        above = n - np.searchsorted(self.reference, scores, side="left")  # ties count as above: they are not extreme
        within = -np.log((above + 1) / (n + 1))
        start = self.reference[int((1 - TAIL) * (n - 1))]
        beyond = self.reference[self.reference > start]
        if len(beyond) == 0:
            return within
        at_start = -np.log(len(beyond) / n)
        tail = at_start + (scores - start) / (beyond - start).mean()
        return np.where(scores > start, tail, np.minimum(within, at_start))


@dataclass(frozen=True)
class Anchors:
    """Candidates that distances are taken to: unit features of the encoder `(m, d)`, and inputs `(m, f)` as numbers.

    `means` `(C, d)` are those of the classes, and `whitening` `(d, d)` makes the spread within classes a sphere;
    `reach` `(f,)` is how far from its mean each number of a table goes.
    """

    database: CandidateDatabase
    features: Tensor
    means: Tensor
    whitening: Tensor
    inputs: Tensor | None
    reach: Tensor | None

    @classmethod
    def fit(cls, database: CandidateDatabase, positions: np.ndarray) -> Anchors:
        """Take the candidates at these positions."""
        source, labels = database.rows.source[positions], database.rows.labels[torch.from_numpy(positions)]
        features = encoder_features(database.model, database.inputs.tensor(source))
        means = torch.stack([features[labels == c].mean(0) for c in labels.unique()])
        spread = features - means[torch.unique(labels, return_inverse=True)[1]]
        covariance = spread.T @ spread / len(spread)
        sphere = max(float(covariance.trace()) / len(covariance), 1e-12) * torch.eye(
            len(covariance), dtype=torch.float64
        )
        precision = torch.linalg.inv((1 - SHRINKAGE) * covariance + SHRINKAGE * sphere)
        whitening = torch.linalg.cholesky(precision)
        inputs = _numbers(database, source)
        n_numbers = database.inputs.form().get("n_numbers")
        reach = inputs[:, :n_numbers].abs().amax(0) if inputs is not None and n_numbers else None
        return cls(database, _unit(features), means @ whitening, whitening, inputs, reach)

    def distances(self, source: np.ndarray) -> dict[str, np.ndarray]:
        """Return for each row, in the database's canonical form, how far it is from training data `(n,)`, by name.

        "features" is the distance to the nearest candidates in the direction of the encoder's features, "classes" to
        the nearest class mean relative to the spread within classes (Mahalanobis), "inputs" to the nearest inputs, and
        "columns" by how many times its numbers go beyond what training rows reach.
        """
        features = encoder_features(self.database.model, self.database.inputs.tensor(source))
        found = {
            "features": neighbour_distance(_unit(features), self.features, NEAREST),
            "classes": neighbour_distance(features @ self.whitening, self.means, 1),
        }
        numbers = None if self.inputs is None else _numbers(self.database, source)
        if self.inputs is not None and numbers is not None:
            found["inputs"] = neighbour_distance(numbers, self.inputs, NEAREST)
        if self.reach is not None and numbers is not None:
            beyond = numbers[:, : len(self.reach)].abs() / self.reach.clamp(min=1.0)
            found["columns"] = beyond.amax(1).numpy()
        return found


@dataclass(frozen=True)
class OodDetector:
    """Distances to training data as one score: the sum of how extreme each is (Fisher's method).

    Made by `ProtoAttendClassifier.ood_detector`; no out-of-distribution input is needed.

    Attributes
    ----------
    anchors : Anchors
        The candidates that distances are taken to.
    tails : mapping of str to TailScore
        What turns each distance into a score: "features", "classes", "inputs" (but of texts), "columns" (of tables).
    reference : ndarray of shape (n,)
        The ascending scores of the inputs it was learned from.

    Notes
    -----
    The score is sum_d -log P(a distance d of an in-distribution input is at least this large); beyond the largest tenth
    that probability is taken to fall exponentially.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from protoattend import ProtoAttendClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> detector = ProtoAttendClassifier(max_epochs=1, random_state=0, verbose=0).fit(X, y).ood_detector()
    >>> bool(detector.score(X + 100).min() > detector.score(X).max())
    True
    """

    anchors: Anchors
    tails: Mapping[str, TailScore]
    reference: np.ndarray

    @classmethod
    def fit(cls, database: CandidateDatabase, X: Any) -> OodDetector:
        """Learn from in-distribution inputs unseen in training.

        Parameters
        ----------
        database : CandidateDatabase
        X : inputs, as in fit
            In-distribution, and unseen in training.

        Returns
        -------
        OodDetector
        """
        anchors = Anchors.fit(database, _spread(np.arange(len(database)), ANCHORS))
        return cls._fit(anchors, database.inputs.source(X))

    @classmethod
    def fit_on_database(cls, database: CandidateDatabase) -> OodDetector:
        """Learn from candidates, spread over the database, by their distances to the others.

        Parameters
        ----------
        database : CandidateDatabase

        Returns
        -------
        OodDetector

        Raises
        ------
        UserError
            Where the database has fewer than 4 rows, or keeps excerpts only.
        """
        if len(database) < 4:
            raise UserError(
                f"in-distribution inputs are needed, but the database has only {len(database)} rows; pass X."
            )
        chosen = _spread(np.arange(0, len(database), 3), REFERENCE)
        others = np.setdiff1d(np.arange(len(database)), chosen)
        anchors = Anchors.fit(database, _spread(others, ANCHORS))
        return cls._fit(anchors, database.rows.source[chosen])

    @classmethod
    def _fit(cls, anchors: Anchors, source: np.ndarray) -> OodDetector:
        distances = anchors.distances(source)
        tails = {name: TailScore.fit(found) for name, found in distances.items()}
        total = np.sum([tails[name](found) for name, found in distances.items()], axis=0)
        return cls(anchors, tails, np.sort(total))

    def score(self, X: Any) -> np.ndarray:
        """Return the out-of-distribution score of each row; higher is further from the training data.

        Parameters
        ----------
        X : inputs, as in fit

        Returns
        -------
        ndarray of shape (n,)
        """
        return np.sum(list(self.parts(X).values()), axis=0)

    def parts(self, X: Any) -> dict[str, np.ndarray]:
        """Return what each part adds to the score.

        Parameters
        ----------
        X : inputs, as in fit

        Returns
        -------
        dict of str to ndarray of shape (n,)
        """
        require_rows(X)
        distances = self.anchors.distances(self.anchors.database.inputs.source(X))
        return {name: tail(distances[name]) for name, tail in self.tails.items()}

    def p_value(self, X: Any) -> np.ndarray:
        """Return the share of in-distribution inputs whose score is at least as high.

        Of new in-distribution inputs about a share `a` gets a p-value of at most `a`.

        Parameters
        ----------
        X : inputs, as in fit

        Returns
        -------
        ndarray of shape (n,)
        """
        return self.p_values_of(self.score(X))

    def p_values_of(self, scores: np.ndarray) -> np.ndarray:
        """Return the p-values of scores that `score` gave, without computing these again.

        Parameters
        ----------
        scores : ndarray of shape (n,)

        Returns
        -------
        ndarray of shape (n,)
        """
        above = len(self.reference) - np.searchsorted(self.reference, scores, side="left")
        return (above + 1) / (len(self.reference) + 1)


def encoder_features(model: ProtoAttend, samples: Samples) -> Tensor:
    """Return the features `(n, d)` that queries, keys and values are made of, in double precision on the CPU."""
    device = next(model.parameters()).device
    model.eval()
    with torch.no_grad():
        parts = [
            model.encoder(x.to(device)).flatten(1).cpu() for x in chunks(samples, rows_at_once(model.encoder, device))
        ]
    return torch.cat(parts).double()


def _unit(features: Tensor) -> Tensor:
    return features / features.norm(dim=1, keepdim=True).clamp(min=1e-12)


def _numbers(database: CandidateDatabase, source: np.ndarray) -> Tensor | None:
    """Return inputs as numbers `(n, f)`: pixels, or columns of a table; None where they are texts or files.

    Numbers of a table are standardised, a missing one at the mean; a category is a number for each value it had, and an
    unknown one is none of them.
    """
    if database.inputs.kind == "table":
        form = database.inputs.form()
        plain = PlainTable(form["n_numbers"], form["cardinalities"])
        return torch.cat([plain(x) for x in chunks(database.inputs.tensor(source))]).double()
    if source.dtype.kind not in "fiu":
        return None
    return torch.from_numpy(source.reshape(len(source), -1).astype(np.float64))


def _spread(positions: np.ndarray, most: int) -> np.ndarray:
    """Return at most so many of the positions, evenly."""
    return positions[np.unique(np.linspace(0, len(positions) - 1, min(len(positions), most)).astype(int))]
