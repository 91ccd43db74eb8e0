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

from protoattend import fitting
from protoattend.core.model import Encoded
from protoattend.data.inputs import require_rows
from protoattend.data.tables import TableInputs
from protoattend.database.encode import encode
from protoattend.database.search import Decisions
from protoattend.database.store import CandidateDatabase, Indices
from protoattend.encoders.pretrained import Pretrained
from protoattend.encoders.views import Views
from protoattend.errors import UserError
from protoattend.export import load_classifier, save_classifier
from protoattend.training.checkpoint import Checkpoints
from protoattend.training.history import History
from protoattend.training.schedule import Schedule
from protoattend.trust.assess import Assessment
from protoattend.trust.calibration import Recalibration
from protoattend.trust.conformal import Conformal, class_support
from protoattend.trust.contrast import Contrast, contrast, explain_diverse
from protoattend.trust.detector import OodDetector
from protoattend.trust.drift import DriftMonitor
from protoattend.trust.explain import Explanations, explain
from protoattend.trust.judges import cross_fit_issues, leave_one_out_issues
from protoattend.trust.labels import LabelIssues
from protoattend.trust.mistakes import Mistakes, find_mistakes
from protoattend.trust.ood import ood_score
from protoattend.trust.quality import PrototypeQuality
from protoattend.trust.rankers import database_quality
from protoattend.trust.selective import guaranteed_threshold, threshold_for_accuracy
from protoattend.trust.usage import PrototypeUsage, prototype_usage
from protoattend.trust.what_if import Flip, smallest_flips, suppose, with_before


