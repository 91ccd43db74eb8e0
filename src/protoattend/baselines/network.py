"""A trained network as every method of this room sees it: the layers of inputs and of training rows, as arrays."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from scipy.special import softmax
from torch import Tensor, nn

from protoattend.baselines.plain import PlainClassifier
from protoattend.core.model import ProtoAttend
from protoattend.data.inputs import Inputs, count_rows, require_rows
from protoattend.data.labels import Classes
from protoattend.data.samples import Samples, chunks
from protoattend.encoders.build import rows_at_once
from protoattend.errors import UserError, choose
from protoattend.explain.ranking import shuffle_parameters

INSIDE = 3  # layers within the encoder that are read, spread over its depth
Layers = tuple[np.ndarray, ...]


class Fitted(Protocol):
    """What is read of a fitted classifier: PlainClassifier has it, and ProtoAttendClassifier too."""

    model_: ProtoAttend
    inputs_: Inputs
    classes_: np.ndarray


@dataclass(frozen=True)
class Network:
    """A network whose last layer is linear, with the training rows as its layers represent them.

    Attributes
    ----------
    read : callable (X) -> tuple of ndarray (n, d_l)
        The layers of inputs, first to last; the last are the values, which the decision is linear in.
    weight : ndarray of shape (n_classes, d)
        The linear decision: logits are `values @ weight.T`.
    classes : ndarray of shape (n_classes,)
        The labels.
    layers : tuple of ndarray of shape (N, d_l)
        What `read` gives of the N training rows.
    labels : ndarray of int of shape (N,)
        Their class numbers.

    Notes
    -----
    `Network.of` makes one of a fitted PlainClassifier. As all else is arrays and one function, features that somebody
    else has computed will do as well.

    Examples
    --------
    >>> values = np.array([[2.0, 0.0], [0.0, 2.0]])
    >>> network = Network(lambda X: (np.asarray(X),), np.eye(2), np.array(["a", "b"]), (values,), np.array([0, 1]))
    >>> network.probabilities([[0.0, 0.0]])
    array([[0.5, 0.5]])
    """

    read: Callable[[Any], Layers]
    weight: np.ndarray
    classes: np.ndarray
    layers: Layers
    labels: np.ndarray

    @classmethod
    def of(cls, classifier: Fitted, X: Any, y: Any, *, inside: Sequence[str] | None = None) -> Network:
        """Read the training rows through a fitted classifier.

        Parameters
        ----------
        classifier : PlainClassifier or ProtoAttendClassifier
            Fitted. Of the latter the network is its encoder with the decision on an input's own value (alpha = 0).
        X : inputs, as in fit
            The training rows.
        y : array-like of shape (N,)
            Their labels.
        inside : sequence of str, default=None
            Names of modules in the encoder whose outputs are layers too, as `named_modules` has them. None takes three,
            spread over the depth of its body.

        Returns
        -------
        network : Network
            Its layers are those inside, the encoder's features, and the values.

        Raises
        ------
        UserError
            Where X and y are not of one length, or a label or a module is unknown.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> X, y = load_wine(return_X_y=True)
        >>> network = Network.of(PlainClassifier(max_epochs=1, random_state=0, verbose=0).fit(X, y), X, y)
        >>> [layer.shape[1] for layer in network.layers]
        [256, 256, 256, 64]
        """
        require_rows(X)
        labels = Classes(classifier.classes_).encode(y).numpy()
        if len(labels) != count_rows(X):
            raise UserError(
                f"X and y must be of one length, but X has {count_rows(X)} rows and y has {len(labels)}; "
                "pass the rows that the classifier was fitted on, with their labels."
            )
        if inside is None:
            names = inner_layers(classifier.model_.encoder, _samples(classifier, X)[:2])
        else:
            names = _known(classifier.model_.encoder, inside)
        read = partial(_read, classifier, names=names)
        weight = classifier.model_.decision.weight.detach().cpu().double().numpy()
        return cls(read, weight, classifier.classes_, read(X), labels)

    @property
    def values(self) -> np.ndarray:
        """The values of the training rows `(N, d)`."""
        return self.layers[-1]

    def logits(self, X: Any) -> np.ndarray:
        """Return what the linear decision makes of each row.

        Parameters
        ----------
        X : inputs, as `read` takes them

        Returns
        -------
        ndarray of shape (n, n_classes)
        """
        return self.read(X)[-1] @ self.weight.T

    def probabilities(self, X: Any) -> np.ndarray:
        """Return the class probabilities of each row.

        Parameters
        ----------
        X : inputs, as `read` takes them

        Returns
        -------
        ndarray of shape (n, n_classes)
        """
        return softmax(self.logits(X), axis=1)

    def predict(self, X: Any) -> np.ndarray:
        """Return the label of each row.

        Parameters
        ----------
        X : inputs, as `read` takes them

        Returns
        -------
        ndarray of shape (n,)
        """
        return self.classes[self.logits(X).argmax(1)]


def shuffled(classifier: PlainClassifier, seed: int = 0) -> PlainClassifier:
    """Return the same classifier with nothing learned: every parameter's numbers are in random order."""
    changed = copy.deepcopy(classifier)
    shuffle_parameters(changed.model_, seed)
    return changed


