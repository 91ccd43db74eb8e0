"""Test-time augmentation: the views of an image, averaged over at inference alone, and saved along."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from protoattend import ProtoAttendClassifier, Recipe, TestTimeAugmentation, frozen
from protoattend.baselines.plain import PlainClassifier
from protoattend.data.augment import Augmentation
from protoattend.database.encode import fingerprint
from protoattend.encoders.build import build_encoder
from protoattend.errors import UserError

FORM = {"channels": 1, "height": 8, "width": 8}
ALL = TestTimeAugmentation(mirror=True, shift=1)


def digits(rows: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return X[:rows].reshape(-1, 8, 8).astype("float32"), y[:rows]


def test_views_are_the_image_mirrored_and_shifted_with_its_border_repeated() -> None:
    image = torch.arange(9, dtype=torch.uint8).reshape(1, 1, 3, 3)
    views = [view[0, 0].tolist() for view in ALL.of(image)]
    assert views == [
        [[0, 1, 2], [3, 4, 5], [6, 7, 8]],
        [[2, 1, 0], [5, 4, 3], [8, 7, 6]],
        [[4, 5, 5], [7, 8, 8], [7, 8, 8]],
        [[5, 5, 4], [8, 8, 7], [8, 8, 7]],
        [[0, 0, 1], [0, 0, 1], [3, 3, 4]],
        [[1, 0, 0], [1, 0, 0], [4, 3, 3]],
    ]
    assert len(views) == len(ALL)


def test_an_image_and_its_mirror_image_are_encoded_alike_after_training_only() -> None:
    torch.manual_seed(0)
    encoder = build_encoder("fast-cnn", "images", FORM)
    encoder.test_time_augmentation = TestTimeAugmentation(mirror=True)
    x = torch.randn(4, 1, 8, 8)
    with torch.no_grad():
        assert not torch.allclose(encoder.train()(x), encoder(x.flip(-1)), atol=1e-3)
        torch.testing.assert_close(encoder.eval()(x), encoder(x.flip(-1)))


def test_the_encoder_gives_the_norm_of_the_mean_of_what_its_views_give() -> None:
    torch.manual_seed(0)
    encoder = build_encoder("fast-cnn", "images", FORM).eval()
    encoder.test_time_augmentation = ALL
    x = torch.randn(3, 1, 8, 8)
    with torch.no_grad():
        features = [encoder.body(encoder.front(view)) for view in ALL.of(x)]
        torch.testing.assert_close(encoder(x), encoder.norm(torch.stack(features).mean(0)))


@pytest.mark.parametrize("kind", [ProtoAttendClassifier, PlainClassifier])
def test_a_classifier_with_mirrored_views_decides_alike_on_mirrored_images(kind: type) -> None:
    X, y = digits(200)
    mirror = TestTimeAugmentation(mirror=True)
    clf = kind(
        recipe=Recipe(test_time_augmentation=mirror),
        augment=Augmentation(horizontal=True),
        max_epochs=2,
        random_state=0,
        verbose=0,
    ).fit(X, y)
    np.testing.assert_allclose(clf.predict_proba(X[:20]), clf.predict_proba(X[:20, :, ::-1]), atol=1e-5)


@pytest.mark.parametrize("kind", [ProtoAttendClassifier, PlainClassifier])
def test_validations_read_images_as_they_are(kind: type) -> None:
    X, y = digits(120)
    with_and_without = [
        kind(recipe=Recipe(test_time_augmentation=changes), max_epochs=2, random_state=0, verbose=0).fit(X, y)
        for changes in (ALL, None)
    ]
    one, other = ([each.metrics for each in clf.history_.records] for clf in with_and_without)
    assert [m.self_accuracy for m in one] == [m.self_accuracy for m in other]
    decided = [clf.predict_proba(X) for clf in with_and_without]
    assert not np.allclose(*decided), "later images are read in all versions"


def test_views_are_saved_and_another_choice_of_them_is_another_model(tmp_path) -> None:
    X, y = digits(120)
    clf = ProtoAttendClassifier(recipe=Recipe(test_time_augmentation=ALL), max_epochs=1, random_state=0, verbose=0).fit(
        X, y
    )
    clf.save(tmp_path / "clf")
    again = ProtoAttendClassifier.load(tmp_path / "clf")
    assert again.recipe.test_time_augmentation == ALL
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
    before = fingerprint(clf.model_)
    clf.model_.encoder.test_time_augmentation = TestTimeAugmentation()
    assert fingerprint(clf.model_) != before


@pytest.mark.parametrize("given", [True, "mirror", {"mirror": True}])
def test_anything_else_than_views_is_refused(given: object) -> None:
    X, y = digits(60)
    with pytest.raises(UserError, match=r"test_time_augmentation must be 'auto' or None or TestTimeAugmentation"):
        ProtoAttendClassifier(recipe=Recipe(test_time_augmentation=given), verbose=0).fit(X, y)


def test_views_are_refused_where_they_mean_nothing() -> None:
    X, y = digits(60)
    with pytest.raises(UserError, match="test_time_augmentation is for images, but X is table"):
        ProtoAttendClassifier(recipe=Recipe(test_time_augmentation=ALL), verbose=0).fit(X.reshape(60, -1), y)
    with pytest.raises(UserError, match="a frozen one reads each image once"):
        ProtoAttendClassifier(
            encoder=frozen(torch.nn.Flatten()), recipe=Recipe(test_time_augmentation=ALL), verbose=0
        ).fit(X, y)
    with pytest.raises(UserError, match="shift must be 0 or more whole pixels"):
        TestTimeAugmentation(shift=-1)
