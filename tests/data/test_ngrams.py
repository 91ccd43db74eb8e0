"""Texts as n-grams: which there are, which are known, how they are numbered and kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from protoattend import ProtoAttendClassifier
from protoattend.data.inputs import inputs_from_state
from protoattend.data.ngrams import LEAST_LENGTH, LONGEST, NgramInputs, ngrams, ngrams_with_beginnings

TEXTS = ["the red house", "the blue house", "a red car?"]


def test_words_pairs_and_subwords() -> None:
    parts = ["<ho*", "hou*", "ous*", "use*", "ses*", "es>*"]
    assert ngrams("Houses, houses") == ["houses", "houses ,", ",", ", houses", *parts]
    assert ngrams("it") == ["it", "<it*", "it>*"]
    assert ngrams("") == ngrams(" \n\t") == []


def test_subwords_come_last_and_are_counted() -> None:
    inputs = NgramInputs.fit(["2 * x is red", "redder * x", "2 * 3"])
    whole, parts = inputs.vocabulary[: -inputs.n_subwords], inputs.vocabulary[-inputs.n_subwords :]
    assert set(whole) == {"2", "*", "x", "2 *", "* x"}
    assert set(parts) == {"<re*", "red*"}
    assert NgramInputs.fit(["a b", "a b"]).n_subwords == 0


def test_of_a_text_that_is_cut_words_stay() -> None:
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
    inputs = NgramInputs.fit([" ".join(words)] * 2)
    short = replace(inputs, length=15)
    numbers = short.tensor(short.source([" ".join(words)]))
    assert [inputs.vocabulary[i - 1] for i in numbers[0].tolist()][::2] == words, "pairs are between them"


def test_what_was_saved_before_there_were_trigrams_reads_as_it_did() -> None:
    state = {"vocabulary": ["houses", "house*", "hou*"], "length": 8}
    inputs = NgramInputs.from_state(state)
    assert inputs.tensor(inputs.source(["Houses"]))[0].tolist() == [1, 2, 0, 0, 0, 0, 0, 0]
    assert ngrams_with_beginnings("Houses, houses") == ["houses", "house*", "houses ,", ",", ", houses"]
    assert inputs.form()["n_subwords"] == 0
    assert NgramInputs.from_state(inputs.state()) == inputs


def test_scripts_without_spaces_are_read_by_the_character() -> None:
    assert ngrams("東京") == ["東", "東 京", "京"]
    assert ngrams("Straße Ωm")[:3] == ["straße", "straße ωm", "ωm"]


def test_known_are_those_of_two_texts_and_numbers_start_at_one() -> None:
    inputs = NgramInputs.fit(TEXTS)
    assert set(inputs.vocabulary[: -inputs.n_subwords]) == {"the", "red", "house"}
    numbers = inputs.tensor(inputs.source(["the unknown red", "unknown", ""]))
    known = [["the", "red", "<th*", "the*", "he>*", "<re*", "red*", "ed>*"], [], []]
    assert [[inputs.vocabulary[i - 1] for i in row if i] for row in numbers.tolist()] == known
    assert numbers.shape[1] >= LEAST_LENGTH


def test_texts_with_nothing_in_common_still_have_a_vocabulary() -> None:
    assert NgramInputs.fit(["one", "two"]).vocabulary[:2] == ("one", "two")


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
