"""Two readings of one set of scores: few prototypes decide, and all candidates together say how confident that is.

Sharp weights nearly always agree, rightly or not, so they cannot carry a confidence; flat ones cannot be looked at. So
C_i (eq. 3) is the class mass by softmax over all candidates, at a temperature chosen on rows that training has not seen
for the likelihood of their labels; and probabilities have a temperature chosen likewise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from protoattend.core.attention import class_mass, label_votes
from protoattend.core.self_exclusion import without_own
from protoattend.database.flat_mass import Flat, flat_scores
from protoattend.database.judges import Judges

if TYPE_CHECKING:
    from protoattend.database.variants import VariantMethods

ASKED = 1024  # rows at the most that temperatures are chosen on
SEEN = 256  # beside held-out rows, rows at the most that training has seen
SAY = 10.0  # held-out rows that all of these count as: 20 alone, as small tables have, would leave the choice to chance
SCORES = 2**26  # of these rows at the most, all candidates together
STEP, STEPS, COARSE = 2**0.5, 24, 4  # of the flat temperature beside that of the decision, both ways; coarse ones first
PROBABILITY = 2.0 ** torch.arange(-4, 4.01, 0.125)  # temperatures of probabilities to choose from
LEAST = 1e-9  # class mass, in a logarithm
UNFAMILIAR = 0.02  # of the rows that readings are chosen on: the price in confidence of telling what is far from all


@dataclass(frozen=True)
class Readings:
    """How decisions, confidence and probabilities are read.

    With `typical_only`, candidates decide only where their own value argues for the label they carry. A person who adds
    or relabels one makes it typical. All candidates count for the confidence. `familiar_from` has for each predicted
    class the logarithm of the sum of exp(score / flat_temperature) over all candidates (without `flat_likeness`, of the
    largest alone) from which on an input is familiar: below it weights of the flat reading sum to less than one, for
    what is unlike all candidates should not be confident. None: all inputs are familiar. With `flat_likeness`, likeness
    counts in the flat reading as it does in the decision; without, scores are what attention has learned alone.
    """

    flat_temperature: float
    probability_temperature: float = 1.0
    typical_only: bool = True
    familiar_from: tuple[float, ...] | None = None
    flat_likeness: bool = True

    def state(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return asdict(self)

    @classmethod
    def from_state(cls, state: Mapping[str, Any] | None) -> Readings | None:
        if state is None:
            return None
        familiar_from = state.get("familiar_from")
        return cls(**{**state, "familiar_from": None if familiar_from is None else tuple(familiar_from)})


def choose_readings(database: VariantMethods, held_out: Tensor) -> Readings:
    """Return the readings that suit the rows at positions `held_out` best, each decided by all but itself.

    That is how later inputs are decided: by held-out rows too, whose values say less than those that training has seen.
    Rows it has seen have a small say, and where none is held out, the only one. Who decides stays as it is.
    """
    asked, weights = _asked(len(database), held_out)
    rows = database.rows
    queries, labels = rows.blocks.take("queries", asked.numpy()), rows.labels[asked]
    judges = Judges(labels, weights)
    logits = database.decide(queries, own=asked, confidence=False).logits.double()
    typical_only = database.readings is None or database.readings.typical_only
    widths: tuple[int | None, ...] = (None, database.model.d_att)
    if database.model.likeness is None or not len(held_out):  # what is learned says too much of rows it has learned
        widths = (None if database.flat is None else database.flat.width,)
    unseen = Judges(labels, weights * torch.isin(asked, held_out))
    flat = _choose_flat(database, queries, asked, judges, unseen, widths)
    reading = Readings(
        flat.temperature, probability_temperature(logits, judges), typical_only, flat_likeness=flat.width is None
    )
    return _with_familiarity(database, reading, held_out)


def readings_taken_over(database: VariantMethods, chosen: Readings, scale: float) -> Readings:
    """Return readings chosen for a model whose scores decide at a temperature `scale` times lower than this one's.

    Which inputs are familiar is told by rows that the model has learned, each without itself.
    """
    flat = scale * chosen.flat_temperature
    return _with_familiarity(database, replace(chosen, flat_temperature=flat), torch.arange(0))


def _with_familiarity(database: VariantMethods, reading: Readings, held_out: Tensor) -> Readings:
    """Return the reading with the totals below which inputs are unfamiliar."""
    asked, weights = _asked(len(database), held_out)
    rows, read_so = database.rows, database.snapshot()
    read_so.readings = replace(reading, familiar_from=None)
    totals = read_so.decide(rows.blocks.take("queries", asked.numpy()), own=asked).flat_total
    if totals is None:
        return reading
    return replace(reading, familiar_from=_familiar_from(totals, rows.labels[asked], weights, len(database.classes)))


def _asked(n_candidates: int, held_out: Tensor) -> tuple[Tensor, Tensor]:
    """Return the positions of the rows that readings are chosen on, and how much each counts."""
    count = min(ASKED, max(1, SCORES // n_candidates))
    new = _spread(held_out, count)
    seen = torch.ones(n_candidates, dtype=torch.bool)
    seen[held_out] = False
    known = _spread(seen.nonzero().squeeze(1), min(count, SEEN) if len(new) else count)
    return torch.cat([new, known]), torch.cat(
        [torch.ones(len(new)), torch.full((len(known),), SAY / max(1, len(known)))]
    )


def _spread(positions: Tensor, count: int) -> Tensor:
    return positions[torch.linspace(0, len(positions) - 1, min(count, len(positions))).round().long().unique()]


def _choose_flat(
    database: VariantMethods,
    queries: Tensor,
    own: Tensor,
    judges: Judges,
    unseen: Judges,
    widths: Sequence[int | None],
) -> Flat:
    """Return the width and the temperature at which the class mass says most: of all scores, or of the learned ones.

    Likeness orders candidates that attention holds equal. How confident they make one is another matter: of tables it
    says more, and of images, whose pixels are alike where their classes are not, less. The first width stands unless
    those judges that training has not seen prefer another: it has learned to be right on the others.
    """
    keys, rows = database.keys, database.rows
    votes = label_votes(rows.labels, len(database.classes), torch.float32) * rows.sample_weight[:, None]

    def best(width: int | None) -> tuple[Flat, Tensor]:
        scores = without_own(flat_scores(queries, keys, Flat(database.temperature, width)), own)
        steps, logs = _best_steps(scores - scores.amax(1, keepdim=True), votes, judges)
        return Flat(database.temperature * STEP**steps, width), logs

    chosen, logs = best(widths[0])
    for width in widths[1:]:
        other, its_logs = best(width)
        if unseen.prefer(its_logs, to=logs):
            chosen, logs = other, its_logs
    return chosen


def _best_steps(scores: Tensor, votes: Tensor, judges: Judges) -> tuple[int, Tensor]:
    """Return by how many steps of the temperature of the scores the class mass says most, and its logarithms there."""

    def logs_after(steps: int) -> Tensor:
        mass = class_mass((scores * STEP**-steps).exp(), votes).double()
        return (mass / mass.sum(1, keepdim=True)).clamp(min=LEAST).log()

    def loss_after(steps: int) -> float:
        return judges.loss(logs_after(steps))

    near = min(range(-STEPS, STEPS + 1, COARSE), key=loss_after)
    best = min(range(near - COARSE + 1, near + COARSE), key=loss_after)
    return best, logs_after(best)


def probability_temperature(logits: Tensor, judges: Judges) -> float:
    """Return the temperature at which the softmax of logits `(n, C)` says most."""
    losses = [judges.loss((logits / temperature).log_softmax(1)) for temperature in PROBABILITY]
    return float(PROBABILITY[int(torch.tensor(losses).argmin())])


def _familiar_from(totals: Tensor, labels: Tensor, weights: Tensor, n_classes: int) -> tuple[float, ...]:
    """Return below which total an input of each predicted class is unfamiliar: few of all rows are, and few of its own.

    Of a class that lies apart, most rows would be few of all: such a class has a lower bar.
    """
    overall = _quantile(totals, weights, UNFAMILIAR)
    of_class = [labels == c for c in range(n_classes)]
    return tuple(
        min(overall, _quantile(totals[own], weights[own], UNFAMILIAR)) if bool(own.any()) else overall
        for own in of_class
    )


def _quantile(numbers: Tensor, weights: Tensor, share: float) -> float:
    """Return the number below which less than `share` of the weight lies."""
    ordered, order = numbers.sort()
    reached = weights.double()[order].cumsum(0)
    return float(ordered[torch.searchsorted(reached, share * float(reached[-1]))])
