"""Frozen and fine-tuned modules in ProtoAttendClassifier and PlainClassifier, from fit to load."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import Tensor, nn

from protoattend import ImagePreparation, ProtoAttendClassifier, Recipe, fine_tuned, frozen
from protoattend.baselines.plain import PlainClassifier
from protoattend.database.encode import encode
from protoattend.encoders.pretrained import Pretrained
from protoattend.errors import BadFile, UserError
from protoattend.training.progress import counting_bar

FEW = {"max_epochs": 12, "recipe": Recipe(mixup=0.3), "random_state": 0, "verbose": 0}
BRIEF = FEW | {"max_epochs": 1}


class Net(nn.Module):
    """Stands for a pre-trained image net; counts the rows it has seen, over all its copies."""

    seen: list[int] = []  # noqa: RUF012 shared on purpose
    modes: set[bool] = set()  # noqa: RUF012

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.layers = nn.Sequential(
                nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten()
            )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.seen.append(len(x))
        self.modes.add(self.training)
        return self.layers(x), x.flatten(1)


class TextNet(nn.Module):
    """Stands for a pre-trained text model: tokens to one vector each, in a Hugging Face output."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.embedding = nn.Embedding(128, 48)
            self.mix = nn.Conv1d(48, 48, 3, padding=1)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        embedded = (self.embedding(input_ids) * attention_mask[:, :, None]).transpose(1, 2)
        return {"last_hidden_state": torch.relu(self.mix(embedded)).transpose(1, 2)}


def tokenize(texts: list[str]) -> dict[str, Any]:
    longest = max(map(len, texts))
    ids = np.array([[ord(c) % 128 for c in text.ljust(longest, "\0")] for text in texts])
    return {"input_ids": ids, "attention_mask": (ids > 0).astype(int)}


@pytest.fixture(scope="module")
def digits(few_digits: Any) -> tuple[np.ndarray, np.ndarray]:
    return (few_digits[0] / 16).astype(np.float32), few_digits[1]


@pytest.fixture(scope="module")
def words() -> tuple[list[str], np.ndarray]:
    """Texts of two or three words, whose letters tell the class."""
    rng = np.random.default_rng(0)
    vocabularies = {"sea": ["wave", "weave", "sea", "ease", "wave saw"], "hill": ["hill", "tilt", "lith", "till hilt"]}
    texts = [" ".join(rng.choice(vocabularies[label], 2)) for _ in range(60) for label in vocabularies]
    return texts, np.array([label for _ in range(60) for label in vocabularies])


@pytest.fixture(scope="module")
def frozen_classifier(digits: Any) -> ProtoAttendClassifier:
    return ProtoAttendClassifier(frozen(Net()), **FEW).fit(*digits)


# -- frozen -----------------------------------------------------------------------------------------------------------


def test_fit_is_one_pass_of_the_module_and_never_in_training_mode(digits: Any) -> None:
    X, y = digits
    for classifier in (ProtoAttendClassifier, PlainClassifier):
        Net.seen.clear()
        Net.modes.clear()
        classifier(frozen(Net()), **BRIEF | {"max_epochs": 3}).fit(X, y)
        assert sum(Net.seen) == len(X) + 2, "each row once, after two that tell the number of features"
        assert Net.modes == {False}


def test_frozen_learns_and_keeps_its_weights(frozen_classifier: ProtoAttendClassifier, digits: Any) -> None:
    X, y = digits
    assert frozen_classifier.score(X, y) > 0.9
    kept = frozen_classifier.model_.encoder.front[1].module.state_dict()
    assert all(torch.equal(value, kept[name]) for name, value in Net().state_dict().items())


