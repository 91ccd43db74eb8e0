"""The Open Inference Protocol V2 over REST: health, metadata and inference, of one model."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

import protoattend
from protoattend.app.server.explorer import ERRORS
from protoattend.app.server.inference import Inference, Row
from protoattend.app.server.limits import Limits
from protoattend.app.server.problems import Refused
from protoattend.app.server.tensors import Tensor, TensorForm, inputs_of, source_of

VERSION = "1"
Datatype = Literal[
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "BYTES"
]
ModelName = Annotated[str, Path(max_length=256)]


class RequestInput(BaseModel):
    """One tensor of a request; `data` is flat or nested, in row-major order."""

    name: str
    shape: list[Annotated[int, Field(ge=0, le=2**31)]] = Field(max_length=8)
    datatype: Datatype
    parameters: dict[str, str | bool | float] | None = None
    data: list[Any]


class RequestOutput(BaseModel):
    """An output that is asked for."""

    name: str
    parameters: dict[str, str | bool | float] | None = None


class InferenceRequest(BaseModel):
    """Rows to be decided, as tensors; without `outputs` all of them are answered."""

    id: str | None = Field(default=None, max_length=1024)
    parameters: dict[str, str | bool | float] | None = None
    inputs: list[RequestInput] = Field(min_length=1, max_length=10_000)
    outputs: list[RequestOutput] | None = Field(default=None, max_length=100)


class TensorOut(BaseModel):
    """One tensor of an answer."""

    name: str
    shape: list[int]
    datatype: Datatype
    data: list[Any]


class InferenceAnswer(BaseModel):
    """What was decided."""

    model_name: str
    model_version: str
    id: str | None = None
    outputs: list[TensorOut]


class TensorAbout(BaseModel):
    """The form of a tensor; -1 is any length."""

    name: str
    datatype: Datatype
    shape: list[int]


class ModelAbout(BaseModel):
    """What a model takes and gives."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorAbout]
    outputs: list[TensorAbout]


class ServerAbout(BaseModel):
    """What serves."""

    name: str
    version: str
    extensions: list[str]


class Live(BaseModel):
    """Whether the server is alive."""

    live: bool


class Ready(BaseModel):
    """Whether the server can decide."""

    ready: bool


class ModelReady(BaseModel):
    """Whether a model can decide."""

    name: str
    ready: bool


@dataclass(frozen=True)
class Served:
    """The one model that is served, and how it is asked."""

    name: str
    inference: Inference
    limits: Limits
    ask: Callable[[np.ndarray], Awaitable[list[Row]]]

    def require(self, name: str, version: str) -> None:
        if name != self.name:
            raise Refused(404, f"there is no model {json.dumps(name[:80])}; this server has {self.name!r}.")
        if version != VERSION:
            raise Refused(404, f"there is no version {json.dumps(version[:80])}; this model has {VERSION!r}.")

    def about(self) -> ModelAbout:
        outputs = [TensorAbout(name=o.name, datatype=_known(o), shape=list(o.shape)) for o in self.inference.outputs()]
        inputs = [
            TensorAbout(name=i.name, datatype=_known(i), shape=list(i.shape))
            for i in inputs_of(self.inference.bench.classifier.inputs_)
        ]
        return ModelAbout(name=self.name, versions=[VERSION], platform="protoattend", inputs=inputs, outputs=outputs)

    async def infer(self, request: InferenceRequest) -> InferenceAnswer:
        tensors = [Tensor(t.name, tuple(t.shape), t.datatype, t.data) for t in request.inputs]
        known = [output.name for output in self.inference.outputs()]
        wanted = [output.name for output in request.outputs] if request.outputs else known
        for name in wanted:
            if name not in known:
                raise Refused(400, f"outputs must be among {known}, but got {json.dumps(name[:80])}.")
        source = source_of(self.inference.bench.classifier.inputs_, tensors, self.limits)
        rows = await self.ask(source)
        found = {tensor.name: tensor for tensor in self.inference.tensors(rows)}
        outputs = [
            TensorOut(name=name, shape=list(t.shape), datatype=_known(t), data=t.data)
            for name, t in ((name, found[name]) for name in dict.fromkeys(wanted))
        ]
        return InferenceAnswer(model_name=self.name, model_version=VERSION, id=request.id, outputs=outputs)


def _known(form: Tensor | TensorForm) -> Any:
    return form.datatype


def v2_routes(served: Served) -> APIRouter:
    """Return the routes of the protocol."""
    router = APIRouter(prefix="/v2", tags=["Open Inference Protocol V2"], responses=ERRORS)
    lean: dict[str, Any] = {"response_model_exclude_none": True}

    @router.get("")
    async def server() -> ServerAbout:
        """Name and version of the server."""
        return ServerAbout(name="protoattend", version=protoattend.__version__, extensions=[])

    @router.get("/health/live")
    async def live() -> Live:
        """Whether the server is alive."""
        return Live(live=True)

    @router.get("/health/ready")
    async def ready() -> Ready:
        """Whether the server can decide."""
        return Ready(ready=True)

    @router.get("/models/{model_name}")
    @router.get("/models/{model_name}/versions/{version}", operation_id="model_version")
    async def model(model_name: ModelName, version: str = VERSION) -> ModelAbout:
        """What the model takes and gives."""
        served.require(model_name, version)
        return served.about()

    @router.get("/models/{model_name}/ready")
    @router.get("/models/{model_name}/versions/{version}/ready", operation_id="model_version_ready")
    async def model_ready(model_name: ModelName, version: str = VERSION) -> ModelReady:
        """Whether the model can decide."""
        served.require(model_name, version)
        return ModelReady(name=served.name, ready=True)

    @router.post("/models/{model_name}/infer", **lean)
    @router.post("/models/{model_name}/versions/{version}/infer", operation_id="infer_version", **lean)
    async def infer(model_name: ModelName, request: InferenceRequest, version: str = VERSION) -> InferenceAnswer:
        """Decide rows: label, probabilities, confidence and prototypes of each."""
        served.require(model_name, version)
        return await served.infer(request)

    return router
