"""A sequential test for change whose false alarms are controlled: conformal p-values, and bets against them.

Each new sample is ranked among all before it. While nothing changes its ranks by one score are uniform and independent,
whatever the distribution, so that no way of betting on them makes money: the capital is a martingale that starts at 1,
and by Ville's inequality the probability that it ever reaches 1 / a is at most a (Vovk, Gammerman & Shafer,
"Algorithmic Learning in a Random World"). Capital won is evidence of change.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

AT_ONCE = 256  # samples ranked together: they are compared pair by pair
SLOPES = (-1.8, -0.9, 0.9, 1.8)


@dataclass(frozen=True)
class ChangeTest:
    """The capital won on several scores of each sample, and the scores seen so far.

    `seen` `(S, m)` are ascending scores; `log_capital` `(S, K)` what each of K ways to bet has won on each score;
    `shares` `(S,)`, of sum 1, how the capital is divided among scores; `n_tested` counts samples after the reference.
    """

    seen: np.ndarray
    log_capital: np.ndarray
    shares: np.ndarray
    n_tested: int = 0

    @classmethod
    def start(cls, reference: np.ndarray, shares: np.ndarray) -> ChangeTest:
        """Begin with the scores `(m, S)` of reference samples."""
        capital = np.full((reference.shape[1], bets(np.zeros(1)).shape[-1]), -np.inf)
        return cls(np.sort(reference.T.astype(float), axis=1), capital, shares)

    def after(self, scores: np.ndarray, generator: np.random.Generator) -> tuple[ChangeTest, np.ndarray, np.ndarray]:
        """Return the test after samples with `scores` `(n, S)`, and the logarithm of evidence after each of them.

        The first, the one to hold against the limit, is that of the strongest score times its share `(n,)`; the second
        `(n, S)` is that of each score alone. How samples are cut into batches makes no difference.

        A part of the capital, 1 / (n (n + 1)), is kept back to enter at sample n: it is a bet that the change begins
        there. So a long quiet time does not use up what is needed to notice a late change.
        """
        test, strongest, alone = self, [], []
        log_shares = np.log(self.shares)
        for start in range(0, len(scores), AT_ONCE):
            some = scores[start : start + AT_ONCE].astype(float)
            p_values = rank_p_values(test.seen, some, generator.uniform(size=some.shape))
            log_capital, n = test.log_capital, test.n_tested
            for log_won in np.log(bets(p_values)):
                n += 1
                entering = log_shares - np.log(n * (n + 1) * log_won.shape[1])
                log_capital = np.logaddexp(log_capital, entering[:, None]) + log_won
                by_score = np.logaddexp(np.logaddexp.reduce(log_capital, axis=1), log_shares - np.log(n + 1))
                # The capital M_s won on score s is a martingale given the ranks by s, and perhaps not given those by
                # all scores, so Ville's inequality holds for each M_s and need not for their sum. But it gives
                # P(share_s M_s ever reaches 1 / a) <= a share_s, and these sum to a: so the largest may be tested.
                strongest.append(by_score.max())
                alone.append(by_score - log_shares)
            seen = np.sort(np.concatenate([test.seen, some.T], axis=1), axis=1)
            test = ChangeTest(seen, log_capital, test.shares, n)
        return test, np.array(strongest), np.array(alone)


def rank_p_values(seen: np.ndarray, scores: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    """Return for each of `scores` `(n, S)` its rank among `seen` `(S, m)` and the scores before it, as a share.

    Equal scores are put in random order by `uniforms` `(n, S)`: the share is exactly uniform however many are equal.
    """
    n, n_scores = scores.shape
    earlier = np.tri(n, k=-1, dtype=bool)
    ranks = np.empty_like(scores)
    for s in range(n_scores):
        column, known = scores[:, s], seen[s]
        below = np.searchsorted(known, column, side="left")
        equal = np.searchsorted(known, column, side="right") - below
        below = below + (earlier & (column[None, :] < column[:, None])).sum(1)
        equal = equal + (earlier & (column[None, :] == column[:, None])).sum(1)
        ranks[:, s] = below + uniforms[:, s] * (equal + 1)  # a sample is equal to itself
    return ranks / (seen.shape[1] + np.arange(1, n + 1))[:, None]


def bets(p_values: np.ndarray) -> np.ndarray:
    """Return what each way of betting makes of a unit of capital `(..., K)`: densities on [0, 1], of mean one.

    They bet on scores that became lower or higher, on both ends, on the middle, and on either extreme.
    """
    p = np.clip(p_values, 1e-12, 1 - 1e-12)
    bowl = 12 * (p - 0.5) ** 2 - 1  # from -1 in the middle to 2 at the ends, of mean 0
    lines = [1 + slope * (p - 0.5) for slope in SLOPES]
    return np.stack([*lines, 1 + 0.9 * bowl, 1 - 0.45 * bowl, 0.5 / np.sqrt(p), 0.5 / np.sqrt(1 - p)], axis=-1)