def test_the_model_is_an_ordinary_one_that_encodes_as_its_database(
    frozen_classifier: ProtoAttendClassifier, digits: Any
) -> None:
    X, _ = digits
    model, rows = frozen_classifier.model_, frozen_classifier.database_.rows
    again = encode(model.train(), frozen_classifier.inputs_.tensor(X[:, None]))
    torch.testing.assert_close(again.queries, rows.queries, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(again.values, rows.values, rtol=1e-4, atol=1e-4)
    assert np.array_equal(rows.source[:, 0], X)


def test_everything_else_works_as_ever(frozen_classifier: ProtoAttendClassifier, digits: Any) -> None:
    X, y = digits
    classifier = copy.deepcopy(frozen_classifier)
    assert len(classifier.explain(None)) == len(X)
    assert classifier.explain(X[:3])[0].prototypes[0].preview.shape == (8, 8)
    assert classifier.ood_score(np.random.default_rng(0).random((20, 8, 8))).shape == (20,)
    (index,) = classifier.database_.add(X[:1], y[:1])
    assert index == len(X)
    rows = classifier.database_.rows
    torch.testing.assert_close(rows.values[-1], rows.values[0], rtol=1e-4, atol=1e-4)
    assert classifier.calibrate(X, y).prediction_set(X[:2], coverage=0.9)
    assert clone(classifier).encoder.how == "frozen"


def test_frozen_is_the_paper_setting_on_features_computed_beforehand(digits: Any) -> None:
    """Against encoder="features" on what the module gives: the same start, batches and blends."""
    X, y = digits
    with torch.no_grad():
        features = Net().eval()(torch.from_numpy(X[:, None]))[0].numpy()
    brief = BRIEF | {"recipe": Recipe(mixup=0.3, likeness=0.0)}  # images and features look alike each in its own way
    frozen_one = ProtoAttendClassifier(frozen(Net()), **brief).fit(X, y)
    on_features = ProtoAttendClassifier("features", **brief).fit(features, y)
    np.testing.assert_allclose(frozen_one.predict_proba(X), on_features.predict_proba(features), atol=1e-3)


@pytest.mark.parametrize("candidates", ["sampled", "bank"])
def test_other_candidates(candidates: str, digits: Any) -> None:
    parameters = FEW | {"candidates": candidates, "max_epochs": 20, "learning_rate": 1e-3}
    assert ProtoAttendClassifier(frozen(Net()), **parameters).fit(*digits).score(*digits) > 0.8


def test_features_are_not_augmented(digits: Any) -> None:
    X, y = digits
    auto, none = (ProtoAttendClassifier(frozen(Net()), augment=a, **BRIEF).fit(X, y) for a in ("auto", None))
    np.testing.assert_array_equal(auto.predict_proba(X), none.predict_proba(X))
    Net.seen.clear()
    for classifier in (ProtoAttendClassifier, PlainClassifier):
        with pytest.raises(UserError, match=r"a frozen encoder reads them only once; .*fine_tuned\(module\)"):
            classifier(frozen(Net()), augment=lambda x, generator: x, **BRIEF).fit(X, y)
    assert sum(Net.seen) <= 4, "the error comes before the pass over all rows"


def test_wrong_parameters_are_told_before_the_pass(digits: Any) -> None:
    Net.seen.clear()
    with pytest.raises(UserError, match="learning_rate=-1"):
        ProtoAttendClassifier(frozen(Net()), learning_rate=-1, **BRIEF).fit(*digits)
    assert sum(Net.seen) <= 2


class NaNInTheDark(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.log(x.flatten(1).sum(1, keepdim=True)) + x.flatten(1)


def test_features_that_are_not_finite(digits: Any) -> None:
    X, y = digits
    X = X.copy()
    X[333] = 0
    with pytest.raises(UserError, match="NaN or infinity for row 333 of X"):
        ProtoAttendClassifier(frozen(NaNInTheDark()), **BRIEF).fit(X, y)


def test_progress_of_the_pass(capsys: pytest.CaptureFixture[str]) -> None:
    for verbose, expected in ((0, ""), (2, "7/10")):
        with counting_bar(verbose, 10, "frozen encoder") as on_rows:
            on_rows(7)
        assert expected in capsys.readouterr().err


# -- fine-tuned -------------------------------------------------------------------------------------------------------


def distance(classifier: Any, module: nn.Module) -> float:
    trained = dict(classifier.model_.encoder.body[0].module.named_parameters())
    return max(float((trained[name] - p).detach().abs().max()) for name, p in module.named_parameters())


@pytest.mark.parametrize("classifier", [ProtoAttendClassifier, PlainClassifier])
def test_fine_tuning_trains_at_its_own_rate(classifier: Any, digits: Any) -> None:
    little, more = (classifier(fine_tuned(Net(), learning_rate=rate), **BRIEF).fit(*digits) for rate in (1e-7, 1e-3))
    assert 0 < distance(little, Net()) < 1e-5 < 1e-4 < distance(more, Net())


def test_fine_tuned_learns(digits: Any) -> None:
    classifier = ProtoAttendClassifier(fine_tuned(Net(), learning_rate=1e-3), augment=None, **FEW).fit(*digits)
    assert classifier.score(*digits) > 0.9


def test_the_schedule_multiplies_both_rates(digits: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Half:
        def factor(self, step: int, total: int) -> float:
            return 0.5**step

    rates: list[list[float]] = []

    class Recording(torch.optim.Adam):
        def step(self, closure: Any = None) -> Any:
            rates.append([group["lr"] for group in self.param_groups])
            return super().step(closure)

    monkeypatch.setattr(torch.optim, "Adam", Recording)
    encoder = fine_tuned(Net(), learning_rate=1e-4)
    brief = BRIEF | {"recipe": Recipe(mixup=0.3, schedule=Half(), settle=False)}
    ProtoAttendClassifier(encoder, learning_rate=0.01, **brief).fit(*digits)
    assert len(rates) > 4
    for step, pair in enumerate(rates):
        assert pair == pytest.approx([0.01 * 0.5**step, 1e-4 * 0.5**step])


# -- texts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [frozen, lambda *args, **named: fine_tuned(*args, learning_rate=1e-3, **named)])
def test_texts(wrap: Callable[..., Pretrained], words: Any, tmp_path: Path) -> None:
    X, y = words
    encoder = wrap(TextNet(), tokenizer=tokenize)
    classifier = ProtoAttendClassifier(encoder, **FEW | {"max_epochs": 20}).fit(X, y)
    assert classifier.score(X, y) > 0.9
    assert classifier.explain(X[:1])[0].prototypes[0].preview in X
    together = classifier.predict_proba([*X[:3], "short", X[4] + " and much longer than any other text before"])
    assert together[3] == pytest.approx(classifier.predict_proba(["short"])[0], abs=1e-4)
    assert np.isfinite(classifier.predict_proba([""])).all()
    classifier.save(tmp_path / "model")
    loaded = ProtoAttendClassifier.load(tmp_path / "model", encoder=encoder)
    np.testing.assert_array_equal(loaded.predict_proba(X), classifier.predict_proba(X))
    louder = wrap(TextNet(), tokenizer=lambda texts: tokenize([text.upper() for text in texts]))
    with pytest.raises(UserError, match="other features"):
        ProtoAttendClassifier.load(tmp_path / "model", encoder=louder)
    with pytest.raises(UserError, match="read by a tokenizer in fit"):
        ProtoAttendClassifier.load(tmp_path / "model", encoder=wrap(TextNet()))


def test_ids_without_names(words: Any) -> None:
    X, y = words
    net = nn.Sequential(nn.Embedding(128, 48), nn.Flatten())
    encoder = frozen(net, tokenizer=lambda texts: tokenize([text.ljust(20) for text in texts])["input_ids"])
    assert ProtoAttendClassifier(encoder, **FEW).fit(X, y).score(X, y) > 0.9


def test_texts_need_a_tokenizer(words: Any, digits: Any) -> None:
    with pytest.raises(UserError, match=r"frozen\(TextNet\) has no tokenizer; pass tokenizer="):
        ProtoAttendClassifier(frozen(TextNet()), **BRIEF).fit(*words)
    with pytest.raises(UserError, match="a tokenizer reads texts, but X is images"):
        ProtoAttendClassifier(frozen(Net(), tokenizer=tokenize), **BRIEF).fit(*digits)


def test_tables(wine: Any) -> None:
    X, y = wine
    for encoder in (frozen(nn.Linear(13, 20)), fine_tuned(nn.Linear(13, 20), learning_rate=1e-3)):
        assert ProtoAttendClassifier(encoder, **FEW).fit(X, y).score(X, y) > 0.9


# -- save and load ----------------------------------------------------------------------------------------------------


def test_frozen_weights_are_not_saved_again(
    frozen_classifier: ProtoAttendClassifier, digits: Any, tmp_path: Path
) -> None:
    X, _ = digits
    frozen_classifier.save(tmp_path / "model")
    trained = sum(p.numel() for p in frozen_classifier.model_.parameters() if p.requires_grad)
    own = sum(value.numel() for value in frozen_classifier.model_.likeness.state_dict().values())
    assert (tmp_path / "model" / "model.safetensors").stat().st_size < 4 * (trained + own) + 4096
    encoder = frozen(Net())
    loaded = ProtoAttendClassifier.load(tmp_path / "model", encoder=encoder)
    np.testing.assert_array_equal(loaded.predict_proba(X), frozen_classifier.predict_proba(X))
    assert loaded.get_params() == frozen_classifier.get_params() | {"encoder": encoder}
    loaded.database_.add(X[:1], [0])


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (None, r"of your own \(frozen\(Net\)\).*but encoder=None; pass it as in fit"),
        (Net(), "but encoder=Net"),
        (fine_tuned(Net()), r"but encoder=fine_tuned\(Net\)"),
        (frozen(Net(seed=1)), "its weights differ"),
        (frozen(nn.Flatten()), "its weights differ"),
        (frozen(Net(), images=ImagePreparation(mean=0.5)), "its weights differ"),
        (frozen(Net(), images=ImagePreparation(size=4)), "other features"),
        (frozen(Net(), output=1), "other features"),
        (frozen(Net(), output=lambda given: given[0].flip(1)), "other features"),
    ],
)
def test_another_module_is_told(
    encoder: Any, message: str, frozen_classifier: ProtoAttendClassifier, tmp_path: Path
) -> None:
    frozen_classifier.save(tmp_path / "model")
    with pytest.raises(UserError, match=message):
        ProtoAttendClassifier.load(tmp_path / "model", encoder=encoder)


class Tied(nn.Module):
    """Two layers that share their weights, as language models do."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, width)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.second(torch.relu(self.first(x.flatten(1))))))


def test_fine_tuned_weights_are_saved(digits: Any, tmp_path: Path) -> None:
    X, y = digits
    classifier = ProtoAttendClassifier(fine_tuned(Tied(), learning_rate=1e-3), **BRIEF).fit(X, y)
    classifier.save(tmp_path / "model")
    fresh = fine_tuned(Tied(), learning_rate=1e-3)
    loaded = ProtoAttendClassifier.load(tmp_path / "model", encoder=fresh)
    np.testing.assert_array_equal(loaded.predict_proba(X), classifier.predict_proba(X))
    with pytest.raises(BadFile, match="another model than the module passed"):
        ProtoAttendClassifier.load(tmp_path / "model", encoder=fine_tuned(Tied(32)))
    with pytest.raises(UserError, match=r"but encoder=frozen\(Tied\)"):
        ProtoAttendClassifier.load(tmp_path / "model", encoder=frozen(Tied()))


def test_low_precision_modules(digits: Any) -> None:
    class Low(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(64, 32, dtype=torch.bfloat16)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x.flatten(1).bfloat16())

    classifier = ProtoAttendClassifier(frozen(Low()), **BRIEF).fit(*digits)
    assert classifier.database_.rows.values.dtype == torch.float32
