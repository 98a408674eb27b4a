"""What a kernel of `course.py lab` runs first: help with a missing name, also before any import.

After a restart, a learner may run a cell in the middle. Then nothing of the course is imported. It
is imported when the first name is missing, so that a kernel starts as quickly as any other.
"""

from typing import Any

from IPython.core.getipython import get_ipython


def _first(shell: Any, kind: Any, error: Any, trace: Any, tb_offset: Any = None) -> Any:
    import kvstore.course  # installs its own handler in place of this one

    assert kvstore.course
    return shell.CustomTB(kind, error, trace, tb_offset=tb_offset)


get_ipython().set_custom_exc((NameError,), _first)  # type: ignore[union-attr]
del Any, _first, get_ipython