class ProtoAttendClassifier(ClassifierMixin, BaseEstimator):
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
    optimizer : "adam", or "sgd" for the encoder's own weights (with momentum, at 80 times learning_rate; the heads stay
        with Adam), which is worth trying with convolutional encoders on large data.
    attention_weight : weight of the objective's prototype and joint terms beside its self term; 1 is the paper's sum;
        the less it is, the more the encoder learns as a plain one would.
    mixup : how strongly training inputs are blended in pairs, from 0 to 1 (images and tables); it keeps prototypes
        diverse and confidence honest.
    label_smoothing : share of each target that is spread over all classes, from 0 to below 1; 0.1 is worth trying on
        large data.
    d_att, d_out : widths of queries and keys, and of values.
    class_weight : None, "balanced" or {label: weight}, in the loss.
    undersample : None or {label: share}: how much of a frequent class is kept, in batches (each epoch anew) and in the
        database (the same rows always).
    augment : "auto" (for images), None or a callable.
    views : None, or Views(mirror=True, shift=1): inputs and candidates are read as the mean over these views of an
        image, which is more accurate where `augment` taught the encoder to disregard them, and takes longer.
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
        attention_weight: float = 0.3,
        mixup: float = 1.0,
        label_smoothing: float = 0.0,
        schedule: Schedule | None = None,
        patience: int | None = None,
        d_att: int = 16,
        d_out: int = 64,
        class_weight: Mapping[Any, float] | str | None = None,
        undersample: Mapping[Any, float] | None = None,
        augment: Any = "auto",
        views: Views | None = None,
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

        `sample_weight` `(n,)` is how many times each row counts, in the loss, as a candidate and in validation: 2 is as
        good as the row twice, and a row of weight 0 is left out.
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
        self.conformal_: Conformal | None = None
        self.recalibration_: Recalibration | None = None
        if isinstance(self.inputs_, TableInputs):
            self.n_features_in_ = len(self.inputs_.columns)
            if self.inputs_.named:
                self.feature_names_in_ = np.array(self.inputs_.names, dtype=object)

    # -- deciding -----------------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> np.ndarray:
        """Return the label of each row: the decision on its prototypes (alpha = 1)."""
        return self.classes_[self._decide(X).predicted.numpy()]

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
            shown = [supposed.exhibit_at(position) for position in range(len(supposed))]
            queries = supposed.rows.queries
            own = torch.from_numpy(np.searchsorted(self.database_.rows.ids, supposed.rows.ids))
        else:
            source = self._source(X)
            shown = [self.inputs_.exhibit(row) for row in source]
            queries = encode(self.model_, self.inputs_.tensor(source)).queries
        explanations = explain(supposed, queries, shown, top=top, leave_one_out=X is None)
        return (
            explanations if supposed is self.database_ else with_before(explanations, self.database_, queries, own=own)
        )

    def smallest_flips(self, X: Any, *, at_most: int = 100) -> list[Flip | None]:
        """Return for each row the fewest prototypes found whose removal changes the prediction, and what it becomes.

        None where `at_most` are not enough; `flip.smallest` says where no smaller set exists (trust/what_if.py).
        """
        return smallest_flips(self.database_, self._encode(X).queries, at_most=at_most)

    # -- trusting -----------------------------------------------------------------------------------------------------

    def predict_or_abstain(self, X: Any, min_confidence: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the labels, and which of them are answers: those with confidence of at least `min_confidence`."""
        decisions = self._decide(X)
        return self.classes_[decisions.predicted.numpy()], decisions.confidence.numpy() >= min_confidence

    def assess(self, X: Any, y: Any, name: str = "") -> Assessment:
        """Return what labelled, unseen samples tell: `risk_coverage()`, `reliability()`, `measures()`, `plot()`."""
        decisions = self._decide(X)
        labels = self.database_.classes.encode(y).numpy()
        if len(labels) != len(decisions.logits):
            raise UserError(f"X and y must be of one length, but X has {len(decisions.logits)} rows, y {len(labels)}.")
        return Assessment(
            confidence=decisions.confidence.numpy(),
            predicted=decisions.predicted.numpy(),
            labels=labels,
            probabilities=decisions.probabilities.numpy(),
            class_mass=decisions.class_mass.numpy(),
            classes=self.classes_,
            name=name,
        )

    def threshold_for(self, X: Any, y: Any, accuracy: float = 0.99, *, guarantee: float | None = None) -> float:
        """Return the lowest min_confidence that gives `accuracy` on these labelled samples, unseen in training.

        With `guarantee=0.95` it holds for new samples drawn alike, too, at that probability (`guaranteed_threshold`).
        """
        seen = self.assess(X, y)
        if guarantee is None:
            return threshold_for_accuracy(seen.confidence, seen.correct, accuracy)
        return guaranteed_threshold(seen.confidence, seen.correct, accuracy=accuracy, guarantee=guarantee)

    def calibrate(self, X: Any, y: Any) -> ProtoAttendClassifier:
        """Learn from labelled samples, unseen in training, what prediction sets and calibrated scores need.

        Do it again after an edit of the database, which changes the decisions it was learned from.
        """
        seen = self.assess(X, y)
        support = class_support(seen.class_mass, seen.probabilities)
        recalibration = Recalibration.fit(
            seen.probabilities, seen.labels, confidence=seen.confidence, correct=seen.correct
        )
        self.conformal_, self.recalibration_ = Conformal.fit(support, seen.labels), recalibration
        return self

    def prediction_set(self, X: Any, coverage: float = 0.95, *, by_class: bool = False) -> list[list[Any]]:
        """Return for each row the labels that together hold the true one at least `coverage` of the time.

        An empty list is "none of these": too little speaks for any class. With `by_class` the guarantee holds for the
        samples of each class, however rare, and not only for all of them together.
        """
        decisions = self._decide(X)
        if self.conformal_ is None:
            raise _needs_calibration("prediction_set")
        sets = self.conformal_.sets_by_class if by_class else self.conformal_.sets
        inside = sets(class_support(decisions.class_mass.numpy(), decisions.probabilities.numpy()), coverage)
        return [self.classes_[row].tolist() for row in inside]

    def calibrated_proba(self, X: Any) -> np.ndarray:
        """Return `predict_proba` at the temperature that `calibrate` found likeliest `(n, n_classes)`."""
        probabilities = self.predict_proba(X)
        if self.recalibration_ is None:
            raise _needs_calibration("calibrated_proba")
        return self.recalibration_.probabilities(probabilities)

    def calibrated_confidence(self, X: Any) -> np.ndarray:
        """Return how often predictions of such confidence were right in `calibrate` `(n,)`."""
        sure = self.confidence(X)
        if self.recalibration_ is None:
            raise _needs_calibration("calibrated_confidence")
        return self.recalibration_.confidence(sure)

    def prototype_usage(self, X: Any) -> PrototypeUsage:
        """Return what the decisions on X rest on, in the form a drift monitor is fed with."""
        return prototype_usage(self.database_, self._encode(X).queries)

    def drift_monitor(self, X: Any, *, false_alarm: float = 0.01) -> DriftMonitor:
        """Return a monitor with X, unseen in training, as reference; feed it `clf.prototype_usage(X_new)`."""
        return DriftMonitor(self.prototype_usage(X), false_alarm=false_alarm)

    def ood_score(self, X: Any, method: str = "disagreement") -> np.ndarray:
        """Return how strange each row is `(n,)`; higher is further from the training data.

        "disagreement" is the paper's 1 - C_i; "largest-score", "entropy", "own-value", "energy", "own-energy" and
        "neighbours" read other signals of the same forward. "combined" is `ood_detector().score(X)`, the best.
        """
        check_is_fitted(self)
        require_rows(X)
        if method == "combined":
            return self.ood_detector().score(X)
        return ood_score(self.database_, X, method)

    def ood_detector(self, X: Any = None) -> OodDetector:
        """Return a detector of strange inputs, `score(X)` and `p_value(X)`, learned from usual rows alone.

        They should be unseen in training, for p-values to hold; without X they are candidates of the database.
        """
        check_is_fitted(self)
        if X is None:
            return OodDetector.fit_on_database(self.database_)
        require_rows(X)
        return OodDetector.fit(self.database_, X)

    def find_label_issues(self, X: Any = None, y: Any = None, *, cv: int = 5) -> LabelIssues:
        """Return the rows whose label is disputed, worst first, with a suggestion and the prototypes that say so.

        Without X: the candidates of this classifier, by one another, at no cost. With X and y: `cv` clones of it (it
        need not be fitted) are trained to judge rows they never saw, which is slower and better.
        """
        if X is not None:
            return cross_fit_issues(self, X, y, cv=cv)
        check_is_fitted(self)
        return leave_one_out_issues(self.database_)

    def find_mistakes(self, X: Any, y: Any, top: int = 20) -> Mistakes:
        """Return which candidates pull which classes into which errors on labelled rows, and where data is wanted."""
        check_is_fitted(self)
        return find_mistakes(self.database_, self._encode(X).queries, self.database_.classes.encode(y), top=top)

    def why_not(self, X: Any, label: Any, top: int = 5) -> list[Contrast]:
        """Return for each row the best candidates of another label, and how much weight they lack."""
        queries = self._encode(X).queries
        return contrast(self.database_, queries, self._exhibits(X), label=label, top=top)

    def explain_diverse(self, X: Any, top: int = 5) -> Explanations:
        """Return each row's prototypes like `explain`, but no near-copies of one another."""
        encoded = self._encode(X)
        return explain_diverse(self.database_, encoded, self._exhibits(X), top=top)

    def prototype_quality(self, X: Any, y: Any, **more: Any) -> PrototypeQuality:
        """Return how good the prototypes of labelled rows are, in numbers.

        May be given: `subclasses` and `candidate_subclasses`, finer groups than labels; `perturb`, a small change of X.
        """
        check_is_fitted(self)
        return database_quality(self.database_, X, self.database_.classes.encode(y).numpy(), **more)

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
        require_rows(X)
        return self.inputs_.source(X)

    def _encode(self, X: Any) -> Encoded:
        check_is_fitted(self)
        return encode(self.model_, self.inputs_.tensor(self._source(X)))

    def _exhibits(self, X: Any) -> list[Any]:
        return [self.inputs_.exhibit(row) for row in self._source(X)]

    def _decide(self, X: Any) -> Decisions:
        queries = self._encode(X).queries
        return self.database_.decide(queries)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "database_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # a missing value, handled
        tags.non_deterministic = self.random_state is None
        return tags


def _needs_calibration(name: str) -> UserError:
    return UserError(f"{name} needs calibration first; call calibrate(X_cal, y_cal) with unseen samples.")
