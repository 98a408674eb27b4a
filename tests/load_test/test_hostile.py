"""Servers whose reflection means harm: each ends in time, with one line that can be read."""

import hostile
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from kvstore.client import reflection
from kvstore.load_test.__main__ import main

DO = ["evil.Evil/Do", "--no-calibration", "--calls=5", "--quiet"]


def ended(capsys, address, *arguments):
    """The status, and what was printed; nothing in it moves a terminal."""
    status = main([address, *arguments])
    out, err = capsys.readouterr()
    assert all(each.isprintable() for line in (out + err).splitlines() for each in line)
    assert "Traceback" not in err
    return status, out, err


def test_a_chain_of_imports_without_end_is_given_up(capsys, monkeypatch):
    monkeypatch.setattr(reflection, "MOST_FILES", 50)
    with hostile.serving(hostile.endless) as address:
        status, out, err = ended(capsys, address, *DO)

    assert (2, "") == (status, out)
    assert "does not come to an end" in err
    assert 1 == len(err.splitlines())


@pytest.mark.parametrize("files", [hostile.deep, hostile.circle])
def test_imports_that_are_deep_or_in_a_circle_are_read(capsys, files):
    with hostile.serving(files) as address:
        assert 0 == ended(capsys, address, *DO)[0]


def test_names_are_shown_without_the_codes_that_a_terminal_obeys(capsys):
    with hostile.serving(hostile.coloured) as address:
        called = ended(capsys, address, *DO)
    with hostile.serving(lambda name: [], service="\x1b[31mred") as address:
        listed = ended(capsys, address)

    assert 0 == called[0]
    assert r"\x1b[31mred" in called[2]
    assert 2 == listed[0]
    assert r"\x1b[31mred" in listed[1]


@pytest.mark.parametrize("strategy", ["tasks", "bounded"])
def test_a_service_whose_answers_do_not_parse_can_be_loaded(tmp_path, capsys, strategy):
    file = tmp_path / "evil.binpb"
    file.write_bytes(FileDescriptorSet(file=[hostile.file_of_service()]).SerializeToString())
    with hostile.serving(garbage=True) as address:
        without = ended(capsys, address, *DO)
        described = ended(capsys, address, *DO, f"--descriptors={file}", f"--strategy={strategy}")

    assert 2 == without[0]
    assert "bytes that are not its message" in without[2]
    assert 0 == described[0]
    assert "5 OK" in described[1]


def test_a_request_that_is_nested_too_deeply_is_one_line(capsys):
    with hostile.serving(hostile.circle) as address:
        status, _, err = ended(capsys, address, *DO, "--json=" + "[" * 100_000)

    assert 2 == status
    assert "nested too deeply" in err
