"""Texts as n-grams: which there are, which are known, how they are numbered and kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from protoattend import ProtoAttendClassifier
from protoattend.data.inputs import inputs_from_state
from protoattend.data.ngrams import LEAST_LENGTH, LONGEST, NgramInputs, ngrams

TEXTS = ["the red house", "the blue house", "a red car?"]


def test_words_beginnings_and_pairs() -> None:
    assert ngrams("Houses, houses") == ["houses", "house*", "houses ,", ",", ", houses"]
    assert ngrams("") == ngrams(" \n\t") == []


def test_scripts_without_spaces_are_read_by_the_character() -> None:
    assert ngrams("東京") == ["東", "東 京", "京"]
    assert ngrams("Straße Ωmega") == ["straße", "straß*", "straße ωmega", "ωmega"]


def test_known_are_those_of_two_texts_and_numbers_start_at_one() -> None:
    inputs = NgramInputs.fit(TEXTS)
    assert set(inputs.vocabulary) == {"the", "red", "house"}
    numbers = inputs.tensor(inputs.source(["house of the unknown", "unknown", ""]))
    assert [[inputs.vocabulary[i - 1] for i in row if i] for row in numbers.tolist()] == [["house", "the"], [], []]
    assert numbers.shape == (3, LEAST_LENGTH)


def test_texts_with_nothing_in_common_still_have_a_vocabulary() -> None:
    assert NgramInputs.fit(["one", "two"]).vocabulary == ("one", "two")


def test_texts_without_words_can_be_read() -> None:
    inputs = NgramInputs.fit(["", " "])
    assert inputs.vocabulary == ()
    assert not inputs.tensor(inputs.source(["x"])).any()


def test_long_texts_are_cut() -> None:
    long = " ".join(f"w{i}" for i in range(2000))
    inputs = NgramInputs.fit([long, long])
    assert inputs.length == LONGEST
    assert inputs.tensor(np.array([long], dtype=object)).shape == (1, LONGEST)


def test_state_goes_through_json() -> None:
    inputs = NgramInputs.fit(TEXTS)
    same = inputs_from_state("text", inputs.state())
    assert same == inputs
    assert torch.equal(same.tensor(same.source(TEXTS)), inputs.tensor(inputs.source(TEXTS)))  # type: ignore[arg-type]


def test_a_classifier_of_texts_without_words_can_be_saved(tmp_path: Path) -> None:
    classifier = ProtoAttendClassifier(max_epochs=1, random_state=0, verbose=0).fit([""] * 20, ["a", "b"] * 10)
    classifier.save(tmp_path / "model")
    loaded = ProtoAttendClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(["", "new"]), classifier.predict_proba(["", "new"]))
