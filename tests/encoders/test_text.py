from __future__ import annotations

import random
import string
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from protoattend.data.characters import ALPHABET, encode_text
from protoattend.encoders.text import VDCNN, CharCNN, NgramBag, k_max_pool
from protoattend.errors import UserError


def n_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def codes(n: int, length: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 70, (n, length), generator=generator, dtype=torch.uint8)


def naive_codes(text: str, length: int) -> list[int]:
    found = []
    for character in text[:length]:
        character = " " if character in "\t\n\r\v\f" else character.lower()
        found.append(ALPHABET.index(character) + 1 if character in ALPHABET else 0)
    return found + [0] * (length - len(found))


def test_alphabet_is_printable_ascii_without_capitals() -> None:
    assert len(ALPHABET) == len(set(ALPHABET)) == 69 == 26 + 10 + 32 + 1
    printable = {chr(point) for point in range(32, 127)}
    assert set(ALPHABET) == printable - set(string.ascii_uppercase)


@settings(max_examples=100, deadline=None)
@given(
    texts=st.lists(st.text(st.characters(max_codepoint=127, exclude_characters="\x1c\x1d\x1e\x1f")), max_size=6),
    length=st.integers(1, 20),
)
def test_encode_text_equals_a_loop_over_ascii_characters(texts: list[str], length: int) -> None:
    expected = torch.tensor([naive_codes(text, length) for text in texts], dtype=torch.uint8)
    found = encode_text(texts, length=length)
    assert found.dtype == torch.uint8
    assert torch.equal(found, expected.view(len(texts), length))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(st.characters(categories=None)), max_size=6))
def test_encode_text_takes_any_unicode_and_keeps_one_place_per_character(texts: list[str]) -> None:
    found = encode_text(texts, length=9)
    assert found.shape == (len(texts), 9)
    assert int(found.max()) <= 69 if len(texts) else True
    for row, text in zip(found, texts, strict=True):
        assert torch.equal(row, encode_text([text], length=9)[0])  # texts do not touch each other
        for place, character in enumerate(text[:9]):
            assert row[place] == encode_text([character], length=1)[0, 0]


def test_accents_fold_to_their_letter_and_the_rest_is_unknown() -> None:
    assert torch.equal(encode_text(["Čafé ÑÜ"], length=7), encode_text(["cafe nu"], length=7))
    assert encode_text(["a漢😀b"], length=5).tolist() == [[1, 0, 0, 2, 0]]
    assert torch.equal(encode_text(["a\n\tb"], length=4), encode_text(["a  b"], length=4))


def test_encode_text_of_nothing() -> None:
    assert encode_text([], length=5).shape == (0, 5)
    assert encode_text([""], length=5).tolist() == [[0] * 5]
    assert encode_text(["x"]).shape == (1, 448)


def test_encode_text_refuses_what_is_not_text() -> None:
    with pytest.raises(UserError, match=r"pass \[text\]"):
        encode_text("one text")
    with pytest.raises(UserError, match=r"texts\[1\] is float"):
        encode_text(["a", float("nan")])  # type: ignore[list-item]
    with pytest.raises(UserError, match=r"texts\[0\] is bytes"):
        encode_text([b"a"])  # type: ignore[list-item]
    with pytest.raises(UserError, match="length must be at least 1, but got 0"):
        encode_text(["a"], length=0)


def test_vdcnn_has_the_parameters_of_the_appendix() -> None:
    embedding = 70 * 16  # 69 characters and the padding
    filters = [16, 64, 64, 64, 128, 128, 256, 256, 512, 512]
    convolutions = sum(3 * i * o + 2 * o for i, o in pairwise(filters))  # with BatchNorm
    head = (512 * 8 * 1024 + 1024 + 2 * 1024) + (1024 * 1024 + 1024 + 2 * 1024)
    encoder = VDCNN()
    assert n_parameters(encoder) == embedding + convolutions + head == 6_830_048
    assert encoder.out_features == 1024
    assert sum(isinstance(m, nn.Conv2d) for m in encoder.modules()) == 9  # the paper's 9-layer VDCNN


def test_vdcnn_lengths_halve_after_each_two_layers() -> None:
    encoder = VDCNN()
    x = encoder.embedding(codes(2, 448).int()).transpose(1, 2).unsqueeze(2)
    shapes = []
    for layer in encoder.body:
        x = layer(x)
        assert x.shape[2] == 1
        shapes.append((x.shape[1], x.shape[3]))
    assert shapes == [
        (64, 224), (64, 224), (64, 224), (64, 112),
        (128, 112), (128, 112), (128, 56),
        (256, 56), (256, 56), (256, 28),
        (512, 28), (512, 28),
    ]  # fmt: skip


def test_char_cnn_has_the_parameters_of_its_layers() -> None:
    # Embeddings, four convolutions of 3, 5, 7 and 9 characters, and one BatchNorm over all their filters.
    expected = 70 * 32 + 32 * 96 * (3 + 5 + 7 + 9) + 2 * 4 * 96
    assert n_parameters(CharCNN()) == expected == 76_736
    assert CharCNN().out_features == 384


