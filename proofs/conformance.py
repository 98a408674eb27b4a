"""h2spec, a conformance test of HTTP/2, against our servers and against a greeter on stock grpcio.

gRPC does not keep every rule that h2spec tests. So the measure is the stock server: ours must pass
each test that it passes, on the root path and on the paths of the service.
"""

import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from kvstore.course.external_clients import path_of
from kvstore.server import serving
from proofs.case import Case, Figure, Skipped
from proofs.malformed import SERVICE, probe
from proofs.stock_greeter import METHOD, greeter

INSTALL = "go install github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible"
TIMEOUT_S = 1
"""How long h2spec waits for an answer, in whole seconds."""
RUN_S = 600.0
SHORT = (
    "generic/1", "generic/3.4", "generic/3.5", "generic/3.7", "http2/3.5", "http2/4.3", "http2/5.5",
    "http2/6.5.2", "http2/6.9/1", "http2/7", "hpack/2.3.3", "hpack/4.2", "hpack/6",
)  # fmt: skip
"""The sections of the short form: stock grpcio passes them at once, so h2spec waits for nothing."""
TRIES = 3
"""Some tests are a race between the server's answer and the end of the connection. Ours holds if
it passes in one of so many runs."""


class Test(NamedTuple):
    """One test of h2spec."""

    section: str
    name: str


def prove(short: bool) -> Iterator[Case | Figure | Skipped]:
    """Yield one case for each test that a stock server passes, for both stacks and each path."""
    program = path_of("h2spec")
    if program is None:
        yield Skipped(f"conformance: h2spec is not installed; `{INSTALL}` installs it")
        return
    sections = SHORT if short else ()
    for stack in ("threads", "asyncio"):
        with greeter(stack) as stock, serving(use_asyncio=stack == "asyncio") as server:
            at = {
                "stock, /": (stock, "/"),
                "stock, a method": (stock, METHOD),
                "ours, /": (server.address, "/"),
                "ours, Retrieve": (server.address, f"{SERVICE}Retrieve"),
                "ours, Pipeline": (server.address, f"{SERVICE}Pipeline"),
            }
            with ThreadPoolExecutor(len(at)) as side_by_side:  # h2spec waits most of its time
                runs = side_by_side.map(
                    lambda to: passed(program, to[0], to[1], sections), at.values()
                )
                found = dict(zip(at, runs, strict=True))
            for name, (_, path) in at.items():
                if name.startswith("ours"):
                    base = found["stock, /" if path == "/" else "stock, a method"][0]
                    ours = found[name][0]
                    again = _again(program, server.address, path, base - ours)
                    for test in sorted(base):
                        right = test in ours or test in again
                        yield Case(
                            f"{stack}, {name}: {test.section}, {test.name}",
                            "" if right else "a stock server passes it, and ours does not",
                        )
            answered = server.alive() and probe(server.address, 10.0) is not None
            yield Case(f"{stack}, afterwards", "" if answered else "the server does not answer")
            for name, (tests, count) in found.items():
                yield Figure(f"{stack}, {name}", f"{len(tests)} of {count}")


def passed(
    program: str, address: str, path: str, sections: Sequence[str] = ()
) -> tuple[frozenset[Test], int]:
    """Return the tests that a server passes on a path, and the number of tests run."""
    host, _, port = address.rpartition(":")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        where = ["--host", host, "--port", port, "--path", path]
        subprocess.run(  # its exit status is 1 if one of the tests fails
            [program, *sections, *where, "--timeout", str(TIMEOUT_S), "--junit-report", report],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=RUN_S,
        )  # fmt: skip
        every = list(ElementTree.parse(report).iter("testcase"))
    good = (each for each in every if not len(each))  # a failed or skipped test has a child
    return frozenset(Test(e.get("package", ""), e.get("classname", "")) for e in good), len(every)


def _again(program: str, address: str, path: str, missing: frozenset[Test]) -> set[Test]:
    """Return those of the missing tests that the server passes in another run."""
    found = set[Test]()
    for _ in range(TRIES - 1):
        sections = sorted({test.section for test in missing - found})
        if sections:
            found |= passed(program, address, path, sections)[0] & missing
    return found
