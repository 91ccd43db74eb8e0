"""The plain encoder trained on what a saved classifier keeps is the one trained on the samples themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from protoattend import PlainClassifier, ProtoAttendClassifier
from protoattend.app.baseline import fit_baseline


def test_rows_of_the_database_train_the_same_encoder(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "size": np.where(rng.random(90) < 0.2, np.nan, rng.normal(5, 2, 90)),
            "kind": rng.choice(["oak", "elm", "ash"], 90),
            "since": pd.date_range("2020-01-01", periods=90),
        }
    )
    y = np.where(X["kind"] == "oak", "hard", "soft")
    ProtoAttendClassifier(max_epochs=3, random_state=0, verbose=0).fit(X, y).save(tmp_path / "model")
    clf = ProtoAttendClassifier.load(tmp_path / "model")
    direct = PlainClassifier(**clf.get_params(deep=False)).fit(X, y)
    np.testing.assert_allclose(fit_baseline(clf, verbose=0)(X), direct.predict_proba(X), atol=1e-4)
