"""Lesson 01: a client of one's own that makes one call at a time."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from kvstore.client import load, workload
from kvstore.client.client import Client
from kvstore.client.schedule import Schedule
from kvstore.client.workload import create, retrieve, update
from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, near, not_yet, passed
from kvstore.measure import Run
from kvstore.server import serving

# Five times as fast as in the lesson. Locks are per key, so that overlapping really is faster.
READ_S, WRITE_S = 0.002, 0.010
KEYS = tuple(f"key {number}".encode() for number in range(1, 9))
MISSING = (KEYS[2], KEYS[5])

Keys = Sequence[bytes]
Answered = tuple[float, int]


def reads_then_writes(
    client: Client, keys: Sequence[bytes], read_s: float, write_s: float
) -> Answered:
    """Predict the time, then read every key and after that write every key, one at a time."""
    predicted_s = len(keys) * (read_s + write_s)
    operations = [retrieve(key) for key in keys] + [update(key, b"new") for key in keys]
    answers = [client.call(operation) for operation in operations]
    return predicted_s, sum(answer.status == "OK" for answer in answers)


class _Called(BaseException):
    """The answer has come to its first call; passes through its `except Exception`."""


class _NobodyThere:
    def __getattr__(self, verb: str) -> Any:
        raise _Called


def _judge_reads_then_writes(answer: Any) -> Verdict:
    with suppress(_Called, BaseExceptionGroup):  # a stub ends here and waits for no server
        answer(_NobodyThere(), list(KEYS), READ_S, WRITE_S)
    returned, run = _made_by(answer)
    wrong = _wrong_with_the_calls(run) or _wrong_with_the_numbers(returned, run)
    if wrong:
        return not_yet(wrong)
    predicted_s, ok = returned
    return passed(
        f"{ok} of {len(run.calls)} calls were answered OK, one at a time; you predicted "
        f"{_ms(predicted_s)}, and it took {_ms(run.window_s)}: the round trips come on top."
    )


def _made_by(answer: Callable[..., Any]) -> tuple[Any, Run]:
    """What the answer returned, and the run of the calls it made against a real server."""
    returned: list[Any] = []

    def prepare(client: Client, schedule: Schedule, in_flight: int) -> None:
        for key in KEYS:
            if key not in MISSING:
                client.call(create(key, b"old"))

    def attempt(client: Client, schedule: Schedule, in_flight: int) -> None:
        try:
            returned.append(answer(client, list(KEYS), READ_S, WRITE_S))
        finally:
            client.wait_until_idle()  # calls that were started and left are counted as well

    with serving(read_delay_s=READ_S, write_delay_s=WRITE_S, locking="per_key") as server:
        load.run(prepare, server, workload.crud(), calls=1, deadline_s=5.0)
        run = load.run(attempt, server, workload.crud(), calls=1, deadline_s=5.0)
    return returned[0], run


def _wrong_with_the_calls(run: Run) -> str:
    calls, count = run.calls, len(KEYS)
    kinds = [str(kind) for kind in calls["operation"]]
    if not kinds:
        return "no call reached the server: make each with `client.call(...)`."
    early = calls["sent_s"].to_numpy()[1:] < calls["done_s"].cummax().to_numpy()[:-1]
    if early.any():
        return (
            f"{int(early.sum())} of your {len(kinds)} calls were sent before the one ahead of them "
            f"was answered. It is faster, {_ms(run.window_s)}, but it is no longer one at a time: "
            "wait for each answer."
        )
    reads, writes = kinds.count("retrieve"), kinds.count("update")
    if reads < count or writes < count:
        return (
            f"{count} keys need {count} retrieves and {count} updates, but the server got {reads} "
            f"and {writes}. Two of the keys are not there: NOT_FOUND is an answer too, so go on "
            "with the next call."
        )
    if kinds != ["retrieve"] * count + ["update"] * count:
        return (
            f"each key once read, then each key once written, is {2 * count} calls: first all the "
            f"retrieves, then all the updates. You sent: {', '.join(kinds)}."
        )
    return ""


def _wrong_with_the_numbers(returned: Any, run: Run) -> str:
    try:
        predicted_s, ok = map(float, returned)
    except (TypeError, ValueError):
        return f"return two numbers, `predicted_s, ok`, got {returned!r}."
    found = run.outcomes().get("OK", 0)
    if ok != found:
        if ok == len(run.calls):
            return (
                f"you return {ok:g} as answered OK, which is every call you tried: "
                f"{len(run.calls) - found} of them ended NOT_FOUND. Look at `answer.status`."
            )
        if predicted_s == found:
            return "the two numbers are the other way round: first the prediction, then the count."
        return f"{found} calls were answered OK, and you return {ok:g}."
    return _wrong_with_the_prediction(predicted_s, run)


def _wrong_with_the_prediction(predicted_s: float, run: Run) -> str:
    count, exact_s = len(KEYS), len(KEYS) * (READ_S + WRITE_S)
    if 0.95 * exact_s <= predicted_s <= 1.35 * exact_s:  # who adds a round trip is right too
        return ""
    if near(predicted_s, 2 * count * max(READ_S, WRITE_S), share=1e-6):
        return (
            f"you predict {_ms(predicted_s)} as if every call were the worst case; it took "
            f"{_ms(run.window_s)}. Half of the calls are reads, and need {_ms(READ_S)} each."
        )
    if near(predicted_s, (count - len(MISSING)) * (READ_S + WRITE_S), share=1e-6):
        return (
            "your prediction leaves out the keys that are not there: the server looks for them on "
            "its disk all the same."
        )
    return (
        f"you predict {_ms(predicted_s)}, and it took {_ms(run.window_s)}: {count} calls of "
        f"{_ms(READ_S)} and {count} of {_ms(WRITE_S)}, laid end to end."
    )


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.4g} ms"


# Known-wrong answers, each as a learner would write it.


def _overlapping(client: Client, keys: Keys, read_s: float, write_s: float) -> Answered:
    operations = [retrieve(key) for key in keys] + [update(key, b"new") for key in keys]
    with ThreadPoolExecutor(len(operations)) as pool:
        answers = list(pool.map(client.call, operations))
    return len(keys) * (read_s + write_s), sum(answer.status == "OK" for answer in answers)


def _skipping_what_failed(client: Client, keys: Keys, read_s: float, write_s: float) -> Answered:
    there = [key for key in keys if client.call(retrieve(key)).status == "OK"]
    ok = [client.call(update(key, b"new")).status for key in there].count("OK")
    return len(keys) * (read_s + write_s), len(there) + ok


def _counting_attempts(client: Client, keys: Keys, read_s: float, write_s: float) -> Answered:
    predicted_s, _ = reads_then_writes(client, keys, read_s, write_s)
    return predicted_s, 2 * len(keys)


def _predicting_the_worst(client: Client, keys: Keys, read_s: float, write_s: float) -> Answered:
    _, ok = reads_then_writes(client, keys, read_s, write_s)
    return 2 * len(keys) * write_s, ok


def _key_by_key(client: Client, keys: Keys, read_s: float, write_s: float) -> Answered:
    ok = 0
    for key in keys:
        for operation in (retrieve(key), update(key, b"new")):
            ok += client.call(operation).status == "OK"
    return len(keys) * (read_s + write_s), ok


READS_THEN_WRITES = Exercise(
    id="01.reads_then_writes",
    title="A client of your own",
    statement=(
        "Write `reads_then_writes(client, keys, read_s, write_s)`. First predict the seconds it "
        "will take. Then retrieve every key, and after that update every key, one call at a time: "
        "`client.call(retrieve(key))` returns an answer with a `status`. Some keys are not there. "
        "Return `predicted_s, ok`: your prediction, and how many calls were answered OK."
    ),
    hints=(
        "`client.call` waits. Two loops over `keys` are already one call at a time.",
        "NOT_FOUND takes as long as any other answer and is not OK: `ok += answer.status == 'OK'`.",
        "Every key is read once and written once: n of `read_s` and n of `write_s`, end to end.",
    ),
    reference=reads_then_writes,
    wrong=(
        WrongAnswer(_overlapping, "no longer one at a time: wait for each"),
        WrongAnswer(_skipping_what_failed, "NOT_FOUND is an answer too"),
        WrongAnswer(_counting_attempts, "every call you tried"),
        WrongAnswer(_predicting_the_worst, "the worst case"),
        WrongAnswer(_key_by_key, "first all the retrieves"),
    ),
    judge=_judge_reads_then_writes,
)
