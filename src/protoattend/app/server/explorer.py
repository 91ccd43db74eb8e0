"""The explorer's API: rows, decision cards, the curve, the map, label errors, edits and images."""

from __future__ import annotations

from secrets import token_hex
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Path, Query
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from protoattend.app.server import listing, own_inputs, pictures
from protoattend.app.server.cards import Cards
from protoattend.app.server.limits import Limits
from protoattend.app.server.problems import Refused
from protoattend.app.server.tables import Table
from protoattend.app.server.workbench import Drafts, Question, Workbench
from protoattend.app.server.worker import Worker
from protoattend.errors import BadFile
from protoattend.viz.png import LARGE, png_bytes, shrink
from protoattend.viz.text import plain

INDEX = 2**53 - 1  # the largest integer that JavaScript has exactly
Index = Annotated[int, Field(ge=0, le=INDEX)]
TableName = Annotated[str, Field(pattern="^(data|candidates)$")]
Share = Annotated[float, Query(ge=0, le=1)]
Offset = Annotated[int, Query(ge=0, le=INDEX)]
Limit = Annotated[int, Query(ge=1, le=200)]
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"description": text, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}}
    for status, text in {
        400: "What is wrong with the input, in one line.",
        401: "A token is needed.",
        403: "Not allowed.",
        404: "There is no such row, candidate or image.",
        408: "It took too long.",
        409: "The database has changed meanwhile.",
        413: "Too large.",
        422: "What is wrong with the request, in one line.",
        429: "Too many rows are waiting.",
    }.items()
}


class Problem(BaseModel):
    """Why a request was not answered."""

    error: str


class DraftsIn(BaseModel):
    """Edits that are not saved: indices left out, and class numbers by index."""

    model_config = ConfigDict(extra="forbid")
    removed: list[Index] = Field(default=[], max_length=10_000)
    relabelled: dict[Index, Annotated[int, Field(ge=0, le=INDEX)]] = Field(default={}, max_length=10_000)

    def drafts(self) -> Drafts:
        gone = frozenset(self.removed)
        kept = {index: number for index, number in self.relabelled.items() if index not in gone}
        return Drafts(gone, tuple(sorted(kept.items())))


class RowIn(BaseModel):
    """A row of a table."""

    model_config = ConfigDict(extra="forbid")
    table: TableName = "data"
    row: Index


class InputIn(BaseModel):
    """One new input: a text, the cells of a form, or an image file in base64."""

    model_config = ConfigDict(extra="forbid")
    text: str | None = Field(default=None, max_length=100_000)
    cells: dict[str, str | float | None] | None = None
    image: str | None = None


class CardIn(BaseModel):
    """What a card is asked about, and the drafts in effect."""

    model_config = ConfigDict(extra="forbid")
    row: RowIn | None = None
    input: InputIn | None = None
    drafts: DraftsIn = DraftsIn()


class SaveIn(BaseModel):
    """Drafts to be saved, and the version of the database that they were made for."""

    model_config = ConfigDict(extra="forbid")
    version: Index
    drafts: DraftsIn


