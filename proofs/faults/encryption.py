"""Faults of the agreement between client and server: encryption, certificates and the token."""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from kvstore.client.channel import Target, Tls
from kvstore.credentials import CA
from kvstore.server import Server
from proofs.faults.table import Expected, Scene, doomed, fault, named
from tools import certificate

Wrong = Callable[[Tls], Tls | None]
"""What a client has, made from what it should have."""
DAY = timedelta(days=1)


@fault(Expected("TlsMismatch", says="does not encrypt its connections: leave out --tls"))
def tls_client_and_plain_text_server(shared: Server) -> Iterator[Scene]:
    with tempfile.TemporaryDirectory() as made:
        certificate.write(Path(made), [])
        yield Scene(Target(shared.address, tls=Tls.of(made)), server=shared)


def disagreed(wrong: Wrong, ends: timedelta = DAY) -> Callable[[Server], Iterator[Scene]]:
    """Return a scene with a server that encrypts, and a client that does it in this wrong way."""

    def scene(shared: Server) -> Iterator[Scene]:
        now = datetime.now(UTC)
        with tempfile.TemporaryDirectory() as made:
            for name, content in certificate.made(["127.0.0.1"], now - DAY, now + ends).items():
                Path(made, name).write_bytes(content)
            with doomed(shared, tls=made) as server:
                yield Scene(Target(server.address, tls=wrong(Tls.of(made))))

    return scene


def _of_a_stranger(tls: Tls) -> Tls:
    now = datetime.now(UTC)
    return replace(tls, ca=certificate.made(["127.0.0.1"], now - DAY, now + DAY)[CA])


LONG = ("no token", "an unknown authority", "another host name")
"""Left out of the short form: the tests of encryption have them."""
REQUIRED = "this server requires a token: .* Give the client"

for name, wrong, ends, says in (
    ("plain text client and tls server", lambda tls: None, DAY, "encrypts its .*: give --tls"),
    ("no token", lambda tls: replace(tls, token=None), DAY, REQUIRED),
    ("another token", lambda tls: replace(tls, token="x" * 43), DAY, REQUIRED),
    ("an unknown authority", _of_a_stranger, DAY, "not accepted: .* with --ca FILE"),
    (
        "another host name",
        lambda tls: replace(tls, server_name="example.test"),
        DAY,
        "not accepted: .*'example.test'. Connect to one of the names",
    ),
    (
        "an expired certificate",
        lambda tls: tls,
        -DAY / 2,
        "not accepted: certificate has expired. Make a new one",
    ),
):
    fault(Expected("TlsMismatch", says=says), short=name not in LONG)(
        named(name, disagreed(wrong, ends))
    )
