"""The side of a database that is read: what its rows are, and what attention over them decides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from protoattend.core.attention import attention_scores
from protoattend.core.model import ProtoAttend
from protoattend.core.normalize import normalizer
from protoattend.core.self_exclusion import without_own
from protoattend.data.inputs import Inputs
from protoattend.data.labels import Classes
from protoattend.database import search as exact
from protoattend.database.approximate import Search
from protoattend.database.attention import Attention
from protoattend.database.flat_mass import Flat, flat_scores
from protoattend.database.previews import preview
from protoattend.database.quantize import Quantization
from protoattend.database.readings import Readings
from protoattend.database.rows import Rows
from protoattend.database.searchable import asked
from protoattend.database.state import State


class ReadableDatabase:
    """Candidates of one trained model that are looked at and attended to.

    All that an edit changes is in `_state`. A method takes that once; who calls several takes a snapshot first.
    """

    _state: State

    def __init__(
        self,
        model: ProtoAttend,
        inputs: Inputs,
        classes: Classes,
        rows: Rows,
        rounding: Quantization | None,
        readings: Readings | None,
        next_id: int,
    ) -> None:
        self.model = model
        self.inputs = inputs
        self.classes = classes
        self._state = State.of(rows, readings, rounding, next_id)

    def __len__(self) -> int:
        return len(self._rows)

    def _repr_html_(self) -> str:
        from protoattend.viz.notebook import database_cell

        rows = self._rows
        labels = rows.labels.numpy()
        counts = np.bincount(labels, minlength=len(self.classes.values))
        example = [int(np.flatnonzero(labels == c)[0]) if counts[c] else -1 for c in range(len(counts))]
        return database_cell(
            self.classes.values,
            counts,
            edited=int(rows.edited.sum()),
            sample=lambda c: None if example[c] < 0 else preview(rows, self.inputs, example[c]),
            kind=self.inputs.kind,
        )

    @property
    def readings(self) -> Readings | None:
        """How confidence and probabilities are read; None is by the weights and logits that decide, as in the paper."""
        return self._state.readings

    @readings.setter
    def readings(self, readings: Readings | None) -> None:
        state = self._state
        self._state = State.of(state.rows, readings, state.rounding, state.next_id)

    @property
    def rounding(self) -> Quantization | None:
        """How the keys are rounded; None is not at all."""
        return self._state.rounding

    @rounding.setter
    def rounding(self, rounding: Quantization | None) -> None:
        self._state = replace(self._state, rounding=rounding)

    @property
    def _rows(self) -> Rows:
        return self._state.rows

    @property
    def _next_id(self) -> int:
        return self._state.next_id

    @property
    def rows(self) -> Rows:
        """The rows as tensors; they never change, an edit replaces them.

        `ids` and `labels` (class numbers) of shape (D,), `queries` and `keys` (D, d_att), `values` (D, d_out),
        `class_scores` (D, n_classes), `sample_weight` (D,) and the samples as `source`.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
        >>> clf.database_.rows.keys.shape, clf.database_.rows.values.shape  # 16 numbers learned, 10 for likeness
        (torch.Size([178, 26]), torch.Size([178, 64]))
        """
        return self._rows

    @property
    def keys(self) -> Tensor:
        """The key of every row `(D, d_att)` in the model's own numbers, also where rows keep them rounded."""
        state = self._state
        return state.rows.keys if state.rounding is None else state.rounding.widen(state.rows.keys)

    @property
    def class_scores(self) -> Tensor:
        """What every row adds to the logits of a decision that rests on it alone `(D, C)`, heeding edits."""
        return self._rows.class_scores

    @property
    def indices(self) -> np.ndarray:
        """The index of every row, ascending: ndarray of int of shape (D,).

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
        >>> clf.database_.indices[:3]
        array([0, 1, 2])
        """
        return self._rows.ids.copy()

    @property
    def labels(self) -> np.ndarray:
        """The label of every row: ndarray of shape (D,), in the order of `indices`.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
        >>> clf.database_.labels[[0, -1]]
        array([0, 2])
        """
        return self.classes.decode(self._rows.labels)

    @property
    def sample_weight(self) -> np.ndarray:
        """How many times every row counts: ndarray of float of shape (D,), in the order of `indices`.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
        >>> clf.database_.sample_weight[:3]
        array([1., 1., 1.], dtype=float32)
        """
        return self._rows.sample_weight.numpy().copy()

    def preview(self, index: int) -> Any:
        """Return a sample as a person is shown it.

        Parameters
        ----------
        index : int
            What the row is called.

        Returns
        -------
        preview : ndarray, ImageFile, str or dict
            An image of shape (h, w) or (h, w, 3), a text, or the cells of a table's row by column.

        Raises
        ------
        UserError
            If the index is not in the database.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
        >>> clf.database_.preview(0)["0"]
        '14.23'
        """
        rows = self._rows
        return preview(rows, self.inputs, rows.positions([index])[0])

    def preview_at(self, position: int) -> Any:
        """Return the sample at a position in `rows` in that form."""
        return preview(self._rows, self.inputs, position)

    @property
    def temperature(self) -> float:
        """The model's temperature, by which attention scores are divided."""
        return float(self.model.temperature)

    def attend(
        self, queries: Tensor, *, own: Tensor | None = None, top: int | None = None, confidence: bool = True
    ) -> Attention:
        """Return which candidates queries attend to, and what that decides.

        Parameters
        ----------
        queries : Tensor of shape (B, d_att)
            Such as `model.encode(x).queries`.
        own : Tensor of int of shape (B,), default=None
            The position in `rows` that each query may not attend to, -1 for none.
        top : int, default=None
            How many prototypes of each query are named, the heaviest; None is all. Decisions rest on all in any case.
        confidence : bool, default=True
            Whether the flat reading is made too, in the same pass; a decision alone is quicker.

        Returns
        -------
        attention : Attention
            Its positions are those in `rows`.

        Notes
        -----
        The weights are eq. 1, p_i = n(K q_i / (sqrt(d_att) temperature)); the logits are eq. 2 at alpha = 1; the
        confidence is eq. 3.

        Examples
        --------
        >>> import torch
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
        >>> queries = clf.database_.rows.queries[:2]
        >>> attention = clf.database_.attend(queries, own=torch.tensor([0, 1]), top=3)
        >>> positions, weights = attention.heaviest(3)
        >>> weights.shape, bool((positions != torch.tensor([[0], [1]])).all())
        (torch.Size([2, 3]), True)
        """
        state = self._state
        queries, own, top = asked(state.rows, queries, own, top)
        search: Search = state.approximation or exact
        found = search.attend(
            state.asked(queries),
            state.searchable,
            normalize=self.model.normalize,
            temperature=self.temperature,
            own=own,
            top=top,
            flat=state.flat(self.model.d_att) if confidence else None,
        )
        if state.readings is not None:
            found = replace(
                found,
                probability_temperature=state.readings.probability_temperature,
                familiar_from=state.familiar_from,
            )
        return found if state.rounding is None else replace(found, exact=False)

    def decide(self, queries: Tensor, *, own: Tensor | None = None, confidence: bool = True) -> Attention:
        """Return what is decided for queries, without naming prototypes: the faster `attend`.

        Parameters
        ----------
        queries : Tensor of shape (B, d_att)
            Such as `model.encode(x).queries`.
        own : Tensor of int of shape (B,), default=None
            The position in `rows` that each query may not attend to, -1 for none.
        confidence : bool, default=True
            Whether the flat reading is made too, in the same pass; a decision alone is quicker.

        Returns
        -------
        attention : Attention
            Without triples.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
        >>> clf.database_.decide(clf.database_.rows.queries[:2]).logits.shape
        torch.Size([2, 3])
        """
        return self.attend(queries, own=own, top=0, confidence=confidence)

    def scores(self, query: Tensor) -> Tensor:
        """Return the attention scores `(D,)` of one query `(d_att,)` with all rows, in float64.

        A row that takes no part in decisions has -inf.
        """
        state = self._state
        keys = state.rows.keys.to(query.dtype)
        scores = attention_scores(state.asked(query[None]), keys, self.temperature)[0].double()
        if self.model.normalize == "sparsemax":
            scores[state.searchable.atypical] = -torch.inf
        return scores

    @property
    def deciding(self) -> Tensor:
        """Which rows take part in decisions `(D,)`: with two readings, the typical ones."""
        state = self._state
        taking_part = torch.ones(len(state.rows), dtype=torch.bool)
        if self.model.normalize == "sparsemax":
            taking_part[state.searchable.atypical] = False
        return taking_part

    @property
    def flat(self) -> Flat | None:
        """How the scores are read for confidence; None where they are read as for decisions."""
        return self._state.flat(self.model.d_att)

    def flat_weights(self, queries: Tensor, *, own: Tensor | None = None) -> Tensor:
        """Return the weights of all rows in the reading that confidence is of `(B, D)`; `own` as in `attend`."""
        state = self._state
        flat = state.flat(self.model.d_att) or Flat(self.temperature)
        keys = state.rows.keys.to(queries.dtype)
        scores = without_own(flat_scores(state.asked(queries), keys, flat), own)
        normalize = self.model.normalize if state.readings is None else "softmax"
        return normalizer(normalize)(scores, sample_weight=state.rows.sample_weight)

    def _become(self, rows: Rows, next_id: int) -> None:
        state = self._state
        self._state = State.of(rows, state.readings, state.rounding, next_id)
