"""What both stacks share is written once: the form for threads is made of the other one."""

import ast

import pytest

from tools import unasync


@pytest.mark.parametrize("name", unasync.FORMS)
def test_the_form_for_threads_is_that_of_the_event_loop(name):
    made = unasync.threads_form((unasync.SERVER / name).read_text("utf-8"), name)
    kept = (unasync.SERVER / unasync.FORMS[name]).read_text("utf-8")

    assert ast.dump(ast.parse(made)) == ast.dump(ast.parse(kept)), "run `python tools/unasync.py`"
