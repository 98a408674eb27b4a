"""The room of what the learner sees; it may use every other room, and none uses it.

    predictions, comparisons   a number before the run, and how far off it was
    agreement                  the main comparisons of a lesson, and the band they are held to
    claims                     sentences that the run at hand decides
    exercises, checking        tasks with hints, solutions and a judge for each
    attempts                   runs a judge, whatever the answer does
    live, sparkline            a run that is watched
    figures, tables            pictures, and their numbers under the same names
    named                      the forms in which both take runs and predictions
    peers                      clients of other makes, beside ours
    source, quizzes            what is read and asked in between
    progress, keeping          what is remembered between sittings
    landing                    the lessons there are, and where the learner stands
    machine                    what this machine can show
    ceiling, ceiling_picture   a sender without a limit, until memory is full
    design                     a service to be probed, changed and scored
    stories                    published experiments, played again
    mode                       how long everything lasts
    rendering                  how text reaches the page, escaped
    execute                    notebooks without a browser

Importing it starts nothing, writes nothing and changes no setting.
"""

from kvstore.course import figures, live, mode, progress, tables
from kvstore.course.checking import check, hint, solution
from kvstore.course.claims import claim
from kvstore.course.comparisons import compare
from kvstore.course.exercises import NOT_ATTEMPTED
from kvstore.course.predictions import again, predict
from kvstore.course.quizzes import quiz
from kvstore.course.source import show_source

__all__ = [
    "NOT_ATTEMPTED",
    "again",
    "check",
    "claim",
    "compare",
    "figures",
    "hint",
    "live",
    "mode",
    "predict",
    "progress",
    "quiz",
    "show_source",
    "solution",
    "tables",
]
