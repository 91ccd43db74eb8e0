"""The plain encoder: the same network and training, decided at alpha 0, without attention and prototypes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import nn

from protoattend.data.samples import chunks
from protoattend.encoders.build import rows_at_once
from protoattend.encoders.pretrained import Pretrained
from protoattend.encoders.test_time_augmentation import TestTimeAugmentation
from protoattend.training.evaluation import evaluate_plain
from protoattend.training.fit import Data, set_up
from protoattend.training.loop import train
from protoattend.training.losses import plain_terms
from protoattend.training.progress import progress_bar
from protoattend.training.setup import draw_seed, seeded

# What the setup asks of the attention that this classifier has not.
WITHOUT_ATTENTION = {
    "objective": "self",
    "attention_weight": 1.0,
    "attention_target": "label",
    "lambda_sparse": 0.0,
    "lambda_conf": 0.0,
    "d_att": 1,
    "normalize": "softmax",
    "n_prototypes": None,
}


class PlainClassifier(ClassifierMixin, BaseEstimator):
    """Conventional supervised learning with the encoder ProtoAttend uses; parameters as there."""

    def __init__(
        self,
        encoder: str | nn.Module | Pretrained = "auto",
        batch_size: int = 256,
        max_epochs: int | str = "auto",
        learning_rate: float = 2.5e-3,
        weight_decay: float = 0.0,
        optimizer: str = "adam",
        mixup: float = 1.0,
        label_smoothing: float = 0.0,
        schedule: Any = None,
        patience: int | None = None,
        d_out: int = 64,
        class_weight: Any = None,
        undersample: Any = None,
        augment: Any = "auto",
        views: TestTimeAugmentation | None = None,
        categorical_features: Any = None,
        validation_fraction: float = 0.1,
        device: str = "auto",
        random_state: int | None = None,
        verbose: int = 1,
    ) -> None:
        self.encoder = encoder
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.optimizer = optimizer
        self.mixup = mixup
        self.label_smoothing = label_smoothing
        self.schedule = schedule
        self.patience = patience
        self.d_out = d_out
        self.class_weight = class_weight
        self.undersample = undersample
        self.augment = augment
        self.views = views
        self.categorical_features = categorical_features
        self.validation_fraction = validation_fraction
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> PlainClassifier:
        """Train on X and y; weights count as in ProtoAttendClassifier."""
        seed = draw_seed(self.random_state)
        with seeded(seed) as generator:
            setup = set_up(self.get_params(deep=False) | WITHOUT_ATTENTION, Data(X, y, sample_weight), generator)
            validation = setup.prepared.measured(setup.class_weight)
            row_weights = setup.prepared.row_weights(setup.device)
            with progress_bar(self.verbose, setup.config.max_epochs, "plain encoder") as on_step:
                self.history_ = train(
                    setup.model,
                    setup.prepared.train,
                    setup.config,
                    loss_terms=plain_terms(setup.config, setup.class_weight, row_weights),
                    measure=None if validation is None else partial(evaluate_plain, setup.model, validation),
                    seed=seed,
                    augment=setup.augment,
                    on_step=on_step,
                )
        setup.model.encoder = setup.encoder
        self.model_, self.inputs_, self.classes_ = setup.model, setup.whole.inputs, setup.whole.classes.values
        return self

    def predict(self, X: Any) -> np.ndarray:
        return self.classes_[self.predict_proba(X).argmax(1)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the softmax of the logits at alpha 0 `(n, n_classes)`."""
        check_is_fitted(self)
        samples = self.inputs_.tensor(self.inputs_.source(X))
        device = next(self.model_.parameters()).device
        with torch.no_grad():
            size = rows_at_once(self.model_.encoder, device)
            logits = [self.model_.self_logits(x.to(device)).cpu() for x in chunks(samples, size)]
        return torch.cat(logits).double().softmax(1).numpy()
