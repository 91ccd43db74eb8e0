"""scikit-learn's own checks of an estimator."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from protoattend import ProtoAttendClassifier


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([ProtoAttendClassifier(max_epochs=12, batch_size=32, random_state=0, verbose=0)])
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)
