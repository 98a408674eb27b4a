"""Clients of the contract in Go, Java and C++, and h2spec: what others say of our server.

Go's client and a short h2spec are in the suite. COURSE_NIGHTLY=1 adds the clients that take
minutes to build, and all of h2spec.
"""

import os
import shutil
import socket
import threading

import pytest

from proofs import clients, conformance
from proofs.case import Case, Skipped

NIGHTLY = bool(os.environ.get("COURSE_NIGHTLY"))
LANGUAGES = tuple(clients.TOOLCHAINS) if NIGHTLY else clients.SHORT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1_400),  # the first build downloads gRPC for its language
]

FALSE = """
cases { name: "status" steps { retrieve { key: "@none" } } }
cases { name: "an OK that is refused" steps { delete { key: "@none" } status: NOT_FOUND } }
cases { name: "detail" steps { retrieve { key: "@none" } status: NOT_FOUND detail: "no such" } }
cases { name: "value" steps { create { key: "@v" value: "1" } } steps { retrieve { key: "@v" } } }
cases {
  name: "each succeeds"
  steps { create { key: "@e" } }
  steps { delete { key: "@e" } at_once: 5 status: OK others: ALREADY_EXISTS }
}
cases {
  name: "a reply too few"
  steps { stream { requests { id: 1 kinds: "\\004" keys: "@s" } replies { id: 1 statuses: "\\0" }
    replies { id: 2 } } }
}
cases {
  name: "a reply too many"
  steps { stream { requests { id: 1 kinds: "\\004" keys: "@s" } } }
}
cases {
  name: "another reply"
  steps { stream { requests { id: 1 kinds: "\\004" keys: "@s" }
    replies { id: 1 statuses: "\\5" } } }
}
cases {
  name: "order"
  connection: SLOW
  steps { stream { requests { id: 1 kinds: "\\001" keys: "@o" values: "v" }
    requests { id: 2 kinds: "\\002" keys: "@none" }
    replies { id: 1 statuses: "\\0" } replies { id: 2 statuses: "\\5" } in_order: true } }
}
cases {
  name: "the token is not needed"
  connection: TLS_WITHOUT_TOKEN
  steps { delete { key: "@none" } }
}
"""
"""Expectations that no server of ours fulfils."""


def cases_of(language, monkeypatch) -> list[Case]:
    """The cases of one client; the test is skipped where it cannot be built."""
    found = []
    monkeypatch.setattr(clients, "TOOLCHAINS", {language: clients.TOOLCHAINS[language]})
    for each in clients.prove(short=False):
        if isinstance(each, Skipped):
            pytest.skip(each.why)
        if isinstance(each, Case):
            found.append(each)
    return found


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_client_in_another_language_sees_the_contract_in_both_modes(language, monkeypatch):
    found = cases_of(language, monkeypatch)

    assert [] == [each for each in found if each.wrong]
    assert 2 * clients.TABLE.read_text("utf-8").count("\ncases {") == len(found) > 40


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_client_in_another_language_says_what_it_sees_otherwise(language, monkeypatch, tmp_path):
    false = tmp_path / "false.txtpb"
    false.write_text(FALSE, "utf-8")
    monkeypatch.setattr(clients, "TABLE", false)
    found = cases_of(language, monkeypatch)

    assert [] == [each.name for each in found if not each.wrong]
    assert 2 * FALSE.count("\ncases {") == len(found)
    assert all("step " in each.wrong for each in found), found


def test_without_its_tools_a_client_is_skipped_by_name(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    found = [each.why for each in clients.prove(short=False)]

    assert [f"the client in {language}:" for language in clients.TOOLCHAINS] == [
        why.partition(":")[0] + ":" for why in found
    ]
    assert all("not on PATH; install " in why for why in found)


def test_ours_pass_each_test_of_h2spec_that_stock_grpcio_passes():
    found = list(conformance.prove(short=not NIGHTLY))
    for each in found:
        if isinstance(each, Skipped):
            pytest.skip(each.why)
    cases = [each for each in found if isinstance(each, Case)]

    assert [] == [each for each in cases if each.wrong]
    assert len(cases) > 100


def test_a_server_that_does_not_speak_http2_passes_less(monkeypatch):
    """The judge: a stock server against one that closes every connection."""
    program = conformance.path_of("h2spec")
    if program is None:
        pytest.skip("h2spec is not installed")
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def close_each() -> None:
            try:
                while True:
                    listening.accept()[0].close()
            except OSError:
                pass

        closing = threading.Thread(target=close_each)
        closing.start()
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        tests, count = conformance.passed(program, address, "/", ["http2/6.5.2"])
        listening.shutdown(socket.SHUT_RDWR)
        closing.join()

    assert (0, 5) == (len(tests), count)
