"""The terminal of `course.py lab`: a warning of JupyterLab is shown if something can be done."""

import logging

import pytest

from tools.jupyter_log import Plain, Useful

START = """

    To access the server, open this file in a browser:
        file:///home/ada/.local/share/jupyter/runtime/jpserver-1-open.html
    Or copy and paste one of these URLs:
        http://localhost:8888/lab/tree/00_start_here.ipynb?token=abc
        http://127.0.0.1:8888/lab/tree/00_start_here.ipynb?token=abc"""


def record(text):
    return logging.makeLogRecord({"msg": text, "levelno": logging.WARNING})


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Notebook 00_start_here.ipynb is not trusted", False),
        (
            "Task exception was never retrieved\nfuture: ... exception=WebSocketClosedError()>",
            False,
        ),
        ("Permission denied: my_lessons/00_start_here.ipynb", True),
        ("Task exception was never retrieved\nfuture: ... exception=KeyError()>", True),
    ],
)
def test_a_warning_is_shown_unless_nothing_can_be_done(text, shown):
    assert Useful().filter(record(text)) == shown


def test_of_the_addresses_one_is_shown():
    said = Plain().format(record(START))
    assert said.count("http://") == 1
    assert "file://" not in said
