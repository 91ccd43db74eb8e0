"""Errors as answers: one clear line and a 4xx status, in one form for every route."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from protoattend.errors import ProtoAttendError


class Refused(Exception):
    """A request that is answered by a status and one line."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def answer_errors(app: FastAPI) -> None:
    """Let every error of this application be {"error": one line}."""

    @app.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> JSONResponse:
        return problem(error.status, str(error))

    @app.exception_handler(ProtoAttendError)
    async def ours(request: Request, error: ProtoAttendError) -> JSONResponse:
        return problem(400, str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        return problem(422, _first(error.errors()))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": str(error.detail)}, error.status_code, headers=error.headers)

    @app.exception_handler(Exception)
    async def unforeseen(request: Request, error: Exception) -> JSONResponse:
        return problem(500, "the server failed at this request; its log says where.")


def problem(status: int, message: str) -> JSONResponse:
    """Return an error as an answer."""
    return JSONResponse({"error": " ".join(message.split())}, status)


def _first(errors: Any) -> str:
    """Return the first thing that is wrong with a request, without the value: that may be an input."""
    first = errors[0]
    if first["type"] == "json_invalid":
        return f"a request must be JSON, but from character {first['loc'][-1]} on this is not; correct it."
    place = ".".join(str(part) for part in first["loc"] if part != "body")
    return f"{place or 'the request'}: {first['msg']}"
