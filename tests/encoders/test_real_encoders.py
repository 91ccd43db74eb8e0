"""Frozen encoders with real weights, where their packages are installed: EfficientNet-Lite0 and MiniLM."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from protoattend import ProtoAttendClassifier
from protoattend.data.inputs import ImageInputs, Reading, fit_inputs
from protoattend.encoders.pretrained import Pretrained
from protoattend.errors import UserError


def load_helpers() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "real_encoders.py"
    spec = importlib.util.spec_from_file_location("real_encoders", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


real = load_helpers()
needs_images = pytest.mark.skipif(real.missing(real.IMAGES), reason=real.install_command(real.IMAGES))
needs_texts = pytest.mark.skipif(real.missing(real.TEXTS), reason=real.install_command(real.TEXTS))
FEW = {"max_epochs": 20, "random_state": 0, "verbose": 0}


@pytest.fixture(scope="module")
def minilm() -> Pretrained:
    return real.minilm()


def test_a_missing_package_is_named_with_its_command() -> None:
    assert real.missing(("json", "no_such_package"))
    assert not real.missing(("json",))
    with pytest.raises(UserError, match=r"pip install -c constraints\.txt --no-deps no-such-package"):
        real.require(("no_such_package",))


@needs_texts
def test_minilm_gives_the_published_similarities(minilm: Pretrained) -> None:
    """Those its makers show for these four sentences: 0.695, 0.943 and 0.257 with the first."""
    texts = ["That is a happy person", "That is a happy dog", "That is a very happy person", "Today is a sunny day"]
    inputs = fit_inputs(texts, Reading(tokenizer=minilm.tokenizer))
    front = minilm.encoder("text", inputs.form(), 384).front
    features = torch.nn.functional.normalize(front(inputs.tensor(inputs.source(texts))))
    np.testing.assert_allclose((features[1:] @ features[0]).numpy(), [0.695, 0.943, 0.257], atol=1e-3)


@needs_texts
def test_texts_by_their_meaning(minilm: Pretrained) -> None:
    """Words never seen in fit are told apart, which characters alone cannot do."""
    animals = ["a dog", "a cat", "two horses", "the cow", "some sheep", "a goat", "wild pigs", "an old donkey"]
    machines = ["a lorry", "the tractor", "an engine", "two pumps", "a crane", "some drills", "a loom", "the lathe"]
    rng = np.random.default_rng(0)
    X = [f"{rng.choice(kind)} and {rng.choice(kind)}" for kind in (animals, machines) for _ in range(24)]
    classifier = ProtoAttendClassifier(minilm, **FEW).fit(X, ["animal"] * 24 + ["machine"] * 24)
    assert list(classifier.predict(["a lion and a tiger", "a helicopter and a bus"])) == ["animal", "machine"]


@needs_images
def test_efficientnet_knows_shapes_in_few_images() -> None:
    """Discs, squares and crosses of any colour and place, sixteen of each."""
    X, y = shapes(16, seed=0)
    encoder = real.efficientnet_lite0(size=96)
    inputs = ImageInputs.fit(X)
    assert encoder.count_features("images", inputs.form(), inputs.tensor(inputs.source(X))) == 1280
    classifier = ProtoAttendClassifier(encoder, **FEW).fit(X, y)
    new_X, new_y = shapes(6, seed=1)
    assert classifier.score(new_X, new_y) > 0.8


def shapes(count: int, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:48, :48]
    X, y = [], []
    for kind in ("disc", "square", "cross") * count:
        middle, size = rng.integers(16, 32, 2), rng.integers(8, 15)
        a, b = np.abs(rows - middle[0]), np.abs(columns - middle[1])
        inside = {"disc": a**2 + b**2 < size**2, "square": np.maximum(a, b) < size, "cross": np.minimum(a, b) < 3}[kind]
        inside &= np.maximum(a, b) < size
        X.append(np.where(inside[..., None], rng.integers(130, 256, 3), rng.integers(0, 90, 3)).astype(np.uint8))
        y.append(kind)
    return np.stack(X), np.array(y)
