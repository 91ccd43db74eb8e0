"""A candidate database as a method that ranks training samples, for `prototype_quality`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from protoattend.arguments import check_length
from protoattend.core.attention import relational_attention
from protoattend.core.likeness import ROWS, spread
from protoattend.data.inputs import Inputs, require_rows
from protoattend.data.labels import column_of
from protoattend.database.encode import decision_weight, encode
from protoattend.database.rows import Block, Blocks
from protoattend.database.store import CandidateDatabase
from protoattend.explain.quality import NOISE, PrototypeQuality, TrainingSet, prototype_quality, small_noise

BLOCK = 64  # inputs at a time: each has candidates of its own, so weights are held for all of them


@dataclass(frozen=True)
class Canonical:
    """Inputs that are in the canonical form of a database already: what its `inputs.source` gives."""

    source: np.ndarray


@dataclass(frozen=True)
class DatabaseRanker:
    """The prototypes of a database: rows are positions in it, `top` at the most for an input; X may be Canonical."""

    database: CandidateDatabase
    top: int = 100

    def rank(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions `(n, k)` of each input's prototypes, heaviest first, and their weights."""
        found = self.database.attend(self._queries(X), top=self.top)
        positions, weights = found.heaviest(int(found.sizes.max()))
        return positions.numpy(), weights.double().numpy()

    def probabilities(self, X: Any, *, without: np.ndarray | None = None, only: np.ndarray | None = None) -> np.ndarray:
        """Return probabilities `(n, C)`, input i deciding without rows `without[i]`, or by `only[i]`; -1 is none."""
        queries = self._queries(X)
        if without is None and only is None:
            return self.database.decide(queries).probabilities.numpy()
        given = torch.from_numpy(np.asarray(only if without is None else without))
        parts = zip(queries.split(BLOCK), given.split(BLOCK), strict=True)
        return torch.cat([self._decide(some, rows, keep=without is None) for some, rows in parts]).numpy()

    def probabilities_less(self, X: Any, rows: np.ndarray) -> np.ndarray:
        """Return probabilities `(n, C)` without the terms of `rows[i]`, whose place nothing takes; -1 is none."""
        queries, given = self._queries(X), torch.from_numpy(np.asarray(rows))
        parts = zip(queries.split(BLOCK), given.split(BLOCK), strict=True)
        return torch.cat(
            [self._probabilities(self._weights(some) * ~self._named(named)) for some, named in parts]
        ).numpy()

    def shuffled(self, seed: int = 0) -> DatabaseRanker:
        """Return the same with every parameter's numbers in random order: as large as before, and nothing learned.

        Likeness counts beside the scores there are now as much as it did beside those that were learned.
        """
        model = copy.deepcopy(self.database.model)
        shuffle_parameters(model, seed)
        old = self.database.rows
        samples = self.database.inputs.tensor(old.source)
        encoded = encode(model, samples)
        if model.likeness is not None:
            some, width = slice(None, None, max(1, len(old) // ROWS)), model.d_att
            before = spread(old.queries[some, :width], self.database.keys[some, :width])
            after = spread(encoded.queries[some, :width], encoded.keys[some, :width])
            model.likeness.rescale(after / before if before else 1.0)
            encoded = encode(model, samples)
        rows = replace(
            old,
            keys=encoded.keys,
            class_scores=encoded.values @ decision_weight(model).T,
            blocks=Blocks((Block(encoded.queries, encoded.values, old.source),)),
        )
        database = CandidateDatabase(model, self.database.inputs, self.database.classes, rows, next_id=len(rows))
        return DatabaseRanker(database, self.top)

    def training_set(self, subclasses: np.ndarray | None = None) -> TrainingSet:
        """Return labels and features of the rows: the inputs themselves, or values where these are no numbers."""
        source = self.database.rows.source
        if subclasses is not None:
            check_length(subclasses, "candidate_subclasses", len(source), "candidates")
        numbers = source.dtype.kind in "fiu" and bool(np.isfinite(source).all())
        features = source.reshape(len(source), -1) if numbers else self.database.rows.values.numpy()
        return TrainingSet(self.database.rows.labels.numpy(), subclasses, features.astype(float))

    def _queries(self, X: Any) -> Tensor:
        inputs = self.database.inputs
        source = X.source if isinstance(X, Canonical) else inputs.source(X)
        return encode(self.database.model, inputs.tensor(source)).queries

    def _decide(self, queries: Tensor, given: Tensor, *, keep: bool) -> Tensor:
        """Return probabilities of some queries by exactly the `given` rows `(b, k)`, or by all others."""
        named = self._named(given)
        return self._probabilities(self._weights(queries, ~named if keep else named | ~self.database.deciding))

    def _named(self, given: Tensor) -> Tensor:
        """Return which rows are among the `given` ones `(b, k)`, as a table `(b, D)`."""
        n_rows = len(self.database)
        named = torch.zeros(len(given), n_rows + 1, dtype=torch.bool)
        named.scatter_(1, torch.where(given < 0, n_rows, given), torch.ones_like(given, dtype=torch.bool))
        return named[:, :-1]

    def _weights(self, queries: Tensor, exclude: Tensor | None = None) -> Tensor:
        """Return the attention weights of some queries `(b, D)`; by default of those that decide."""
        return relational_attention(
            queries,
            self.database.keys,
            normalize=self.database.model.normalize,
            temperature=self.database.temperature,
            exclude=(~self.database.deciding).expand(len(queries), -1) if exclude is None else exclude,
            sample_weight=self.database.rows.sample_weight,
        )

    def _probabilities(self, weights: Tensor) -> Tensor:
        readings = self.database.readings
        temperature = 1.0 if readings is None else readings.probability_temperature
        return ((weights @ self.database.class_scores).double() / temperature).softmax(1)


def shuffle_parameters(model: nn.Module, seed: int) -> None:
    """Put every parameter's numbers in random order, in place: as large as before, and nothing learned."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            order = torch.randperm(parameter.numel(), generator=generator).to(parameter.device)
            parameter.copy_(parameter.flatten()[order].view_as(parameter))


def database_quality(
    database: CandidateDatabase,
    X: Any,
    labels: np.ndarray,
    *,
    subclasses: Any = None,
    candidate_subclasses: Any = None,
    perturb: Callable[[Any, np.random.Generator], Any] | None = None,
) -> PrototypeQuality:
    """Return the quality of a database's prototypes for inputs with class numbers `(n,)`.

    Subclasses of the inputs `(n,)` and of the candidates `(D,)` are finer groups than labels. Unless `perturb` is
    given, stability is measured by `small_change`.
    """
    require_rows(X)
    ranker = DatabaseRanker(database)
    of_candidates = None if candidate_subclasses is None else column_of(candidate_subclasses)
    return prototype_quality(
        ranker,
        X,
        labels,
        train=ranker.training_set(of_candidates),
        subclasses=subclasses,
        perturb=small_change(database.inputs, X) if perturb is None else perturb,
        randomised=ranker.shuffled(),
    )


def small_change(inputs: Inputs, X: Any) -> Callable[[Any, np.random.Generator], Canonical] | None:
    """Return what adds a little noise to the numbers of X: pixels, or the numbers and dates of a table.

    In a table the noise is in standard deviations of the training data, and categories stay what they are. None is for
    texts, files and tables of categories alone.
    """
    source, n_numbers = inputs.source(X), inputs.form().get("n_numbers")  # of a table, in which numbers come first
    if source.dtype.kind not in "fiu" or n_numbers == 0:
        return None
    if n_numbers is None:
        return lambda _, generator: Canonical(small_noise(source, generator))
    return lambda _, generator: Canonical(_noise_on_first(source, n_numbers, generator))


def _noise_on_first(source: np.ndarray, n_columns: int, generator: np.random.Generator) -> np.ndarray:
    noise = NOISE * generator.standard_normal((len(source), n_columns))
    return np.hstack([source[:, :n_columns] + noise, source[:, n_columns:]]).astype(source.dtype)
