"""Undersampled classes take turns in training; what is learned of the rows is learned as they are drawn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from protoattend.core.model import ProtoAttend
from protoattend.data.labels import Classes
from protoattend.errors import UserError
from protoattend.training import prepared as ready
from protoattend.training.batches import Batch, Labelled
from protoattend.training.evaluation import refresh_batch_norm
from protoattend.training.loop import train
from protoattend.training.losses import plain_terms

from ..plans import plan
from .weighted import WIDTH, generator, make_model


def test_the_rows_of_an_epoch() -> None:
    labels = torch.tensor([0] * 40 + [1] * 10)
    plain = Labelled(labels, labels)
    assert plain.rows_of_an_epoch == 50
    assert torch.equal(plain.shuffled(generator(3)), torch.randperm(50, generator=generator(3)))
    under = Labelled(labels, labels, None, torch.where(labels == 0, 0.25, 1.0).double())
    assert under.rows_of_an_epoch == 20
    source = generator()
    epochs = [under.shuffled(source) for _ in range(30)]
    for rows in epochs:
        assert torch.bincount(labels[rows]).tolist() == [10, 10]
        assert len(rows.unique()) == 20
        assert rows.tolist() != sorted(rows.tolist())
    assert len(torch.cat(epochs).unique()) == 50, "every row gets its turn"


def test_training_draws_undersampled_batches() -> None:
    labels = torch.tensor([0] * 40 + [1] * 10)
    data = Labelled(torch.randn(50, WIDTH, generator=generator()), labels, None, torch.where(labels == 0, 0.25, 1.0))
    seen: list[Tensor] = []

    def terms(model: ProtoAttend, batch: Batch, progress: float) -> dict[str, Tensor]:
        seen.append(batch.rows)
        return plain_terms(plan())(model, batch, progress)

    history = train(
        make_model().float(),
        data,
        plan(batch_size=10, max_epochs=8),
        loss_terms=terms,
        evaluate=None,
        seed=0,
    )
    assert (len(history), len(seen)) == (8, 16), "two batches an epoch"
    for first, second in zip(seen[::2], seen[1::2], strict=True):
        assert torch.bincount(labels[torch.cat([first, second])]).tolist() == [10, 10]
    assert len(torch.cat(seen).unique()) > 40


def test_batch_norm_is_refreshed_on_what_is_drawn() -> None:
    """Of 400 zeros and 100 ones, with a quarter of the zeros kept, half of what is drawn are ones."""
    labels = torch.tensor([0] * 400 + [1] * 100)
    samples = labels[:, None].float().expand(-1, WIDTH)
    model = ProtoAttend(nn.BatchNorm1d(WIDTH), 2, in_features=WIDTH)
    means = []
    for shares in (None, torch.where(labels == 0, 0.25, 1.0)):
        refresh_batch_norm(model, Labelled(samples, labels, None, shares), 25)
        means.append(float(model.encoder.running_mean[0]))
    assert means == pytest.approx([0.2, 0.5])
    assert model.encoder.momentum == 0.1


def test_balanced_class_weights_count_rows_as_they_are_drawn_and_weigh() -> None:
    labels = torch.tensor([0] * 6 + [1] * 2)
    classes, device = Classes(np.array(["a", "b"])), torch.device("cpu")
    for weights, shares, counts in (
        (None, None, [6, 2]),
        (torch.tensor([1.0] * 6 + [2.0] * 2), None, [6, 4]),
        (None, torch.where(labels == 0, 0.5, 1.0), [3, 2]),
        (torch.tensor([4.0] * 6 + [3.0] * 2), torch.where(labels == 0, 0.25, 1.0), [6, 6]),
    ):
        found = ready.class_weights("balanced", Labelled(labels, labels, weights, shares), classes, device)
        expected = sum(counts) / (2 * torch.tensor(counts).float())
        torch.testing.assert_close(found, expected)
    given = ready.class_weights({"b": 5}, Labelled(labels, labels), classes, device)
    assert given is not None
    assert given.tolist() == [1.0, 5.0]
    with pytest.raises(UserError, match="class_weight must give some class a weight above 0"):
        ready.class_weights({"a": 0, "b": 0}, Labelled(labels, labels), classes, device)
