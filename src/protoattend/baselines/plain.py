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
from protoattend.training import prepare as ready
from protoattend.training.features import cache_features
from protoattend.training.loop import train
from protoattend.training.losses import plain_terms
from protoattend.training.measure import measure_plain
from protoattend.training.progress import progress_bar


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
        self.categorical_features = categorical_features
        self.validation_fraction = validation_fraction
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> PlainClassifier:
        """Train on X and y; weights count as in ProtoAttendClassifier."""
        seed = ready.draw_seed(self.random_state)
        with ready.seeded(seed) as generator:
            prepared = ready.prepare(
                X,
                y,
                learn_inputs=ready.input_learner(self.categorical_features, self.encoder),
                validation_fraction=self.validation_fraction,
                generator=generator,
                sample_weight=sample_weight,
                undersample=self.undersample,
            )
            unused = {
                "objective": "self",
                "attention_weight": 1.0,
                "lambda_sparse": 0.0,
                "lambda_conf": 0.0,
                "d_att": 1,
            }
            encoder = ready.make_encoder(self.encoder, prepared)
            augment = ready.make_augment(self.augment, prepared.inputs, encoder)
            params = self.get_params(deep=False) | unused
            config = ready.make_config(params, prepared.train.rows_of_an_epoch, can_mix=encoder.can_mix)
            device = ready.resolve_device(self.device)
            trained, prepared = cache_features(encoder, prepared, device=device, verbose=self.verbose)
            model = ready.make_model(
                trained,
                len(prepared.classes),
                d_att=1,
                d_out=self.d_out,
                normalize="softmax",
                device=self.device,
            )
            class_weight = ready.class_weights(self.class_weight, prepared.train, prepared.classes, device)
            validation = prepared.measured(class_weight)
            with progress_bar(self.verbose, config.max_epochs, "plain encoder") as on_step:
                self.history_ = train(
                    model,
                    prepared.train,
                    config,
                    loss_terms=plain_terms(config, class_weight, prepared.row_weights(device)),
                    measure=None if validation is None else partial(measure_plain, model, validation),
                    seed=seed,
                    augment=augment,
                    on_step=on_step,
                )
        model.encoder = encoder
        self.model_, self.inputs_, self.classes_ = model, prepared.inputs, prepared.classes.values
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
