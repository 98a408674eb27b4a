"""Real servers, each in a process of its own, for every test that needs one."""

import gc
import importlib.util
import itertools
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
from labs import CHROMIUM
from stacks import QUICK, STACKS, calling, serving_quickly

from kvstore.server import Server, serving
from kvstore.v1 import kvstore_pb2_grpc

# A check of addresses that no test uses. jsonschema, below nbformat, imports it if it is installed;
# then it compiles a grammar, which takes four seconds in each process of the tests.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]

# `nohup` starts a command with SIGHUP ignored, and a shell starts `command &` with SIGINT ignored.
# All processes of the tests would inherit that, and the tests of Ctrl-C would wait in vain.
for name, usual in (("SIGINT", signal.default_int_handler), ("SIGHUP", signal.SIG_DFL)):
    if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) is signal.SIG_IGN:
        signal.signal(getattr(signal, name), usual)

# The same examples in every run and on every machine, however slow it is.
hypothesis.settings.register_profile("course", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("course")


NEEDED = ("pytest_timeout", "trustme", "xdist", "yaml")


def pytest_configure() -> None:
    """Say what to install, in one line, in place of one error for each file that needs it."""
    if lacking := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        raise pytest.UsageError(
            f"the tests need {', '.join(lacking)}: in the folder of the course, "
            'pip install -e ".[dev]", or python3 course.py test'
        )


LIMIT_S = 120
"""The longest that one test may take, unless it has a mark `timeout` of its own."""


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Limit each test in time, and group the tests for the processes that share them.

    The limit is for the test's own function. In setup, teardown or a report, an alarm would end the
    whole run; a fixture that hangs is ended by `faulthandler_timeout`, with its process.
    """
    for item in items:
        own = item.get_closest_marker("timeout")
        limit_s = own.args[0] if own else LIMIT_S
        item.add_marker(pytest.mark.timeout(limit_s, func_only=True), append=False)
    if hasattr(config, "workerinput"):
        group(items)


def group(items: list[pytest.Item]) -> None:
    """Let the tests of a file run in one process, for its fixtures, unless they say otherwise.

    Tests with a group of their own take longest, so they begin first: a file that takes minutes in
    one process must not begin when the others are nearly done.
    """
    first = [each for each in items if each.get_closest_marker("xdist_group")]
    others = [each for each in items if not each.get_closest_marker("xdist_group")]
    for item in others:
        item.add_marker(pytest.mark.xdist_group(item.path.stem))
    others.sort(key=lambda item: item.path, reverse=True)  # the longest files come last by name
    items[:] = [*first, *others]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what the tests of faults, histories and files have judged."""
    for kind in ("passed", "failed"):
        for report in terminalreporter.stats.get(kind, ()):
            for name, value in getattr(report, "user_properties", ()):
                if name == "judged" and report.when == "call":
                    terminalreporter.line(f"{report.nodeid.rpartition('::')[2]}: {value}")


STATUS = pytest.StashKey[int]()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Keep the status for the end of the process."""
    session.config.stash[STATUS] = int(session.exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """End the process although a thread of a wrong answer waits for ever: Python would wait too."""
    pools = [each for each in threading.enumerate() if each.name.startswith("ThreadPoolExecutor")]
    if STATUS in config.stash and pools:  # Python joins them, also those that are daemons
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(config.stash[STATUS])


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, for the tests of pages; they are skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no chromium: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield opened
        opened.close()


@pytest.fixture(scope="session", params=STACKS)
def stack(request: pytest.FixtureRequest) -> str:
    """Each test that asks for it runs on both stacks."""
    return str(request.param)


@pytest.fixture(autouse=True)
def no_interrupt_is_lost() -> None:
    """Hypothesis times each garbage collection, and drops an interrupt that arrives meanwhile."""
    gc.callbacks[:] = [
        each for each in gc.callbacks if "hypothesis" not in str(getattr(each, "__module__", ""))
    ]


@pytest.fixture(scope="session")
def quick_server(stack: str) -> Iterator[Server]:
    """A server with short delays and station times; tests share it, each with its own keys."""
    with serving_quickly(stack) as server:
        yield server


@pytest.fixture
def own_server(stack: str) -> Iterator[Any]:
    """Starts servers that only this test uses: `own_server(locking="global")`."""
    open_servers = []

    def start(**settings: Any) -> Server:
        context = serving(**{**QUICK, "use_asyncio": STACKS[stack], **settings})
        server = context.__enter__()
        open_servers.append(context)
        return server

    yield start
    for context in open_servers:
        context.__exit__(None, None, None)


@pytest.fixture
def stub(quick_server: Server) -> Iterator[kvstore_pb2_grpc.KeyValueServiceStub]:
    """The generated stub, connected to `quick_server`."""
    with calling(quick_server.address) as stub:
        yield stub


@pytest.fixture(scope="session")
def keys() -> Iterator[bytes]:
    """Keys that no other test has used: `next(keys)`."""
    return (b"a test's own key %d" % number for number in itertools.count())
