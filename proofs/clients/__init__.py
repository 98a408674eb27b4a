"""Clients in other languages: each makes the calls of `cases.txtpb` against both server modes.

Each client is generated and built with the tools of its language, once for each version of its
sources. The program is kept in the cache folder of the user.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from kvstore.credentials import CA, TOKEN
from kvstore.server import Server
from kvstore.server.launch import built_once, serving_each
from proofs.case import Case, Figure, Skipped
from tools import certificate

HERE = Path(__file__).parent
CONTRACT = HERE.parents[1] / "proto" / "kvstore" / "v1" / "kvstore.proto"
TABLE = HERE / "cases.txtpb"
BUILD_S = 900.0
RUN_S = 120.0
"""Seconds for all cases of one client; each call has a deadline of 20 s."""
SLOW_WRITE_S = 1.5
"""The delay that the cases with the connection SLOW assume."""
MODES = {"threads": False, "asyncio": True}


class Toolchain(NamedTuple):
    """How a client is built, in a copy of its folder with the proto files in `proto`."""

    needs: tuple[str, ...]
    """Programs that must be on the PATH."""
    install: str
    build: tuple[tuple[str, ...], ...]
    program: str
    """The file that is built."""
    run: tuple[str, ...] = ()
    """The words of the command before the file."""


def _go_options(plugin: str) -> tuple[str, ...]:
    files = ("kvstore/v1/kvstore.proto", "cases.proto")
    packages = [f"--{plugin}_opt=M{file}=client/pb" for file in files]
    return (
        f"--plugin=bin/protoc-gen-{plugin}", f"--{plugin}_out=.", f"--{plugin}_opt=module=client",
        *packages,
    )  # fmt: skip


TOOLCHAINS = {
    "go": Toolchain(
        ("go",), "Go 1.24 or newer from go.dev",
        (
            ("go", "build", "-mod=readonly", "-o", "bin/", "tool"),
            (
                sys.executable, "-m", "grpc_tools.protoc", "-Iproto", *_go_options("go"),
                *_go_options("go-grpc"), "kvstore/v1/kvstore.proto", "cases.proto",
            ),
            ("go", "build", "-mod=readonly", "-o", "program", "."),
        ),
        "program",
    ),
    "java": Toolchain(
        ("java", "mvn"), "a JDK of version 17 or newer, and Maven",
        (("mvn", "--batch-mode", "--quiet", "-Dstyle.color=never", "package"),),
        "target/client.jar", ("java", "-jar"),
    ),
    "c++": Toolchain(
        ("g++", "cmake", "protoc", "grpc_cpp_plugin"),
        "g++ cmake pkg-config libgrpc++-dev protobuf-compiler-grpc, as apt calls them",
        (
            ("cmake", "-S", ".", "-B", "build", "-DCMAKE_BUILD_TYPE=Release"),
            ("cmake", "--build", "build"),
        ),
        "build/client",
    ),
}  # fmt: skip
SHORT = ("go",)
"""The languages of the short form; the others take minutes to build."""


class Missing(RuntimeError):
    """A client cannot be built here."""


def prove(short: bool) -> Iterator[Case | Figure | Skipped]:
    """Yield the result of each case, of each client and mode of the server."""
    commands = dict[str, list[str]]()
    for language in SHORT if short else TOOLCHAINS:
        try:
            commands[language] = command(language)
        except Missing as missing:
            yield Skipped(str(missing))
    if not commands:
        return
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        certificate.write(folder, [])
        quick: dict[str, Any] = {"read_delay_s": 0, "write_delay_s": 0}
        slow = {"read_delay_s": 0, "write_delay_s": SLOW_WRITE_S, "locking": "per_key"}
        each = [quick, slow, {**quick, "tls": made}]
        every = [{**one, "use_asyncio": aio} for aio in MODES.values() for one in each]
        with serving_each(every) as servers, ThreadPoolExecutor(len(MODES)) as side_by_side:
            for language, program in commands.items():
                runs = [
                    side_by_side.submit(
                        run, program, f"{language}, {mode}", servers[3 * n : 3 * n + 3], folder
                    )
                    for n, mode in enumerate(MODES)
                ]
                for done in runs:
                    yield from done.result()
    yield Figure("clients", ", ".join(commands))


def command(language: str) -> list[str]:
    """Return the command of a client, built now if its sources have changed; or raise `Missing`."""
    tools, folder = TOOLCHAINS[language], HERE / language.replace("+", "p")
    if absent := [name for name in tools.needs if shutil.which(name) is None]:
        raise Missing(
            f"the client in {language}: {', '.join(absent)} not on PATH; install {tools.install}"
        )

    def build(target: Path) -> None:
        with tempfile.TemporaryDirectory() as made:
            copy = Path(shutil.copytree(folder, Path(made) / "client"))
            contract = copy / "proto" / "kvstore" / "v1"
            contract.mkdir(parents=True)
            shutil.copy(CONTRACT, contract)
            shutil.copy(HERE / "cases.proto", copy / "proto")
            for words in tools.build:
                done = subprocess.run(
                    words, cwd=copy, capture_output=True, text=True, timeout=BUILD_S
                )
                if done.returncode:
                    said = (done.stdout + done.stderr).strip()[-600:]
                    raise Missing(f"the client in {language} could not be built: {said}")
            shutil.move(copy / tools.program, target)

    sources = [folder, CONTRACT, HERE / "cases.proto"]
    program = built_once(f"client_{folder.name}", sources, build)
    return [*tools.run, str(program)]


def run(program: Sequence[str], name: str, servers: Sequence[Server], folder: Path) -> list[Case]:
    """Run a client against a plain, a slow and a TLS server; return a case for each line."""
    text = TABLE.read_text("utf-8")
    expected = text.count("\ncases {")
    table = folder / f"{name}.txtpb"
    table.write_text(text.replace("@", f"{name}: "), "utf-8")
    addresses = [server.address for server in servers]
    words = [*program, str(table), *addresses, str(folder / CA), str(folder / TOKEN)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=RUN_S)
    except subprocess.TimeoutExpired as late:
        return [Case(name, f"not done after {RUN_S:g} s; its lines: {late.stdout!r}")]
    found = list[Case]()
    lines = done.stdout.splitlines()
    for line in lines:
        verdict, _, rest = line.partition(" ")
        case, _, wrong = rest.partition(": ") if verdict == "FAILED" else (rest, "", "")
        found.append(Case(f"{name}: {case}", wrong or ("" if verdict == "ok" else line)))
    failed = any(not line.startswith("ok ") for line in lines)
    if len(lines) != expected or done.returncode != failed:
        why = f"expected {expected} lines and the exit status {int(failed)}, got {len(lines)} and"
        found.append(Case(name, f"{why} {done.returncode}: {done.stderr[-600:]}"))
    return found
