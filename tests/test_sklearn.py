"""scikit-learn's own checks of an estimator."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from protoattend import ProtoAttendClassifier

# The reason of each check that may fail; scikit-learn asks for equality to 1e-7, which float32 does not have.
ROUNDING = dict.fromkeys(
    ("check_methods_subset_invariance", "check_methods_sample_order_invariance"),
    "float32 products round differently for other batch shapes; tests/test_estimator.py asks for 1e-5",
)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [ProtoAttendClassifier(max_epochs=12, batch_size=32, random_state=0, verbose=0)],
    expected_failed_checks=lambda estimator: ROUNDING,
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)
