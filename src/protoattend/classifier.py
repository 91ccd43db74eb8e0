"""ProtoAttendClassifier: a scikit-learn classifier whose every decision is a weighted sum of real training samples."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import nn

from protoattend.core.model import Encoded
from protoattend.data.inputs import require_rows, without_labels
from protoattend.data.tables import TableInputs
from protoattend.database.attention import Attention
from protoattend.database.encode import encode
from protoattend.database.store import CandidateDatabase, Indices
from protoattend.encoders.pretrained import Pretrained
from protoattend.encoders.test_time_augmentation import TestTimeAugmentation
from protoattend.explain.counterfactuals import Counterfactual, counterfactuals, suppose, with_before
from protoattend.explain.explanations import Explanations, explain
from protoattend.io import load_classifier, save_classifier
from protoattend.training import fit as fitting
from protoattend.training.checkpoint import Checkpoints
from protoattend.training.history import History
from protoattend.training.schedule import Schedule
from protoattend.trust_methods import TrustMixin


class ProtoAttendClassifier(TrustMixin, ClassifierMixin, BaseEstimator):
    """Classify images, texts or tables from a few real training samples, and say which ones.

    Parameters
    ----------
    encoder : "auto", a name ("fast-cnn", "resnet32", "resnet50", "char-cnn", "vdcnn", "mlp", "lstm", "features") or any
        nn.Module that maps a batch to features. "auto" goes by the kind of X. `frozen(module)` keeps a pre-trained
        module as it is, `fine_tuned(module)` trains it along at a small rate of its own.
    normalize : "sparsemax" (few prototypes) or "softmax" (finer confidence).
    objective : a row of the paper's Table 1: "self", "prototype", "joint", "self+prototype", "annealed" or
        "self+prototype+joint".
    lambda_sparse, lambda_conf : weights of the sparsity and confidence regularisers.
    candidates : "in-batch", "sampled" (the paper) or "bank"; n_candidates is how many of the latter two.
    n_prototypes : how many prototypes, in the median, make 95 % of a decision by sparsemax at the most; after training,
        weights are made sharper until it holds. None leaves them as learned: more prototypes, and finer confidence.
    batch_size : rows of a step at the most; small data gets smaller batches, so that an epoch has 16 steps.
    max_epochs : a number, or "auto" by the size of the data.
    learning_rate, weight_decay, schedule : of the optimizer; schedule None is one-cycle.
    optimizer : "adam", or "sgd" for the encoder's own weights (with momentum, at 150 times learning_rate; heads stay
        with Adam, queries and keys at 10 times), which is worth trying with convolutional encoders on large data.
    attention_weight : how much of the gradient through queries, keys and candidates' values reaches the encoder; 1 is
        the paper's training; the less it is, the more the encoder learns as a plain one would.
    attention_target : what the objective's prototype and joint terms are to reach: "own", the decision by the input's
        own value, or "label" (the paper).
    mixup : how strongly training inputs are blended in pairs, from 0 to 1 (images and tables); it keeps prototypes
        diverse and confidence honest.
    label_smoothing : share of each target that is spread over all classes, from 0 to below 1; 0.2 is worth trying on
        large data.
    d_att, d_out : widths of queries and keys, and of values.
    class_weight : None, "balanced" or {label: weight}, in the loss.
    undersample : None or {label: share}: how much of a frequent class is kept, in batches (each epoch anew) and in the
        database (the same rows always).
    augment : "auto" (for images), None or a callable.
    views : None, or TestTimeAugmentation(mirror=True, shift=1): inputs and candidates are read as the mean over these
        views of an image, which is more accurate where `augment` taught the encoder to ignore them, and takes longer.
    categorical_features : columns of numbers that are really codes.
    validation_fraction : share of the rows held out to choose the best epoch; they are candidates afterwards.
    patience : stop after this many validations in a row without a good epoch; None trains for all epochs.
    n_processes : how many processes train together, on this machine (torchrun can start them on many).
    compile : whether torch.compile makes the encoder's steps faster; it takes up to a minute, and a C++ compiler.
    device, random_state, verbose : where to compute; the seed; 0 is silent, 1 shows progress, 2 leaves it standing.

    Attributes
    ----------
    classes_, model_ (ProtoAttend), database_ (CandidateDatabase), inputs_, history_, n_features_in_ (tables).

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = ProtoAttendClassifier(max_epochs=20, random_state=0, verbose=0).fit(X, y)
    >>> explanation = clf.explain(X[:1])[0]
    >>> explanation.prediction, len(explanation.prototypes) > 0
    (np.int64(0), True)
    """

    def __init__(
        self,
        encoder: str | nn.Module | Pretrained = "auto",
        normalize: str = "sparsemax",
        objective: str = "self+prototype+joint",
        lambda_sparse: float = 0.0,
        lambda_conf: float = 0.0,
        candidates: str = "in-batch",
        n_candidates: int | None = None,
        n_prototypes: int | None = 8,
        batch_size: int = 256,
        max_epochs: int | str = "auto",
        learning_rate: float = 2.5e-3,
        weight_decay: float = 0.0,
        optimizer: str = "adam",
        attention_weight: float = 0.1,
        attention_target: str = "own",
        mixup: float = 1.0,
        label_smoothing: float = 0.0,
        schedule: Schedule | None = None,
        patience: int | None = None,
        d_att: int = 16,
        d_out: int = 64,
        class_weight: Mapping[Any, float] | str | None = None,
        undersample: Mapping[Any, float] | None = None,
        augment: Any = "auto",
        views: TestTimeAugmentation | None = None,
        categorical_features: Any = None,
        validation_fraction: float = 0.1,
        device: str = "auto",
        compile: bool = False,
        n_processes: int = 1,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 1,
    ) -> None:
        self.encoder = encoder
        self.normalize = normalize
        self.objective = objective
        self.lambda_sparse = lambda_sparse
        self.lambda_conf = lambda_conf
        self.candidates = candidates
        self.n_candidates = n_candidates
        self.n_prototypes = n_prototypes
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.optimizer = optimizer
        self.attention_weight = attention_weight
        self.attention_target = attention_target
        self.mixup = mixup
        self.label_smoothing = label_smoothing
        self.schedule = schedule
        self.patience = patience
        self.d_att = d_att
        self.d_out = d_out
        self.class_weight = class_weight
        self.undersample = undersample
        self.augment = augment
        self.views = views
        self.categorical_features = categorical_features
        self.validation_fraction = validation_fraction
        self.device = device
        self.compile = compile
        self.n_processes = n_processes
        self.random_state = random_state
        self.verbose = verbose

    # -- learning -----------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        checkpoint_to: str | os.PathLike[str] | Checkpoints | None = None,
        resume_from: str | os.PathLike[str] | None = None,
    ) -> ProtoAttendClassifier:
        """Train on X and y, then make X the database. A torch Dataset of (x, y), or ImageFiles, needs no y.

        `sample_weight` `(n,)` is how many times each row counts, in the loss, as a candidate and in validation; a row
        of weight 0 is left out. Weight 2 is not quite the row twice: two rows may argue for one another, a row never
        argues for itself.
        `checkpoint_to` is a folder for checkpoints. After a crash or Ctrl-C, the same call with `resume_from` that
        folder goes on, writes further checkpoints there, and ends with the weights it would have had.
        """
        data = fitting.Data(X, y, sample_weight, checkpoint_to, resume_from)
        self._keep(*fitting.fit(self.get_params(deep=False), data))
        return self

    def _keep(self, database: CandidateDatabase, history: History) -> None:
        """Become fitted: what fit and load end with."""
        self.database_ = database
        self.model_ = database.model
        self.inputs_ = database.inputs
        self.classes_ = database.classes.values
        self.history_ = history
        self.conformal_ = None
        self.recalibration_ = None
        if isinstance(self.inputs_, TableInputs):
            self.n_features_in_ = len(self.inputs_.columns)
            if self.inputs_.named:
                self.feature_names_in_ = np.array(self.inputs_.names, dtype=object)

    # -- deciding -----------------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> np.ndarray:
        """Return the label of each row: the decision on its prototypes (alpha = 1)."""
        predicted = self._decide(X).predicted.numpy()
        return self.classes_[predicted]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return class probabilities `(n, n_classes)`: the softmax of the logits at alpha = 1."""
        return self._decide(X).probabilities.numpy()

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the logits at alpha = 1 `(n, n_classes)`, or with two classes their difference `(n,)`."""
        logits = self._decide(X).logits.numpy()
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def class_mass(self, X: Any) -> np.ndarray:
        """Return how much prototype weight lies on each label `(n, n_classes)`."""
        return self._decide(X).class_mass.numpy()

    def confidence(self, X: Any) -> np.ndarray:
        """Return C_i of eq. 3 `(n,)`: the share of prototype weight whose label is the prediction."""
        return self._decide(X).confidence.numpy()

    def explain(
        self,
        X: Any = None,
        top: int = 5,
        *,
        without: Indices | None = None,
        with_labels: Mapping[int, Any] | None = None,
    ) -> Explanations:
        """Return each row's prototypes; X=None explains every row of the database, each without itself.

        `without` and `with_labels` {index: label} ask what would be decided if some candidates were absent or had other
        labels: each explanation then has what is decided now as `before`, and `changed`. The database stays as it is.
        """
        check_is_fitted(self)
        supposed, own = suppose(self.database_, without=without, with_labels=with_labels), None
        if X is None:
            shown = [supposed.preview_at(position) for position in range(len(supposed))]
            queries = supposed.rows.queries
            own = torch.from_numpy(np.searchsorted(self.database_.rows.ids, supposed.rows.ids))
        else:
            encoded, shown = self._read(X)
            queries = encoded.queries
        explanations = explain(supposed, queries, shown, top=top, leave_one_out=X is None)
        return (
            explanations if supposed is self.database_ else with_before(explanations, self.database_, queries, own=own)
        )

    def counterfactuals(self, X: Any, *, at_most: int = 100) -> list[Counterfactual | None]:
        """Return for each row the fewest prototypes found whose removal changes the prediction, and what it becomes.

        None where `at_most` are not enough; `flip.smallest` says where no smaller set exists (trust/what_if.py).
        """
        return counterfactuals(self.database_, self._encode(X).queries, at_most=at_most)

    # -- keeping ------------------------------------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike[str], *, excerpts: bool = False) -> None:
        """Write model and database into `folder`, wholly or not at all; no pickle.

        With `excerpts` the folder shows explanations without the training data, and does not hold it: images are kept
        as thumbnails and texts as their first 200 characters.
        """
        check_is_fitted(self)
        save_classifier(self, folder, excerpts=excerpts)

    @classmethod
    def load(
        cls, folder: str | os.PathLike[str], *, encoder: nn.Module | Pretrained | None = None
    ) -> ProtoAttendClassifier:
        """Read a saved classifier; one trained with a module of your own needs the same `encoder` as in fit."""
        return load_classifier(cls, folder, encoder)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _source(self, X: Any) -> np.ndarray:
        X = without_labels(X)
        require_rows(X)
        return self.inputs_.source(X)

    def _encode(self, X: Any) -> Encoded:
        check_is_fitted(self)
        return encode(self.model_, self.inputs_.tensor(self._source(X)))

    def _read(self, X: Any) -> tuple[Encoded, list[Any]]:
        """Return X encoded, and what a person is shown of each row, from one reading of it."""
        check_is_fitted(self)
        source = self._source(X)
        return encode(self.model_, self.inputs_.tensor(source)), [self.inputs_.preview(row) for row in source]

    def _decide(self, X: Any) -> Attention:
        queries = self._encode(X).queries
        return self.database_.decide(queries)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "database_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # a missing value, handled
        tags.non_deterministic = self.random_state is None
        return tags
