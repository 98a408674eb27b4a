"""A class that another one takes the place of; a class opened from a notebook; where it listens."""

import re
import stat
import sys
import time

import psutil
import pytest
from kernels import Kernel
from rooms import class_open
from test_votes import sent, votes_of

from kvstore.classroom import __main__ as command
from kvstore.classroom.client import ClassError, Student

pytestmark = pytest.mark.slow


def test_a_vote_is_not_sent_to_another_server_at_the_address_of_the_class(tmp_path):
    """Such as the laptop of somebody else that has got the address meanwhile."""
    student, other = Student(tmp_path / "one"), Student(tmp_path / "other")
    with class_open(tmp_path / "class.db") as room:
        student.join(room.address, room.code)
        port = str(room.port)
    student.vote("03.global_lock", value=25.0, unit="calls/s")
    with class_open(tmp_path / "impostor.db", "--port", port) as impostor:
        assert impostor.address == room.address
        with pytest.raises(ClassError, match="is not the one of the code"):
            other.join(room.address, room.code)
        time.sleep(2)  # its thread tries to send meanwhile
        assert [] == votes_of(impostor)
        assert (1, 0) == (student.waiting(), impostor.state()["joined"])
    with class_open(tmp_path / "class.db") as room:
        sent(student)
        assert [(1, 25.0)] == votes_of(room)


def test_a_second_class_at_the_same_port_is_refused(tmp_path):
    """Linux would let two servers share it, and give each of them half of the votes."""
    with (
        class_open(tmp_path / "class.db") as room,
        pytest.raises(AssertionError, match="cannot be opened"),
        class_open(tmp_path / "second.db", "--port", str(room.port)),
    ):
        pass


@pytest.mark.skipif(sys.platform == "win32", reason="files there have no such modes")
def test_nobody_else_can_read_the_key_of_a_class_or_the_secret_of_a_voter(tmp_path):
    student = Student(tmp_path / "one")
    with class_open(tmp_path / "class.db") as room:
        student.join(room.address, room.code)
        student.vote("03.global_lock", value=25.0)
        sent(student)
        for file in (*tmp_path.glob("class.db*"), tmp_path / "one" / "class.json"):
            assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_only_lan_opens_a_port_to_others_and_only_at_one_address():
    here = [
        each.address
        for several in psutil.net_if_addrs().values()
        for each in several
        if each.family.name == "AF_INET" and not each.address.startswith("127.")
    ]
    if not here:
        pytest.skip("this machine is in no network")

    assert command._host(None) == "127.0.0.1"
    assert command._host("") in here
    assert command._host(here[0]) == here[0]
    with pytest.raises(ValueError, match=re.escape(here[0])):
        command._host("192.0.2.7")


def test_a_class_is_opened_from_a_notebook_until_the_cell_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.sqlite3"))
    kernel = Kernel()
    try:
        kernel.start("from kvstore.course import open_class; open_class('00', browser=False)")
        said, _ = kernel.printed(until="Ctrl-C closes the class", timeout_s=120)
        address, code = re.search(r'join\("(.+?)", "(.+?)"\)', said).groups()
        assert 1 == Student(tmp_path / "student").join(address, code)
        kernel.manager.interrupt_kernel()
        said, errors = kernel.printed(timeout_s=60)
    finally:
        kernel.close()

    assert ("The class is closed" in said, errors) == (True, [])
