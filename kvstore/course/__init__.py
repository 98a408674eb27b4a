"""The course layer: everything that a learner sees. It uses all other packages; none uses it.

    predictions                a number before the run; questions in between
    curves                     a prediction that is drawn
    comparisons                its error after the run; sentences that the run confirms or not
    questions                  the questions of each lesson, by their ids; conversion of units
    exercises                  tasks with hints and solutions, and their grading
    checks, judging            check, hint, solution; the process in which answers are judged
    live                       a run with a view of it while it lasts
    my_code                    the files that a learner keeps
    running                    `run`: a client and a server of the learner, measured
    own_code                   the learner's code in the runs, its target, the ladder of all lessons
    replay                     the calls of a run, moving through its stations
    explorer                   sliders for a law, and a button that measures
    views                      tables and figures of runs
    progress                   predictions, answers and help between sittings
    lessons                    the lessons, the learner's progress, and predicted against measured
    messages                   one line in place of a traceback: ■, a missing name, a wrong call
    kernel                     the first cell of a lesson: its symbols
    machine, noise             what this machine can show
    in_class                   votes in a class, and the class that a teacher opens
    memory_experiment          a sender without a limit, until memory is full
    experiments                code of one lesson that is too long for a cell
    external_clients           load generators of other projects, beside ours
    capstone                   a service to probe, to change, and to score
    mode                       durations of runs
    rendering                  text, tables, progress, source code on the page; figures in words

The import starts nothing and writes nothing. In a notebook, mistakes show one line from then on.
"""

from kvstore.course import lessons, live, messages, mode, my_code, progress, views
from kvstore.course.checks import check, hint, solution
from kvstore.course.comparisons import claim, compare
from kvstore.course.exercises import NOT_ATTEMPTED
from kvstore.course.explorer import Slider, explore
from kvstore.course.in_class import join, leave, open_class
from kvstore.course.kernel import lesson
from kvstore.course.own_code import ladder, serving_own, target, yours
from kvstore.course.predictions import again, predict, quiz
from kvstore.course.rendering import show_source
from kvstore.course.replay import replay
from kvstore.course.running import run
from kvstore.course.views.stations import draw_stations

__all__ = [
    "NOT_ATTEMPTED",
    "Slider",
    "again",
    "check",
    "claim",
    "compare",
    "draw_stations",
    "explore",
    "hint",
    "join",
    "ladder",
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
    "serving_own",
    "show_source",
    "solution",
    "target",
    "views",
    "yours",
]

messages.install()
my_code.install()
