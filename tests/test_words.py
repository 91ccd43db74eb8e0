"""The field's own terms, so that people find what they search for: these words stand for none of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WORDS = {
    "strange": "out-of-distribution",
    "usual": "typical, default, in-distribution",
    "doubt": "uncertain, low confidence",
    "doubtful": "uncertain",
    "anew": "again",
    "sure": "confident",
    "surer": "more confident",
    "surest": "most confident",
    "views": "test-time augmentation",
    "refocus": "n_prototypes, temperature",
    "exhibit": "figure, example",
    "story": "report, explanation",
    "keeper": "checkpointer",
    "companions": "partners of a blend",
    "surprise": "nonconformity, evidence",
}
# Names that files written before still have: they must be read as they are.
ALLOWED = {
    "src/protoattend/database/encode.py": {"views"},  # in the fingerprint of the first saved models
    "src/protoattend/old_formats.py": {"views"},  # a parameter in folders of versions 1 and 2
    "src/protoattend/monitoring/drift.py": {"usual"},  # arrays in version 1 of a saved drift monitor
    "benchmarks/one_story.py": {"story"},  # its own name
    "benchmarks/results_page.py": {"story"},
    "benchmarks/results_readings.py": {"story"},
    "benchmarks/readings.py": {"story"},
    "benchmarks/tables.py": {"story"},
    "benchmarks/conformal.py": {"story"},
    "benchmarks/condense.py": {"story"},
    "benchmarks/defaults.py": {"story"},
}
FILES = sorted(
    [
        *(path for path in (ROOT / "src").rglob("*") if path.suffix in (".py", ".html")),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "benchmarks").glob("*.py"),
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    ]
)


def found_in(text: str) -> set[str]:
    """Return which of the words there are; an underscore ends a word, so that names of variables count too."""
    return {word for word in re.findall(r"[a-z]+", text.lower()) if word in WORDS}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_the_words_are_the_fields(path: Path) -> None:
    found = found_in(path.read_text()) - ALLOWED.get(name_of(path), set())
    assert not found, f"{name_of(path)}: write instead { ({word: WORDS[word] for word in sorted(found)}) }"


def test_what_is_allowed_is_still_needed() -> None:
    for name, words in ALLOWED.items():
        assert words <= found_in((ROOT / name).read_text()), name


def test_a_word_is_found_in_text_and_in_names() -> None:
    assert found_in("We are Sure. accuracy_of_surest = 1; measure, unusual") == {"sure", "surest"}
