"""Who may ask: Host and Origin, the token, the size of a request and the time it takes; and one line of log each."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import time
from http.cookies import SimpleCookie
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from protoattend.app.server.limits import Limits
from protoattend.app.server.metrics import Metrics
from protoattend.app.server.problems import Refused, problem

COOKIE = "protoattend_token"
OPEN = ("/v2/health/live", "/v2/health/ready")  # what watches a server has no token
SAFE = ("GET", "HEAD", "OPTIONS")
LET_BY = 8  # times the largest request: of one that is larger, so much is read and dropped before it is refused
HEADERS = [
    (b"content-security-policy", b"default-src 'self'; img-src 'self' blob: data:; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]
log = logging.getLogger("protoattend.server")


def is_loopback(host: str) -> bool:
    """Return whether an address is of this machine alone.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class Guard:
    """Let a request in only if it may ask, and log how it was answered, without what it asked."""

    def __init__(self, app: ASGIApp, *, host: str, token: str | None, limits: Limits, metrics: Metrics) -> None:
        self.app, self.limits, self.metrics = app, limits, metrics
        self._local, self._token = is_loopback(host), token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status, begun = time.perf_counter(), 500, False

        async def sending(message: Message) -> None:
            nonlocal status, begun
            if message["type"] == "http.response.start":
                status, begun = message["status"], True
                message["headers"] = [*message.get("headers", []), *HEADERS]
            await send(message)

        try:
            refusal = self._refusal(scope)
            if refusal is not None:
                await refusal(scope, receive, sending)
            else:
                body = await asyncio.wait_for(self._body(scope, receive), self.limits.seconds)
                left = self.limits.seconds - (time.perf_counter() - started)
                await asyncio.wait_for(self.app(scope, _once(body, receive), sending), left)
        except Refused as error:
            await problem(error.status, str(error))(scope, receive, sending)
        except TimeoutError:
            if not begun:
                message = f"a request may take {self.limits.seconds:g} seconds, but this took longer; try less at once."
                await problem(408, message)(scope, receive, sending)
        finally:
            self._note(scope, status, time.perf_counter() - started)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if self._local and not is_loopback(_name(host)):
            return problem(403, "this server answers to localhost alone; use http://127.0.0.1 with its port.")
        other = origin is not None and urlsplit(origin).netloc != host
        if other or headers.get("sec-fetch-site") == "cross-site":
            navigating = scope["method"] in SAFE and headers.get("sec-fetch-mode") == "navigate"
            if not navigating:
                return problem(403, "pages of other sites may not ask this server.")
        return None if self._token is None or scope["path"] in OPEN else self._unknown(scope, headers)

    def _unknown(self, scope: Scope, headers: Headers) -> Response | None:
        assert self._token is not None
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        given = [headers.get("authorization", "").removeprefix("Bearer "), cookie.value if cookie else ""]
        if any(hmac.compare_digest(one.encode(), self._token.encode()) for one in given):
            return None
        asked = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["path"] == "/" and hmac.compare_digest(asked.encode(), self._token.encode()):
            answer = RedirectResponse("/", 303)
            answer.set_cookie(COOKIE, self._token, httponly=True, samesite="strict")
            return answer
        return problem(401, "a token is needed: open the address that the server printed, or send it as Bearer.")

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """Read a request whole, as far as it may be large."""
        told = Headers(scope=scope).get("content-length", "0")
        if told.isdigit() and int(told) > self.limits.body:
            raise await self._too_large(receive, more=True)
        parts, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                break
            parts.append(message.get("body", b""))
            size, more = size + len(parts[-1]), message.get("more_body", False)
            if size > self.limits.body:
                raise await self._too_large(receive, more=more)
        return b"".join(parts)

    async def _too_large(self, receive: Receive, *, more: bool) -> Refused:
        """Return the refusal, once what is still being sent was let go by: most clients only listen after that."""
        left = LET_BY * self.limits.body
        while more and left > 0:
            message = await receive()
            left, more = left - len(message.get("body", b"")), message.get("more_body", False)
        return Refused(413, f"a request may have {self.limits.body:,} bytes, but this has more; send less at once.")

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "(none)")  # never the address itself, which may hold a token
        self.metrics.note(scope["method"], route, status, seconds)
        log.info(
            json.dumps(
                {
                    "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                    "method": scope["method"],
                    "route": route,
                    "status": status,
                    "ms": round(1000 * seconds, 2),
                }
            )
        )


def _name(host: str) -> str:
    """Return the name in a Host header, without its port.

    >>> _name("localhost:8000"), _name("[::1]:8000"), _name("127.0.0.1")
    ('localhost', '[::1]', '127.0.0.1')
    """
    return host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]


def _once(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that hands over the body that was read already."""
    unread: list[Any] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receiving() -> Message:
        return unread.pop() if unread else await receive()

    return receiving