def test_char_cnn_equals_one_dimensional_convolutions() -> None:
    torch.manual_seed(0)
    encoder = CharCNN(kernels=(3, 5), width=4).eval()
    x = codes(3, 20)
    sequence = encoder.embedding.weight[x.long()].transpose(1, 2)
    highest = [
        F.conv1d(sequence, conv.weight.squeeze(2), padding=conv.kernel_size[1] // 2).amax(2) for conv in encoder.convs
    ]
    expected = F.relu(torch.cat(highest, 1) / (1 + 1e-5) ** 0.5)  # BatchNorm as built: mean 0, variance 1
    torch.testing.assert_close(encoder(x), expected)


def test_k_max_pool_keeps_the_largest_in_their_order() -> None:
    x = torch.randn(3, 4, 17, generator=torch.Generator().manual_seed(0))
    found = k_max_pool(x, 5)
    for sample in range(3):
        for channel in range(4):
            row = x[sample, channel].tolist()
            largest = sorted(sorted(range(17), key=lambda i: -row[i])[:5])
            assert found[sample, channel].tolist() == [row[i] for i in largest]


@pytest.mark.parametrize(("encoder", "length"), [(VDCNN(length=40), 40), (CharCNN(), 40), (CharCNN(), 1)])
def test_eval_is_deterministic_and_rows_do_not_depend_on_their_batch(encoder: nn.Module, length: int) -> None:
    x = codes(5, length)
    encoder.train()
    with torch.no_grad():
        encoder(x)
    encoder.eval()
    whole = encoder(x)
    assert whole.shape == (5, encoder.out_features)
    assert torch.equal(whole, encoder(x))
    assert torch.equal(whole, encoder(x.long()))
    torch.testing.assert_close(torch.cat([encoder(row[None]) for row in x]), whole, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("encoder", [VDCNN(length=128), CharCNN()])
def test_every_parameter_gets_a_gradient_and_padding_none(encoder: nn.Module) -> None:
    features = encoder.train()(codes(8, 128))
    weights = torch.randn(features.shape, generator=torch.Generator().manual_seed(1))
    (features * weights).sum().backward()
    for name, parameter in encoder.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name
    assert encoder.embedding.weight.grad[0].abs().max() == 0
    assert encoder.embedding.weight.grad[1:].abs().amax(1).min() > 0


@pytest.mark.parametrize("length", [1, 15, 16, 17, 33, 112, 113, 449])
def test_vdcnn_takes_any_length_it_was_built_for(length: int) -> None:
    encoder = VDCNN(length=length).eval()
    assert encoder(codes(2, length)).shape == (2, 1024)
    assert encoder.k == min(8, -(-length // 16))
    assert encoder(codes(2, length + 7)).shape == (2, 1024)


def test_wrong_codes_are_refused() -> None:
    with pytest.raises(UserError, match="at least 113 characters here, but they have 112"):
        VDCNN()(codes(1, 112))
    with pytest.raises(UserError, match="encode_text"):
        CharCNN()(torch.zeros(2, 8))
    with pytest.raises(UserError, match=r"\(8,\)"):
        VDCNN()(codes(1, 8)[0])
    with pytest.raises(UserError, match=r"odd widths, but got \(3, 4\)"):
        CharCNN(kernels=(3, 4))
    with pytest.raises(UserError, match="length must be at least 1"):
        VDCNN(length=0)


def test_char_cnn_finds_a_word_wherever_it_stands() -> None:
    draw = random.Random(0)

    def sentence(word: str) -> str:
        around = ["".join(draw.choices(string.ascii_lowercase + " ", k=draw.randint(0, 20))) for _ in "ab"]
        return word.join(around)

    labels = [row % 3 for row in range(600)]
    x = encode_text([sentence(("apple", "train", "cloud")[label]) for label in labels], length=48)
    y = torch.tensor(labels)
    torch.manual_seed(0)
    encoder = CharCNN(width=16)
    model = nn.Sequential(encoder, nn.Linear(encoder.out_features, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(48):
        rows = slice(step % 6 * 64, step % 6 * 64 + 64)
        optimizer.zero_grad()
        F.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
    with torch.no_grad():
        accuracy = (model.eval()(x[384:]).argmax(1) == y[384:]).float().mean()
    assert accuracy > 0.9


def test_a_bag_is_the_sum_of_embeddings_weighed_by_idf() -> None:
    bag = NgramBag(3, width=4).eval()
    samples = torch.tensor([[1, 2, 0], [1, 3, 0], [1, 0, 0]])
    bag.learn_from(samples)
    idf = 1 + np.log([4 / 4, 4 / 2, 4 / 2])
    assert torch.allclose(bag.idf[1:], torch.tensor(idf, dtype=torch.float32))
    weights = torch.tensor([idf[0], idf[2]], dtype=torch.float32)
    expected = (weights / weights.norm()) @ bag.embedding.weight[[1, 3]]
    assert torch.allclose(bag(samples)[1], expected)


def test_a_bag_does_not_depend_on_order_or_padding_and_an_empty_text_is_zero() -> None:
    bag = NgramBag(5).eval()
    numbers = torch.tensor([[1, 4, 2, 0, 0], [2, 1, 4, 0, 0], [0, 0, 0, 0, 0]])
    features = bag(numbers)
    assert torch.allclose(features[0], features[1], atol=1e-6)
    assert torch.allclose(features[0], bag(numbers[:1, :3])[0])
    assert not features[2].any()


def test_in_training_a_bag_leaves_out_some_ngrams() -> None:
    bag = NgramBag(40).train()
    numbers = torch.arange(1, 41)[None].expand(2, -1)
    first, second = bag(numbers)
    assert not torch.allclose(first, second)
