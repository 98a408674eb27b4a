"""The course layer: everything that a learner sees. It uses all other packages; none uses it.

    predictions                a number before the run; questions in between
    curves                     a prediction that is drawn
    comparisons                its error after the run; sentences that the run confirms or not
    questions                  the questions of each lesson, by their ids; conversion of units
    exercises                  tasks with hints and solutions, and their grading
    checks, judging            check, hint, solution; the process in which answers are judged
    marking                    marks for nbgrader and Otter, from the source of cells
    live                       a run with a view of it while it lasts
    my_code                    the files that a learner keeps
    running                    `run`: a client and a server of the learner, measured
    stubs                      stubs that hand each call to a function
    replays                    the calls of a run, moving through its stations
    views                      tables and figures of runs
    progress                   predictions, answers and help between sittings
    lessons                    the lessons, and the learner's progress in them
    messages                   one line in place of a traceback: ■, a missing name, a wrong call
    kernel                     the first cell of a lesson: its symbols
    machine                    what this machine can show
    in_class                   votes in a class, and the class that a teacher opens
    experiments                code of one lesson that is too long for a cell
    mode                       durations of runs
    rendering                  text, tables, progress, source code on the page
    alt_text                   figures in words

The import starts nothing and writes nothing. In a notebook, mistakes show one line from then on.
A name below is imported when it is used: figures and tables take seconds to load.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any, Final

try:
    from kvstore.course import my_code
except ModuleNotFoundError as missing:  # `pip install .` brings rpcload alone
    if (missing.name or "").startswith("kvstore"):
        raise
    raise ModuleNotFoundError(
        f"the lessons need {missing.name} and more. In the folder of the course: "
        'pip install -e ".[course]", or python3 course.py lab',
        name=missing.name,
    ) from None

if TYPE_CHECKING:
    from kvstore.course import lessons, live, mode, progress, views
    from kvstore.course.checks import check, hint, solution
    from kvstore.course.comparisons import claim, compare
    from kvstore.course.exercises import NOT_ATTEMPTED
    from kvstore.course.in_class import join, leave, open_class
    from kvstore.course.kernel import lesson
    from kvstore.course.predictions import again, predict, quiz
    from kvstore.course.rendering import show_source
    from kvstore.course.replays import replay
    from kvstore.course.running import run
    from kvstore.course.views.stations import draw_stations

__all__ = [
    "NOT_ATTEMPTED",
    "again",
    "check",
    "claim",
    "compare",
    "draw_stations",
    "hint",
    "join",
    "leave",
    "lesson",
    "lessons",
    "live",
    "mode",
    "open_class",
    "predict",
    "progress",
    "quiz",
    "replay",
    "run",
    "show_source",
    "solution",
    "views",
]

_HOME: Final = {
    "NOT_ATTEMPTED": "exercises",
    "again": "predictions",
    "check": "checks",
    "claim": "comparisons",
    "compare": "comparisons",
    "draw_stations": "views.stations",
    "hint": "checks",
    "join": "in_class",
    "leave": "in_class",
    "lesson": "kernel",
    "open_class": "in_class",
    "predict": "predictions",
    "quiz": "predictions",
    "replay": "replays",
    "run": "running",
    "show_source": "rendering",
    "solution": "checks",
}
"""The module of each name that is no module itself."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_HOME.get(name, name)}")
    value = getattr(module, name) if name in _HOME else module
    globals()[name] = value
    return value


my_code.install()
if "IPython" in sys.modules:  # the judges and other child processes start without it
    from kvstore.course import in_class, messages

    messages.install()
    in_class.offer()
