"""The mean and the scale that a column of numbers is standardised by."""

from __future__ import annotations

import numpy as np

LARGE = 1e150  # from which on squares may be too large for a float, as those of its inverse may be too small
FAR = 1000.0  # times the spread of the middle half: a deviation beyond it is that of a few values far out
HALF_OF_NORMAL = 1.349  # standard deviations that the middle half of a normal distribution spans


def mean_and_scale(numbers: np.ndarray) -> tuple[float, float]:
    """Return mean and standard deviation of what is there; a constant or empty column has scale 1.

    Where a few values lie so far out that the others would be told apart no more, such as one 1e12 among ages, the
    median and the spread of the middle half stand for them.

    >>> mean_and_scale(np.array([1.0, 3.0, np.nan])), mean_and_scale(np.array([5.0, 5.0]))
    ((2.0, 1.0), (5.0, 1.0))
    """
    known = numbers[~np.isnan(numbers)]
    if len(known) == 0:
        return 0.0, 1.0
    largest = float(np.abs(known).max())
    unit = 1.0 if largest == 0 or 1 / LARGE < largest < LARGE else largest
    mean, scale = float((known / unit).mean()) * unit, float((known / unit).std()) * unit
    if scale <= 1e-12 * largest:  # beside them, not beside 1: charges of electrons differ by 1e-19
        return mean, 1.0
    low, median, high = (float(value) for value in np.quantile(known / unit, [0.25, 0.5, 0.75]) * unit)
    middle = high / HALF_OF_NORMAL - low / HALF_OF_NORMAL
    return (median, middle) if 0 < FAR * middle < scale else (mean, scale)
