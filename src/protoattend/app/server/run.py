"""A server that runs until it is told to stop: what it says, and what it needs before it begins."""

from __future__ import annotations

import logging
import secrets
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass

import uvicorn

from protoattend.app.server.application import Options, create_app
from protoattend.app.server.guard import is_loopback
from protoattend.app.server.workbench import Workbench
from protoattend.app.talk import Talk
from protoattend.errors import UserError

GRACE = 5  # seconds that requests under way have when the server is told to stop


@dataclass(frozen=True)
class Prepared:
    """A server that is ready to answer, and where it listens."""

    server: uvicorn.Server
    listening: socket.socket

    def run(self) -> None:
        """Answer until interrupted."""
        signal.signal(signal.SIGTERM, lambda *_: None)  # which uvicorn raises again when all is answered
        with suppress(KeyboardInterrupt):  # as it does with that of Ctrl+C
            self.server.run(sockets=[self.listening])


def prepare(bench: Workbench, listening: socket.socket, options: Options, talk: Talk) -> Prepared:
    """Return a server for a workbench, and tell where it is found."""
    if why := bench.unseen_images():
        talk.say(f"Prototypes are shown without their images: {why}")
    logging.basicConfig(stream=sys.stderr, format="%(message)s")
    logging.getLogger("protoattend.server").setLevel(logging.INFO)
    config = uvicorn.Config(
        create_app(bench, options),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=GRACE,
        server_header=False,
    )
    port = listening.getsockname()[1]
    address = f"http://{'[' + options.host + ']' if ':' in options.host else options.host}:{port}/"
    if options.token is not None:
        address += f"?token={options.token}"
    name = options.name or bench.folder.name
    talk.lines([f"{name} is served at {address}", "Stop it with Ctrl+C."], {"model": name, "address": address})
    sys.stdout.flush()  # whoever reads a pipe must not wait for more
    return Prepared(uvicorn.Server(config), listening)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket at this address, or say that it cannot be had."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise UserError(
            f"the server must be able to listen at {host}, port {port}, but cannot ({error.strerror or error}); "
            "choose another with --port or --host."
        ) from None


def check(options: Options) -> None:
    """Raise where an address that others can reach has no token."""
    if not is_loopback(options.host) and not options.token:
        raise UserError(
            f"a token is needed for any address but this machine's own, but host is {options.host} and there is none; "
            f"pass --token, such as {secrets.token_urlsafe(16)}, or leave --host out."
        )
