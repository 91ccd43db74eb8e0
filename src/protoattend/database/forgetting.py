"""What becomes of rows that are to be forgotten: what rested on them, and what still depends on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from protoattend.database.variants import VariantMethods

ASKED = 1024  # remaining rows at the most whose decisions are compared, spread evenly


@dataclass(frozen=True)
class ForgetReport:
    """What `CandidateDatabase.forget` did, and what it could not do.

    Attributes
    ----------
    indices : tuple of int
        The rows that are gone.
    n_compared : int
        How many of the remaining rows were decided before and after, each without itself.
    votes : float
        How much of these decisions' weight was on rows that are gone, on average.
    changed : tuple of int
        Those among them that are decided otherwise now.
    trained_with : tuple of int
        Rows gone that the model's weights were trained with, or its best epoch was chosen by: only a new `fit` without
        them takes that back.
    perhaps_trained_with : tuple of int
        Rows gone that were relabelled, or added, after training: which of the two, and so whether it knew them, is not
        kept.
    image_files : tuple of str
        Files of rows gone. They are yours, and still there.
    gone_from_disk : bool
        Whether the database's folder was written again without the rows; False where it lies in memory alone.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from protoattend import ProtoAttendClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
    >>> report = clf.database_.forget([0, 1])
    >>> report.trained_with, report.gone_from_disk, report.n_compared
    ((0, 1), False, 176)
    """

    indices: tuple[int, ...]
    n_compared: int
    votes: float
    changed: tuple[int, ...]
    trained_with: tuple[int, ...]
    perhaps_trained_with: tuple[int, ...]
    image_files: tuple[str, ...]
    gone_from_disk: bool

    def __str__(self) -> str:
        disk = "gone from its folder" if self.gone_from_disk else "in memory alone: saved copies still hold them"
        lines = [
            f"{len(self.indices)} rows forgotten, {disk}.",
            f"They had {self.votes:.1%} of the weight in {self.n_compared} decisions; {len(self.changed)} changed.",
            f"Weights, words and categories were learned with {len(self.trained_with)} of them, and with those of "
            f"{len(self.perhaps_trained_with)} more that were relabelled, not added: only a new fit takes that back.",
            f"{len(self.image_files)} of their image files still lie where they were.",
            "Copies, checkpoints and reports made before are not known here: delete them yourself.",
        ]
        return "\n".join(lines)


def report_of(before: VariantMethods, after: VariantMethods, *, gone_from_disk: bool) -> ForgetReport:
    """Compare a database with the same one without some of its rows."""
    old, new = before.rows, after.rows
    gone = np.flatnonzero(~np.isin(old.ids, new.ids))
    asked = np.unique(np.linspace(0, len(new) - 1, min(ASKED, len(new))).astype(int))
    places = np.searchsorted(old.ids, new.ids[asked])
    queries = new.blocks.take("queries", asked)
    first = before.attend(queries, own=torch.from_numpy(places), confidence=False)
    second = after.decide(queries, own=torch.from_numpy(asked), confidence=False)
    on_gone = torch.isin(first.positions, torch.from_numpy(gone))
    edited = old.edited[torch.from_numpy(gone)].numpy()
    files = old.blocks.take("source", gone) if before.inputs.kind == "images" and old.of_texts else []
    return ForgetReport(
        indices=tuple(old.ids[gone].tolist()),
        n_compared=len(asked),
        votes=float(first.weights[on_gone].double().sum()) / len(asked),
        changed=tuple(new.ids[asked][(first.predicted != second.predicted).numpy()].tolist()),
        trained_with=tuple(old.ids[gone[~edited]].tolist()),
        perhaps_trained_with=tuple(old.ids[gone[edited]].tolist()),
        image_files=tuple(map(str, files)),
        gone_from_disk=gone_from_disk,
    )
