"""What lesson 02 asks."""

from kvstore.course.lessons.lesson_02 import memory_experiment
from kvstore.course.questions import Option, PredictionQuestion, QuizQuestion
from kvstore.measure import Run
from kvstore.model import Prediction


def _read_s(run: Run) -> float:
    return float(run.server.settings.read_delay_s)


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
        measured=lambda run: float(run.calls["residence_s"].max()),
        model=lambda run: Prediction(
            run.issued * _read_s(run), "s", f"{run.issued} calls go through the lock, one by one"
        ),
    ),
    PredictionQuestion(
        "02.ceiling",
        "After how many seconds does the sender reach the memory ceiling?",
        unit="s",
        measured=lambda probe, run: memory_experiment.stopped_s(run),
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
        "X is the most that a server can answer in a second. When does a sender without a limit "
        "not fill its memory?",
        (
            Option("With 1 TB of memory.", why="A backlog that grows fills any memory."),
            Option(
                "When λ < X on average, and the largest burst fits into memory.",
                right=True,
                why="Then each backlog drains again. At λ = X it need not: random arrivals leave "
                "gaps, and a gap that passed unused is not made up for.",
            ),
            Option(
                "When calls have a deadline.",
                why="A deadline bounds the backlog only if λ · deadline fits into memory. "
                "And the calls fail.",
            ),
        ),
    ),
)