class Explorer:
    """What the routes ask; every method but the routes runs in the worker's thread."""

    def __init__(self, bench: Workbench, *, edit: bool, least: float | None, limits: Limits) -> None:
        self.bench, self.edit, self.least, self.limits = bench, edit, least, limits
        self.cards = Cards(bench.classifier.inputs_.kind, bench.database.classes)
        self._form = own_inputs.form_of(bench.database)
        self._started = token_hex(4)
        self._map: tuple[int, pictures.Map] | None = None

    def model(self, threshold: float) -> dict[str, Any]:
        bench, table = self.bench, self.bench.shown
        return {
            "name": bench.folder.name,
            "kind": self.cards.kind,
            "classes": [plain(value) for value in bench.database.classes.values.tolist()],
            "candidates": len(bench.database),
            "table": "data" if bench.data is not None else "candidates",
            "rows": len(table.rows),
            "labelled": bool((table.rows.labels >= 0).any()),
            "small": self._small(),
            "form": self._form,
            "edit": self.edit,
            "least": self.least,
            "version": bench.version,
            "fingerprint": bench.database.fingerprint,  # by which drafts are known to be of another model
            "started": self._started,  # by which images are known to be of another server at the same address
            "decided": table.done,
            "to_decide": len(table.order),
            "counts": listing.counts(table, threshold),
        }

    def rows(self, wanted: listing.Wanted, name: str, offset: int, limit: int) -> dict[str, Any]:
        table = self.bench.table(name)
        places = listing.found(table, wanted)
        some = places[offset : offset + limit]
        return {
            "total": len(places),
            "decided": table.done,
            "to_decide": len(table.order),
            "counts": listing.counts(table, wanted.threshold),
            "rows": listing.lines(table, some, self.cards, wanted.prototype),
        }

    def card(self, asked: CardIn) -> dict[str, Any]:
        question = self._question(asked)
        card = self.cards.card(self.bench.decide(question, asked.drafts.drafts()))
        candidates = [p["index"] for p in card["prototypes"]]
        return card | {"places": self._map_now().at(self.bench.database, candidates)}

    def _question(self, asked: CardIn) -> Question:
        if (asked.row is None) == (asked.input is None):
            raise Refused(422, "a card is of a row or of an input: send one of the two.")
        if asked.row is not None:
            return self.bench.row(asked.row.table, asked.row.row)
        assert asked.input is not None
        given, inputs = asked.input, self.bench.classifier.inputs_
        if sum(part is not None for part in (given.text, given.cells, given.image)) != 1:
            raise Refused(422, "an input is a text, cells or an image: send one of the three.")
        if given.text is not None:
            return self.bench.input(own_inputs.text_row(inputs, given.text))
        if given.cells is not None:
            return self.bench.input(own_inputs.cell_row(inputs, given.cells))
        assert given.image is not None
        return self.bench.input(own_inputs.image_row(inputs, given.image, self.limits))

    def labels(self, offset: int, limit: int) -> dict[str, Any]:
        """Return candidates whose label is disputed, worst first, without those whose label a person gave."""
        table, edited = self.bench.candidates, self.bench.database.rows.edited.numpy()
        places = listing.found(table, listing.Wanted("disputed", by="dispute"))
        places = places[~edited[places]]
        return {
            "total": len(places),
            "decided": table.done,
            "to_decide": len(table.order),
            "candidates": len(table.rows),
            "confirmed": int(edited.sum()),
            "rows": listing.lines(table, places[offset : offset + limit], self.cards, None),
        }

    def curve(self) -> dict[str, Any]:
        return pictures.curve(self.bench.shown, unseen=self.bench.data is not None)

    def map(self) -> dict[str, Any]:
        return self._map_now().points(self.bench.database)

    def _map_now(self) -> pictures.Map:
        if self._map is None or self._map[0] != self.bench.version:
            self._map = (self.bench.version, pictures.Map.of(self.bench.database))
        return self._map[1]

    def image(self, name: str, number: int) -> bytes:
        table: Table = self.bench.table(name)
        place = table.rows.place(number)
        if self.cards.kind != "images" or place is None:
            raise Refused(404, f"there is no image of row {number}.")
        try:
            return png_bytes(shrink(np.asarray(table.rows.preview(place)), LARGE))
        except BadFile:  # its message would name a path
            raise Refused(404, f"the image of row {number} cannot be read.") from None

    def save(self, given: SaveIn) -> dict[str, Any]:
        if not self.edit:
            raise Refused(403, "this server shows and does not edit; start it with --edit to save drafts.")
        return {"version": self.bench.save(given.drafts.drafts(), given.version)}

    def _small(self) -> bool:
        form = self.bench.classifier.inputs_.form() if self.cards.kind == "images" else {}
        return max(form.get("height", 0), form.get("width", 0)) < 96


def explorer_routes(explorer: Explorer, worker: Worker) -> APIRouter:
    """Return the routes of the explorer."""
    router = APIRouter(prefix="/api", tags=["explorer"], responses=ERRORS)

    @router.get("/model")
    async def model(threshold: Share = 0.0) -> dict[str, Any]:
        """What is served: model, classes, and how far its rows are decided."""
        return await worker.run(explorer.model, threshold)

    @router.get("/rows")
    async def rows(
        table: Annotated[str, Query(pattern="^(data|candidates)$")] = "data",
        which: listing.Which = "all",
        by: listing.By = "confidence",
        reverse: bool = False,
        threshold: Share = 0.0,
        predicted: Annotated[int | None, Query(ge=0, le=INDEX)] = None,
        prototype: Annotated[int | None, Query(ge=0, le=INDEX)] = None,
        offset: Offset = 0,
        limit: Limit = 50,
    ) -> dict[str, Any]:
        """Rows with their decisions, filtered and in order."""
        wanted = listing.Wanted(which, by, reverse, threshold, predicted, prototype)
        return await worker.run(explorer.rows, wanted, table, offset, limit)

    @router.post("/card")
    async def card(asked: CardIn) -> dict[str, Any]:
        """One decision: its prototypes, what speaks against, and with drafts what it was before."""
        return await worker.run(explorer.card, asked)

    @router.get("/curve")
    async def curve() -> dict[str, Any]:
        """Error and coverage at every threshold."""
        return await worker.run(explorer.curve)

    @router.get("/map")
    async def map_() -> dict[str, Any]:
        """Candidates in two dimensions."""
        return await worker.run(explorer.map)

    @router.get("/labels")
    async def labels(offset: Offset = 0, limit: Limit = 20) -> dict[str, Any]:
        """Candidates whose label is disputed, worst first."""
        return await worker.run(explorer.labels, offset, limit)

    @router.post("/save")
    async def save(given: SaveIn) -> dict[str, Any]:
        """Write drafts to the database's log of edits."""
        return await worker.run(explorer.save, given)

    @router.get("/images/{table}/{number}.png", response_class=Response)
    async def image(
        table: Annotated[str, Path(pattern="^(data|candidates)$")], number: Annotated[int, Path(ge=0, le=INDEX)]
    ) -> Response:
        """The image of a row, at most 320 pixels wide and high."""
        content = await worker.run(explorer.image, table, number)
        return Response(content, media_type="image/png", headers={"cache-control": "private, max-age=3600"})

    return router
