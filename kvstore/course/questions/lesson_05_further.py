"""What the further lessons of lesson 05 ask, and the conditions of their claims."""

from collections.abc import Mapping, Sequence

from kvstore.course.experiments import rpc_pipeline
from kvstore.course.questions.base import PredictionQuestion
from kvstore.measure import Run

Race = Mapping[str, Sequence[Run]]


def pipelined_wins(runs: Race) -> bool:
    """Whether the best pipelined run was faster than the best synchronous one."""
    fastest_s = {name: rpc_pipeline.fastest_s(repeated) for name, repeated in runs.items()}
    return fastest_s[rpc_pipeline.PIPELINED] < fastest_s[rpc_pipeline.SYNCHRONOUS]


def less_work(runs: Race) -> bool:
    """Whether the pipelined client and its server needed less CPU time than the synchronous."""
    work_s = {name: rpc_pipeline.processor_s(repeated) for name, repeated in runs.items()}
    return work_s[rpc_pipeline.PIPELINED] < work_s[rpc_pipeline.SYNCHRONOUS]


def _number(measured: float) -> float:
    return measured


def _question(name: str, text: str, unit: str) -> PredictionQuestion:
    """Return a question whose notebook computes both numbers and passes them to `compare`."""
    return PredictionQuestion(name, text, unit=unit, measured=_number)


PREDICTIONS = (
    _question(
        "05.times_faster",
        "How many times faster than the synchronous client is the pipelined one?",
        "times",
    ),
    _question("05.window_8", "A window of 8, 10 ms away: how many calls/s?", "calls/s"),
    _question("05.window_256", "And with a window of 256?", "calls/s"),
    _question("05.slow_write", "How many replies come before the reply of the write?", "replies"),
    _question("05.peak", "4,096 operations in a message: how many per second?", "operations/s"),
    _question("05.group", "16 writes in a message, as a group: how many writes/s?", "operations/s"),
    _question("05.each", "And if each write pays its own delay?", "operations/s"),
    _question("05.log", "How many seconds does the log take with a window of 16?", "s"),
)
