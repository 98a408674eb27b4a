"""Numbers on the command line that no generator can keep: each ends in time, with a line."""

import resource

import hostile
import pytest

from kvstore.load_test.__main__ import main

DO = ["evil.Evil/Do", "--no-calibration", "--quiet"]


@pytest.fixture(scope="module")
def address():
    with hostile.serving(lambda name: [hostile.file_of_service()]) as served:
        yield served


def test_a_rate_that_no_generator_can_keep_ends_in_time(address, capsys):
    """To count its two trillion due calls would take days."""
    status = main([address, *DO, "--rate=1e12", "--seconds=0.2"])
    out, _ = capsys.readouterr()

    assert 0 == status
    assert "limit in flight" in out or "generator was late" in " ".join(out.split())


def test_a_run_that_sends_nothing_is_no_success(address, capsys):
    status = main([address, *DO, "--rate=0.01", "--seconds=0.2"])

    assert 1 == status
    assert "no call was sent" in capsys.readouterr().err


@pytest.mark.parametrize(
    "flags",
    [
        ["-c", "1000000"],
        ["-s", "1e300"],
        ["--rate", "inf"],
        ["--max-message-bytes", "99999999999"],
    ],
)
def test_a_number_beyond_any_machine_is_refused_with_one_line(address, capsys, flags):
    status = main([address, *DO, *flags])
    out, err = capsys.readouterr()

    assert (2, "") == (status, out)
    assert [line for line in err.splitlines() if line.startswith("error: ")] == [
        err.splitlines()[0]
    ]


def test_more_connections_than_file_descriptors_are_refused(address, capsys, monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda what: (256, 256))
    status = main([address, *DO, "--connections=250", "--in-flight=250"])

    assert 2 == status
    assert "ulimit -n" in capsys.readouterr().err
