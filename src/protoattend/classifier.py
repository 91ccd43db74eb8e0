"""ProtoAttendClassifier: a scikit-learn classifier whose every decision is a weighted sum of real training samples."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted
from torch import nn

from protoattend.core.model import Encoded
from protoattend.data.image_roots import as_roots
from protoattend.data.inputs import require_rows, without_labels
from protoattend.data.tables import TableInputs
from protoattend.data_quality.methods import DataQualityMethods
from protoattend.database.attention import Attention
from protoattend.database.encode import encode
from protoattend.database.store import CandidateDatabase
from protoattend.encoders.pretrained import Pretrained
from protoattend.estimator import Estimator
from protoattend.explain.methods import ExplainMethods
from protoattend.io import Saved, load, save
from protoattend.monitoring.methods import MonitoringMethods
from protoattend.training.checkpoint import Checkpoints
from protoattend.training.fit import Data, fit
from protoattend.training.history import History
from protoattend.uncertainty.methods import UncertaintyMethods


class ProtoAttendClassifier(ExplainMethods, UncertaintyMethods, MonitoringMethods, DataQualityMethods, Estimator):
    """Classify images, texts or tables from a few real training samples, and say which ones.

    Parameters
    ----------
    encoder : str, nn.Module, frozen(module) or fine_tuned(module), default="auto"
        What maps a batch of inputs to features. "auto" goes by the kind of X; by name: "fast-cnn", "resnet32" and
        "resnet50" read images, "n-grams", "char-cnn" and "vdcnn" texts, "mlp", "lstm" and "features" tables. Any
        nn.Module will do; `frozen(module)` keeps a pre-trained one as it is, `fine_tuned(module)` trains it at a rate
        of its own.
    normalize : {"sparsemax", "softmax"}, default="sparsemax"
        n() of eq. 1, from scores to weights: few prototypes, or many and a finer confidence.
    objective : str, default="self+prototype+joint"
        A row of the paper's Table 1: "self" (alpha 0), "prototype" (alpha 1), "joint" (alpha 1/2), "self+prototype",
        "annealed" or "self+prototype+joint".
    recipe : "auto", "paper" or Recipe, default="auto"
        How to train: optimizer, schedule, mixup and the like. In a grid search, `recipe__mixup` is one of its fields.
        "paper" trains and decides as the paper does: sampled candidates, labels as targets of all terms, no mixup, and
        one reading of the scores, as they were learned. `paper_settings(name)` adds what each of its data sets has.
    lambda_sparse, lambda_conf : float, default=0.0
        Weights of the sparsity and confidence regularisers.
    candidates : {"in-batch", "sampled", "bank"}, default="in-batch"
        What a training step attends to: the other samples of the batch, fresh ones (the paper), or batch and bank.
        With recipe="paper" the default is "sampled".
    n_candidates : int or None, default=None
        How many candidates "sampled" draws or "bank" holds; None lets it choose.
    n_prototypes : int or None, default=8
        How many prototypes, in the median, make 95 % of a decision by sparsemax at the most: after training the
        temperature of the scores is lowered until it holds; fewer where a class has fewer rows. None leaves it as
        learned: more prototypes; with recipe="paper" that is the default.
    batch_size : int or "auto", default="auto"
        Rows of a step; "auto" is 256, or fewer on small data, so that an epoch has 16 steps (the paper: 128).
    max_epochs : int or "auto", default="auto"
        "auto" goes by the size of the data.
    learning_rate : float or "auto", default="auto"
        Before the schedule; "auto" is 0.0025 (recipe="paper": 0.001).
    d_att, d_out : int, default=16 and 64
        Widths of queries and keys, and of values.
    class_weight : None, "balanced" or dict {label: weight}, default=None
        Of classes in the loss.
    undersample : None or dict {label: share}, default=None
        How much of a frequent class is kept, in batches (another choice each epoch) and in the database (the same rows
        always).
    augment : "auto", None or callable, default="auto"
        What is done to training images, `(images, generator) -> images`; "auto" shifts them and blots out a square.
    categorical_features : list of column names or numbers, default=None
        Columns of numbers that are really codes.
    validation_fraction : float, default=0.1
        Share of the rows held out to choose the best epoch and how scores are read; they are candidates afterwards, and
        learned too where the recipe says `refit`.
    device : str, default="auto"
        "auto" takes CUDA, then MPS, then the CPU.
    n_processes : int, default=1
        How many processes train together, on this machine (torchrun can start them on many).
    n_threads : int or "auto", default="auto"
        Threads of each process in training. "auto" takes one where steps are small, for which several only wait.
    random_state : int, RandomState or None, default=None
        The seed.
    verbose : int, default=1
        0 is silent, 1 says what was chosen and shows progress, 2 leaves it standing.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, in the order of columns of `predict_proba`.
    model_ : ProtoAttend
        The trained model.
    database_ : CandidateDatabase
        The candidates: the training rows, to be searched and edited.
    inputs_ : object
        How X is read.
    history_ : History
        What training saw, epoch by epoch; `history_.plot()` draws it.
    n_features_in_ : int
        Columns of a table.
    feature_names_in_ : ndarray of str
        Their names, where fit was given a DataFrame.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = ProtoAttendClassifier(max_epochs=20, random_state=0, verbose=0).fit(X, y)
    >>> explanation = clf.explain(X[:1])[0]
    >>> explanation.prediction, len(explanation.prototypes) > 0
    (np.int64(0), True)
    """

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        checkpoint_to: str | os.PathLike[str] | Checkpoints | None = None,
        resume_from: str | os.PathLike[str] | None = None,
    ) -> ProtoAttendClassifier:
        """Train on X and y, then make X the database.

        Parameters
        ----------
        X : array-like of shape (n, n_features), DataFrame, list of str, images, ImageFiles or torch Dataset
            Training rows. Images are (n, h, w), (n, c, h, w) or (n, h, w, c); a Dataset gives pairs (x, y).
        y : array-like of shape (n,), default=None
            Labels, of any hashable kind; not needed where X has them (ImageFiles, Dataset).
        sample_weight : array-like of shape (n,), default=None
            How many times each row counts: in the loss, as a candidate and in validation; None is once each. A row of
            sample weight 0 is left out. Sample weight 2 is not quite the row twice: two rows may argue for one
            another, a row never argues for itself.
        checkpoint_to : path or Checkpoints, default=None
            Folder to write checkpoints into.
        resume_from : path, default=None
            Folder of a training that was interrupted. The same call with it goes on, writes further checkpoints there
            and ends with the parameters it would have had.

        Returns
        -------
        self : ProtoAttendClassifier

        Raises
        ------
        UserError
            If a parameter, a row of X or a label cannot be used; the message gives the rule and the fix.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=5, random_state=0, verbose=0).fit(X, y)
        >>> clf.database_
        CandidateDatabase(178 candidates of 3 classes)
        """
        data = Data(X, y, sample_weight, checkpoint_to, resume_from)
        self._keep(*fit(self._settings(), data))
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
        self.reading_: dict[str, Any] | None = None  # how the command line read the training file
        if isinstance(self.inputs_, TableInputs):
            self.n_features_in_ = len(self.inputs_.columns)
            if self.inputs_.named:
                self.feature_names_in_ = np.array(self.inputs_.names, dtype=object)

    def predict(self, X: Any) -> np.ndarray:
        """Return the label decided for each row.

        Parameters
        ----------
        X : array-like, DataFrame, list of str or images
            n rows, of the kind given to `fit`.

        Returns
        -------
        labels : ndarray of shape (n,)
            Labels out of `classes_`.

        Notes
        -----
        The decision is that of eq. 2 at alpha = 1: the linear layer g of the prototypes' weighted values,
        argmax g(sum_j p_ij v_j).

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=5, random_state=0, verbose=0).fit(X, y)
        >>> clf.predict(X[:3])
        array([0, 0, 0])
        """
        predicted = self._decide(X, confidence=False).predicted.numpy()
        return self.classes_[predicted]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the class probabilities of each row: the softmax of its logits.

        Parameters
        ----------
        X : array-like, DataFrame, list of str or images
            n rows, of the kind given to `fit`.

        Returns
        -------
        probabilities : ndarray of shape (n, n_classes)
            Columns are in the order of `classes_`; `calibrated_proba` scales them.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=5, random_state=0, verbose=0).fit(X, y)
        >>> clf.predict_proba(X[:2]).sum(axis=1).round(6)
        array([1., 1.])
        """
        return self._decide(X, confidence=False).probabilities.numpy()

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the logits of each row, of two classes their difference.

        Parameters
        ----------
        X : array-like, DataFrame, list of str or images
            n rows, of the kind given to `fit`.

        Returns
        -------
        logits : ndarray of shape (n, n_classes), or (n,) for two classes
            g(sum_j p_ij v_j), eq. 2 at alpha = 1; of two classes the second less the first.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=5, random_state=0, verbose=0).fit(X, y)
        >>> clf.decision_function(X[:2]).shape
        (2, 3)
        """
        logits = self._decide(X, confidence=False).logits.numpy()
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def save(self, folder: str | os.PathLike[str], *, excerpts: bool = False) -> None:
        """Write model and database into a folder, wholly or not at all.

        Parameters
        ----------
        folder : path
            A new or empty folder, or one of a saved classifier, which is replaced.
        excerpts : bool, default=False
            Whether to leave out the training data: images are then kept as thumbnails and texts as their first 200
            characters, enough to show explanations. A table's rows are kept as they are.

        Raises
        ------
        UserError
            If the folder holds other files.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from sklearn.datasets import load_wine
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
        >>> with TemporaryDirectory() as folder:
        ...     clf.save(folder, excerpts=True)
        """
        check_is_fitted(self)
        fitted = (self.database_, self.history_, self.conformal_, self.recalibration_, self.reading_)
        save(Saved(self._settings(), *fitted), folder, excerpts=excerpts)

    @classmethod
    def load(
        cls, folder: str | os.PathLike[str], *, encoder: nn.Module | Pretrained | None = None, image_roots: Any = ()
    ) -> ProtoAttendClassifier:
        """Read a saved classifier.

        Parameters
        ----------
        folder : path
            Where `save` wrote it.
        encoder : nn.Module, frozen(module) or fine_tuned(module), default=None
            Needed where it was trained with a module of your own, whose code is not saved: the same as in `fit`.
        image_roots : path or list of path, default=()
            Where its training images lie, if it was trained on image files: no others that it points to are read.

        Returns
        -------
        classifier : ProtoAttendClassifier

        Raises
        ------
        UserError
            If `encoder` is needed, or is another module than that of `fit`. If files are truncated or foreign: BadFile.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from sklearn.datasets import load_wine
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=5, random_state=0, verbose=0).fit(X, y)
        >>> with TemporaryDirectory() as folder:
        ...     clf.save(folder)
        ...     ProtoAttendClassifier.load(folder).score(X, y) == clf.score(X, y)
        True
        """
        saved = load(folder, encoder, as_roots(image_roots))
        classifier = cls(**vars(saved.settings))
        classifier._keep(saved.database, saved.history)
        classifier.conformal_, classifier.recalibration_ = saved.conformal, saved.recalibration
        classifier.reading_ = saved.reading
        return classifier

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

    def _decide(self, X: Any, *, confidence: bool = True) -> Attention:
        queries = self._encode(X).queries
        return self.database_.decide(queries, confidence=confidence)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "database_")
