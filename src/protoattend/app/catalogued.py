"""A data set of the catalogue as what `fit` reads, where it is named in place of a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from protoattend.app.talk import Talk
from protoattend.datasets.entries import CATALOGUE
from protoattend.datasets.paper import appendix, paper_settings
from protoattend.errors import UserError
from protoattend.reproduce.data import Rows, load_rows


@dataclass(frozen=True)
class Catalogued:
    """The training split of a data set, by name; labels are class names, those of ISIC the paper's two."""

    name: str

    @classmethod
    def at(cls, path: Path, options: Mapping[str, Any]) -> Catalogued | None:
        """Return the set that a path names where nothing lies there; options on how to read a file are then refused."""
        name = str(path)
        if path.exists() or path.is_symlink() or path.name != name or path.suffix:
            return None
        if name not in CATALOGUE:
            near = get_close_matches(name.lower(), CATALOGUE, n=1, cutoff=0.75)
            if near:
                raise UserError(
                    f"there must be a file or folder to read, but {name} does not exist; did you mean the "
                    f"data set {near[0]!r}?"
                )
            return None
        given = [option for option, value in options.items() if value not in (None, "auto")]
        if given:
            raise UserError(
                f"{name} is a data set of the catalogue, which is read as it was published, but {given[0]} "
                "was passed; leave it out, or pass a file."
            )
        return cls(name)

    def read(self, talk: Talk) -> Rows:
        """Return its rows, and say what was read."""
        rows = load_rows(self.name, "train")
        note = f" ({rows.note})" if rows.note else ""
        talk.say(
            f"Read the training split of {self.name}: {len(rows.y):,} rows of {len(set(rows.y.tolist()))} "
            f"classes{note}."
        )
        return rows

    @property
    def in_appendix(self) -> bool:
        """Whether the paper has settings of its own for it."""
        return self.name in appendix()

    def paper_settings(self, y: Any, normalize: str) -> dict[str, Any]:
        """Return the appendix's settings for it; none where the paper has no such set."""
        return paper_settings(self.name, normalize, y=y) if self.in_appendix else {}
