"""What lesson 02 and its further lessons ask, and what their claims depend on."""

from collections.abc import Mapping

import pandas as pd

from kvstore.course.lessons.lesson_02 import memory_experiment
from kvstore.course.questions import Option, PredictionQuestion, QuizQuestion
from kvstore.course.views.style import rounded
from kvstore.measure import Run, accounts
from kvstore.model import Prediction

CARRIED_KB = 8.192
"""The value that each call of the memory experiment carries."""


def last_residence_s(run: Run) -> float:
    """Residence time of the slowest call; behind one lock that is the last one."""
    return float(run.calls["residence_s"].max())


def _read_s(run: Run) -> float:
    return float(run.server["settings"]["read_delay_s"])


def client_kb(run: Run) -> float:
    """Memory of the client for one call in flight, in kB, fitted to a run that filled memory."""
    return memory_experiment.probe(run).lines["client"].bytes_per_call / 1e3


def stopped_s(probe: Run, run: Run) -> float:
    """When the sender reached the ceiling."""
    return memory_experiment.stopped_s(run)


def forecast_s(probe: Run, run: Run) -> Prediction:
    """When the ceiling was to be reached, from the numbers of the probe."""
    ceiling = float(run.settings["memory_ceiling_bytes"])
    return memory_experiment.forecast(memory_experiment.probe(probe), ceiling)


PREDICTIONS = (
    PredictionQuestion(
        "02.makespan",
        "100 reads of 50 ms, all sent at once, and the disk serves all at once: how many seconds "
        "until the last reply?",
        unit="s",
        measured=lambda run: run.window_s,
        model=lambda run: Prediction(_read_s(run), "s", "all reads wait for the disk together"),
    ),
    PredictionQuestion(
        "02.last_answer",
        "500 reads of 10 ms, all sent at once, one lock: how many seconds does the last call take?",
        unit="s",
        measured=last_residence_s,
        model=lambda run: Prediction(
            run.issued * _read_s(run), "s", f"{run.issued} calls go through the lock, one by one"
        ),
    ),
    PredictionQuestion(
        "02.kb_per_call",
        "A call carries 8 kB. How many kB of memory does the client need for one call in flight?",
        unit="kB",
        measured=client_kb,
    ),
    PredictionQuestion(
        "02.ceiling",
        "After how many seconds does the sender reach the memory ceiling?",
        unit="s",
        measured=stopped_s,
        model=forecast_s,
        main=True,
    ),
)

QUIZ = (
    QuizQuestion(
        "02.faster_server",
        "You send 1,000 calls/s. The server answers 20/s. You buy one that answers 40/s. Memory is "
        "full ...",
        (
            Option(
                "... twice as late.",
                why="What counts is λ - X: 960 in place of 980 more calls each second.",
            ),
            Option(
                "... 2 % later.",
                right=True,
                why="The backlog grows by 960 calls/s in place of 980.",
            ),
            Option("... never.", why="Only when X is at least λ, 1,000 calls/s."),
        ),
    ),
    QuizQuestion(
        "02.place",
        "100 calls of 10 ms were sent at once to one lock. What decides how long one takes?",
        (
            Option("The work that it needs.", why="That is 10 ms. The last call takes about 1 s."),
            Option("How many calls are ahead of it.", right=True, why="The k-th call takes k/X."),
            Option(
                "How fast the client sends.",
                why="All are sent almost at once. They wait at the lock, not in the client's loop.",
            ),
        ),
    ),
    QuizQuestion(
        "02.safe",
        "X is the most that a server can answer in a second. When is a sender without a limit safe "
        "for ever?",
        (
            Option("With 1 TB of memory.", why="A backlog that grows fills any memory."),
            Option("When λ ≤ X.", right=True, why="Then the backlog does not grow."),
            Option(
                "When calls have a deadline.",
                why="A deadline bounds the backlog only if λ · deadline fits into memory. "
                "And the calls fail.",
            ),
        ),
    ),
)


# ---- what the claims depend on -------------------------------------------------------------------


def overlaps(run: Run) -> bool:
    """Whether the calls took less than a quarter of the time that they take one after the other."""
    return run.window_s < 0.25 * run.issued * _read_s(run)


def none_faster_than_disk(run: Run) -> bool:
    """Whether each call took at least its disk time."""
    return bool(run.calls["residence_s"].min() >= _read_s(run))


def no_faster_than_lock(run: Run) -> bool:
    """Whether the rate is at most 1/S, within 1 %."""
    return run.answered_per_s < 1.01 / _read_s(run)


def middle_share(run: Run) -> float:
    """Residence of the median call, as a share of that of the slowest one."""
    return run.latency_s(0.5) / last_residence_s(run)


def is_a_line(share: float) -> bool:
    """Whether the median call took about half as long as the last one."""
    return 0.35 < share < 0.65


def costs_more(kb: float) -> bool:
    """Whether a call in flight takes more than twice what it carries."""
    return kb > 2 * CARRIED_KB


def stayed_below(run: Run) -> bool:
    """Whether the run ended at its ceiling, and memory exceeded it by less than 10 %."""
    ceiling = float(run.settings["memory_ceiling_bytes"])
    return run.outcome == "memory ceiling" and memory_experiment.most_bytes(run) < 1.10 * ceiling


def is_counted_twice(run: Run) -> bool:
    """Whether as many calls ended, each in one way, as were sent."""
    return run.issued == len(run.records) and accounts(run).balanced


def given_up(ends: Mapping[str, int]) -> float:
    """The share of the calls that the client cancelled."""
    return ends.get("CANCELLED", 0) / sum(ends.values())


def mostly_given_up(ends: Mapping[str, int]) -> bool:
    """Whether most calls were in flight when the ceiling came."""
    return given_up(ends) > 0.8


def costs(probe: Run) -> pd.DataFrame:
    """What the probe says of each process: memory without calls, and for each call in flight."""
    seen = memory_experiment.probe(probe)
    return rounded(
        pd.DataFrame(
            {
                side: {
                    "without calls (MB)": round(line.base_bytes / 1e6, 1),
                    "for each call in flight (kB)": round(line.bytes_per_call / 1e3, 1),
                    "sent, λ (calls/s)": round(seen.sent_per_s),
                    "answered, X (calls/s)": round(seen.answered_per_s, 1),
                }
                for side, line in seen.lines.items()
            }
        )
    )
