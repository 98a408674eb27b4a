import os
import subprocess
import sys
from pathlib import Path

import pytest

import kvstore.course

QUESTION = """
import matplotlib, os, threading
before = dict(matplotlib.rcParams)
from kvstore.course import *
assert before == dict(matplotlib.rcParams), "a setting of matplotlib was changed"
assert threading.active_count() == 1, "a thread was started"
assert not os.path.exists(os.environ["COURSE_PROGRESS"]), "progress was written"
"""


@pytest.mark.slow
def test_importing_the_course_starts_writes_and_changes_nothing(own_progress):
    root = Path(kvstore.course.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", QUESTION],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert not done.stdout


@pytest.mark.slow
def test_the_import_of_the_course_waits_for_no_figure_and_no_table():
    """What stores progress, judges or reads settings needs neither, and they take seconds."""
    asked = (
        "import sys\n"
        "from kvstore.course import judging, kernel, messages, mode, progress\n"
        "print(sorted({'matplotlib', 'pandas'} & set(sys.modules)))"
    )
    root = Path(kvstore.course.__file__).parents[2]
    said = subprocess.check_output([sys.executable, "-c", asked], cwd=root, text=True)

    assert said == "[]\n"
