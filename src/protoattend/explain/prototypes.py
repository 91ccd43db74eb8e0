"""A prototype as a person is shown it, and what was decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Prototype:
    """One real sample a decision rests on.

    Attributes
    ----------
    index : int
        Its row in the training X, or the index given to a row added later.
    weight : float
        p_ij of eq. 1, its share of the decision.
    label : label
        What it carries.
    preview : object
        What a person is shown. That of an image on disk knows its `path`, and is decoded by `np.asarray`; a database
        saved with excerpts shows thumbnails, and the first characters of texts.
    argues_for : label
        The label its value speaks for, which is what it adds to the decision; mostly the one it carries.
    argues_share : float
        How much it does: the probability of that label by its value alone.

    Examples
    --------
    >>> Prototype(index=17, weight=0.6, label="cat", preview="a small cat").weight
    0.6
    """

    index: int
    weight: float
    label: Any
    preview: Any
    argues_for: Any = None
    argues_share: float = 1.0


@dataclass(frozen=True)
class Outcome:
    """What was decided for one input, and how confidently."""

    prediction: Any
    confidence: float
