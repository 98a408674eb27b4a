"""Open a class: `python3 course.py class open [--lan] [LESSONS]`.

Students vote over gRPC, the page for the projector is on this machine alone. All is in one file,
so the class is the same one after a restart: `class collect FILE` reads it.
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import webbrowser
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import psutil

from kvstore.classroom import client, page, service
from kvstore.classroom.store import ClassFileError, Store

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE_PORT: Final = 8891
_CATALOGUE: Final = "from kvstore.course import in_class; in_class.print_catalogue()"


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve the class until Ctrl-C; the exit status is 1 if it cannot be opened."""
    options = _options(arguments)
    try:
        host = _host(options.lan)
        store, catalogue = _begun(options.file, options.lessons)
    except (ClassFileError, OSError, ValueError) as error:
        print(f"course.py class open: {error}", file=sys.stderr)
        return 1
    try:
        asyncio.run(_open(store, host, options, catalogue))
    except OSError as error:
        print(f"course.py class open: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C: it is closing
        store.close()
    print(f"\nThe class is closed. Its votes: python3 course.py class collect {store.file}")
    return 0


def _begun(file: Path | None, lessons: Sequence[str]) -> tuple[Store, dict[str, Any]]:
    """Open the class's file; of a class that goes on, the questions are in it."""
    if file is not None and file.exists() and not lessons:
        store = Store(file)
        if store.kept("catalogue"):
            return store, json.loads(store.kept("catalogue"))
        store.close()
    catalogue = _catalogue(lessons)
    today = f"class-{time.strftime('%Y-%m-%d')}.db"
    store = Store(file or Path(catalogue["folder"]) / today)
    store.keep(catalogue=json.dumps(catalogue))
    return store, catalogue


def _options(arguments: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(prog="course.py class open", description=__doc__)
    parser.add_argument(
        "lessons", nargs="*", metavar="LESSON", help="such as 03 (default: all core lessons)"
    )
    parser.add_argument(
        "--lan",
        nargs="?",
        const="",
        metavar="ADDRESS",
        help="let other machines of this network vote: opens the port at one address",
    )
    parser.add_argument(
        "--port", type=int, help=f"for votes (default: {client.PORT}, or as before)"
    )
    parser.add_argument("--file", type=Path, help="the class's file (default: one for each day)")
    parser.add_argument("--no-browser", action="store_true", help="only print the page's address")
    return parser.parse_args(arguments)


def _host(lan: str | None) -> str:
    """Return the address to listen on: loopback, unless the network was asked for."""
    if lan is None:
        return "127.0.0.1"
    here = [
        each.address
        for several in psutil.net_if_addrs().values()
        for each in several
        if each.family == socket.AF_INET and not each.address.startswith("127.")
    ]
    if lan:
        if lan not in here:
            raise ValueError(f"--lan: this machine has {', '.join(here)}, got {lan}")
        return lan
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: it asks which address would be used
            return str(probe.getsockname()[0])
        except OSError:
            pass
    if not here:
        raise ValueError("--lan: this machine is in no network")
    return here[0]


def _catalogue(lessons: Sequence[str]) -> dict[str, Any]:
    """Ask the course for its questions, in a process that ends: it takes a lot of memory."""
    command = [sys.executable, "-c", _CATALOGUE, *lessons]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)
    if done.returncode:
        raise ValueError(done.stderr.strip().splitlines()[-1])
    catalogue: dict[str, Any] = json.loads(done.stdout)
    return catalogue


def _measured_here(progress: Path, question_id: str) -> float | None:
    """Return what the teacher's own run measured, from the teacher's progress; None without one."""
    if not progress.exists():
        return None
    try:
        with closing(sqlite3.connect(f"{progress.as_uri()}?mode=ro", uri=True, timeout=1)) as db:
            row = db.execute(
                "SELECT measured FROM questions WHERE question_id = ? AND measured > 0 "
                "ORDER BY attempt DESC LIMIT 1",
                (question_id,),
            ).fetchone()
    except sqlite3.Error:
        return None
    return float(row[0]) if row else None


async def _open(store: Store, host: str, options: Any, catalogue: dict[str, Any]) -> None:
    loop, this = asyncio.get_running_loop(), asyncio.current_task()
    assert this is not None
    for name in ("SIGTERM", "SIGINT"):
        try:
            loop.add_signal_handler(getattr(signal, name), this.cancel)
        except NotImplementedError:
            pass  # Windows: Ctrl-C is a KeyboardInterrupt there

    def started(port: int) -> None:
        store.keep(port=port)
        questions = [
            page.Asked(**{**each, "camps": {float(x): text for x, text in each["camps"].items()}})
            for each in catalogue["questions"]
        ]
        progress = Path(catalogue["progress"])
        wall = page.Wall(
            store, questions, f"{host}:{port}", lambda id: _measured_here(progress, id)
        )
        before, token = store.kept("page_port"), store.kept("page_token")
        try:
            port_now, address = page.listen(wall, token, before or PAGE_PORT)
        except OSError:  # another program has the port meanwhile
            port_now, address = page.listen(wall, token, 0)
        store.keep(page_port=port_now)
        print(_greeting(store, host, port, address), flush=True)
        if not options.no_browser:
            webbrowser.open(address)

    port = store.kept("port") if options.port is None else options.port
    try:
        await service.serve(store, host, client.PORT if port is None else port, started)
    except asyncio.CancelledError:
        pass


def _greeting(store: Store, host: str, port: int, address: str) -> str:
    open_to = (
        f"Only this machine can vote. For the room: --lan, which opens port {port}."
        if host == "127.0.0.1"
        else f"Open to every machine that reaches {host}, port {port}: votes, over TLS. "
        "The page is on this machine alone."
    )
    return (
        f'For the board:  join("{host}:{port}", "{store.identity.code}")\n'
        f"For the projector:  {address}\n"
        f"{open_to}\nVotes are kept in {store.file}. Ctrl-C closes the class."
    )


if __name__ == "__main__":
    if hasattr(os, "umask"):
        os.umask(0o077)
    sys.exit(main())
