"""Numbers, labels and texts as a person reads them."""

from __future__ import annotations

import re
from typing import Any

INPUT_LENGTH, PROTOTYPE_LENGTH = 600, 300  # characters of a text that are shown
WORD = re.compile(r"[^\W\d_]{4,}")
RULE = re.compile(r"([^\w\s])\1{3,}")  # a row of dashes or the like
UNSAFE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")  # neither HTML nor fonts have these


def percent(share: float) -> str:
    """Return a share as percent, with a decimal where rounding would make it nothing or everything.

    >>> percent(0.5), percent(0.996), percent(0.0123), percent(0.0001)
    ('50 %', '99.6 %', '1.2 %', '< 0.1 %')
    """
    if 0 < share < 0.001:
        return "< 0.1 %"
    if share >= 0.9995 or share <= 0:
        return "100 %" if share > 0 else "0 %"
    return f"{100 * share:.1f} %" if share < 0.0995 or share >= 0.99 else f"{100 * share:.0f} %"


def precise(share: float) -> str:
    """Return a share as percent with one decimal, as measured shares are compared.

    >>> precise(0.978), precise(1.0)
    ('97.8 %', '100.0 %')
    """
    return f"{100 * share:.1f} %"


def goal(share: float) -> str:
    """Return a share that somebody asked for as percent, with no more decimals than were asked for.

    >>> goal(0.99), goal(0.995)
    ('99 %', '99.5 %')
    """
    return f"{100 * share:.6g} %"


def glued(text: str) -> str:
    """Return the text with percent and equals signs held to their numbers, so that no line breaks between them."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%").replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")


def counted(number: int, thing: str, things: str = "") -> str:
    """Return a number with its noun.

    >>> counted(1, "row"), counted(1200, "row"), counted(2, "class", "classes")
    ('1 row', '1,200 rows', '2 classes')
    """
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def plain(value: Any) -> str:
    """Return any label or text as a str without the characters that no page and no font can show."""
    return UNSAFE.sub("\N{REPLACEMENT CHARACTER}", str(value))


def excerpt(text: str, length: int) -> str:
    """Return the text on one line, without long rules, cut after a word at about `length` characters.

    >>> excerpt("A title\\n=======\\nand text", 40)
    'A title === and text'
    """
    line = RULE.sub(r"\1\1\1", " ".join(plain(text).split()))
    if len(line) <= length:
        return line or "(empty text)"
    cut = line[:length]
    return (cut.rsplit(" ", 1)[0] if " " in cut[length // 2 :] else cut) + " …"


def words(text: str) -> set[str]:
    """Return the words of a text worth comparing: four letters or more, without case, no function words."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return {word.casefold() for word in WORD.findall(text)} - ENGLISH_STOP_WORDS


def highlight(text: str, shared: set[str]) -> list[tuple[str, bool]]:
    """Return the text in pieces, each with whether it is a shared word.

    >>> highlight("Good wine.", {"wine"})
    [('Good ', False), ('wine', True), ('.', False)]
    """
    pieces, end = [], 0
    for match in WORD.finditer(text):
        if match.group().casefold() in shared:
            pieces += [(text[end : match.start()], False), (match.group(), True)]
            end = match.end()
    return [(piece, mark) for piece, mark in [*pieces, (text[end:], False)] if piece]
