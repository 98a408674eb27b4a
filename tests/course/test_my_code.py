"""The learner's files: what a passed check writes, and what is never lost."""

import importlib
import linecache
import os
import subprocess
import sys

import pytest

from kvstore.course import check, exercises, my_code

CELL = """
import threading
from kvstore.v1.kvstore_pb2 import RetrieveRequest

LIMIT = 3


def read_of(key):
    return RetrieveRequest(key=key)


def bounded(stub, requests, in_flight):
    free = threading.Semaphore(min(LIMIT, in_flight))
    return [read_of(b"key") for _ in requests], free
"""


@pytest.fixture(autouse=True)
def a_folder_of_its_own():
    my_code.install()
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_code"]:
        del sys.modules[name]
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_code"]:
        del sys.modules[name]
    my_code._seen.clear()


def cell(source: str, name: str = "bounded"):
    """Return what a notebook's cell with this source defines: its module is `__main__`."""
    file = f"<cell {abs(hash(source))}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope = {"__name__": "__main__"}
    exec(compile(source, file, "exec"), scope)
    return scope[name]


def clients():
    return importlib.import_module("my_code.clients")


def test_the_first_import_makes_the_folder_and_nothing_before_it_does():
    assert not my_code.folder().exists()

    bounded = clients().bounded

    assert my_code.is_the_courses(bounded)
    assert {"store.py", "clients.py", "bench.py"} <= set(os.listdir(my_code.folder()))


def test_a_kept_answer_takes_its_imports_and_helpers_and_leaves_the_rest():
    my_code.prepare()
    before = (my_code.folder() / "clients.py").read_text()

    my_code.keep("clients.bounded", cell(CELL))

    sent, _ = clients().bounded(None, "ab", 9)
    assert [b"key", b"key"] == [each.key for each in sent]
    assert not my_code.is_the_courses(clients().bounded)
    assert my_code.is_the_courses(clients().blocking)
    text = (my_code.folder() / "clients.py").read_text()
    assert before.count(my_code.MARK) - 1 == text.count(my_code.MARK)
    assert "kvstore" not in text.replace("kvstore_pb2", "")


def test_an_earlier_version_is_kept_beside_it_and_the_courses_is_not():
    my_code.prepare()
    my_code.keep("clients.bounded", cell(CELL))
    assert not (my_code.folder() / "earlier").exists()

    my_code.keep("clients.bounded", cell(CELL.replace("LIMIT = 3", "LIMIT = 4")))

    (earlier,) = (my_code.folder() / "earlier").iterdir()
    assert "LIMIT = 3" in earlier.read_text()
    assert "LIMIT = 4" in (my_code.folder() / "clients.py").read_text()
    my_code.keep("clients.bounded", cell(CELL.replace("LIMIT = 3", "LIMIT = 4")))
    assert 1 == len(list((my_code.folder() / "earlier").iterdir()))


def test_a_file_with_a_syntax_error_is_left_as_it_is_and_the_line_is_named():
    my_code.prepare()
    path = my_code.folder() / "clients.py"
    path.write_text("def mine(:\n    pass\n")

    with pytest.raises(my_code.CannotKeep, match="line 1"):
        my_code.keep("clients.bounded", cell(CELL))
    with pytest.raises(my_code.CannotKeep, match="line 1"):
        my_code.part("clients.bounded")

    assert "def mine(:\n    pass\n" == path.read_text()


def test_an_edited_file_is_what_the_next_import_and_check_see():
    assert my_code.is_the_courses(clients().bounded)
    path = my_code.folder() / "clients.py"
    path.write_text(path.read_text() + "\n\ndef mine():\n    return 7\n")
    os.utime(path, ns=(1, 1))

    assert 7 == my_code.part("clients.mine")()


def test_a_deleted_file_comes_back_and_the_others_stay_as_they_are():
    my_code.prepare()
    (my_code.folder() / "clients.py").write_text("mine = 1\n")
    (my_code.folder() / "store.py").unlink()

    assert ["store.py"] == my_code.prepare()
    assert "mine = 1\n" == (my_code.folder() / "clients.py").read_text()


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_said():
    my_code.prepare()
    my_code.folder().chmod(0o500)
    try:
        with pytest.raises(my_code.CannotKeep, match="cannot be written"):
            my_code.keep("clients.bounded", cell(CELL))
    finally:
        my_code.folder().chmod(0o700)


def test_what_another_cell_made_is_named():
    source = "table = object()\n\n\ndef bounded(stub, requests, in_flight):\n    return table\n"

    with pytest.raises(my_code.CannotKeep, match="`table`"):
        my_code.keep("clients.bounded", cell(source))


def test_a_class_is_kept_with_its_base():
    source = (
        "from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceServicer as Base\n\n\n"
        "class Store(Base):\n    def Retrieve(self, request, context):\n        return 5\n"
    )

    my_code.keep("store.Store", cell(source, "Store"))

    store = importlib.import_module("my_code.store")
    assert 5 == store.Store().Retrieve(None, None)
    assert hasattr(store.Store, "Pipeline")


def test_it_runs_without_the_course(tmp_path):
    my_code.prepare()
    probe = tmp_path / "probe.py"
    probe.write_text(
        "import sys\nsys.modules['kvstore'] = None\n"
        f"sys.path.insert(0, {str(my_code.folder().parent)!r})\n"
        "import my_code.bench, my_code.clients\nprint(my_code.clients.bounded.__name__)\n"
    )
    done = subprocess.run([sys.executable, probe], capture_output=True, text=True, check=False)

    assert "bounded\n" == done.stdout, done.stderr


def test_the_folder_begins_with_the_courses_answers_which_pass(page):
    """tests/course/test_exercises.py judges each of them."""
    my_code.prepare()

    for each in exercises.every().values():
        assert my_code.is_the_courses(my_code.part(each.kept)), each.id
    assert check("03.bounded").passed
    assert check("03.store").passed