def inner_layers(encoder: nn.Module, probe: Tensor) -> tuple[str, ...]:
    """Return the names of at most three modules, spread over the depth of the encoder's body, the last included.

    Chains are followed, and what stands in them with parameters counts: a stage, a block, or a single layer. Reading a
    few samples shows which of them give one row for each.
    """
    steps = [name for name, module in _steps("body", encoder.get_submodule("body")) if list(module.parameters())]
    with torch.no_grad(), _hooked(encoder, steps) as calls:
        encoder(probe.to(next(encoder.parameters()).device))
    usable = [name for name in steps if all(len(output) == len(probe) for output in calls.get(name, [()]))]
    count = min(INSIDE, len(usable))
    return tuple(usable[-(-(i + 1) * len(usable) // count) - 1] for i in range(count))


def _steps(name: str, module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    for own, child in module.named_children():
        if isinstance(child, nn.Sequential):
            yield from _steps(f"{name}.{own}", child)
        else:
            yield f"{name}.{own}", child


def _known(encoder: nn.Module, names: Sequence[str]) -> tuple[str, ...]:
    modules = dict(encoder.named_modules())
    for name in names:
        choose(name, list(modules)[1:], "a name in inside")
    return tuple(names)


def _samples(classifier: Fitted, X: Any) -> Samples:
    require_rows(X)
    return classifier.inputs_.tensor(classifier.inputs_.source(X))


def _read(classifier: Fitted, X: Any, names: tuple[str, ...]) -> Layers:
    return read_layers(classifier.model_, _samples(classifier, X), names)


def read_layers(model: ProtoAttend, samples: Samples, names: Sequence[str] = ()) -> Layers:
    """Return the outputs of the named modules, the encoder's features and the values, each `(n, d)`, no gradient.

    Values are in double precision, for what is computed of them is small. Of a module that is called several times for
    one input (for each version in test-time augmentation) it is the mean.
    """
    device = next(model.parameters()).device
    parts: list[list[Tensor]] = []
    with torch.no_grad(), _hooked(model.encoder, names) as calls:
        for x in chunks(samples, rows_at_once(model.encoder, device)):
            features = model.encoder(x.to(device)).flatten(1)
            inner = [torch.stack(calls.pop(name)).mean(0) for name in names]
            values = model.value(features.to(model.decision.weight.dtype)).double()
            parts.append([part.cpu() for part in (*inner, features, values)])
    return tuple(torch.cat(layer).numpy() for layer in zip(*parts, strict=True))


@contextmanager
def _hooked(encoder: nn.Module, names: Sequence[str]) -> Iterator[dict[str, list[Tensor]]]:
    """Yield what the named modules give, call by call, as it comes."""
    calls: dict[str, list[Tensor]] = {}
    modules = dict(encoder.named_modules())

    def keep(name: str, _module: nn.Module, _inputs: Any, output: Any) -> None:
        if isinstance(output, Tensor):  # a recurrent module gives its state too
            calls.setdefault(name, []).append(output.flatten(1))

    hooks = [modules[name].register_forward_hook(partial(keep, name)) for name in names]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()
