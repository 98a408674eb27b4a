"""The simulator of lesson 08: calls that wait for a worker, first come, first served."""

from hypothesis import strategies as st

from kvstore.course import my_code
from kvstore.course.exercises import judges
from kvstore.course.exercises.grading import Drawn

response_times = my_code.course_version("laws.response_times")


def _working_ahead(arrivals_s: list[float], work_s: list[float], workers: int) -> list[float]:
    whole_s, times_s = 0.0, []
    for arrival_s, each_s in zip(arrivals_s, work_s, strict=True):
        whole_s += each_s / workers
        times_s.append(whole_s - arrival_s)
    return times_s


def _in_turn(arrivals_s: list[float], work_s: list[float], workers: int) -> list[float]:
    times_s = [0.0] * len(arrivals_s)
    for n in range(workers):
        times_s[n::workers] = response_times(arrivals_s[n::workers], work_s[n::workers])
    return times_s


def _times(least: int) -> "st.SearchStrategy[list[tuple[float, float]]]":
    gap_and_work = st.tuples(st.integers(0, 16), st.integers(least, 40))
    return st.lists(gap_and_work.map(lambda each: (each[0] / 8, each[1] / 8)), max_size=12)


def _inputs(drawn: tuple[list[tuple[float, float]], int]) -> dict[str, object]:
    at_s, arrivals_s = 0.0, []
    for gap_s, _ in drawn[0]:
        at_s += gap_s
        arrivals_s.append(at_s)
    return {
        "arrivals_s": arrivals_s,
        "work_s": [each_s for _, each_s in drawn[0]],
        "workers": drawn[1],
    }


judges("08.response_times")(
    Drawn(
        response_times,
        st.tuples(_times(1), st.integers(1, 3)).map(_inputs),
        helpers=(_in_turn, _working_ahead),
    )
)
