"""Exercises of lessons 00 and 01: right answers in other styles pass, wrong ones fail."""

import itertools
import math
import statistics
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import grpc
import numpy as np
import pytest
from hypothesis import given, settings

from kvstore.course.exercises.grading import judged
from kvstore.course.lessons.lesson_00 import exercises as lesson_00
from kvstore.course.lessons.lesson_01 import exercises as lesson_01
from kvstore.v1.kvstore_pb2 import CreateRequest, RetrieveRequest

# real calls, and hundreds of drawn inputs
pytestmark = pytest.mark.slow


# ---- the references, against slow and obvious ones -----------------------------------------------


@settings(deadline=None, max_examples=100)
@given(lesson_00.drawn_calls())
def test_the_mean_in_flight_is_what_counting_each_millisecond_gives(drawn):
    calls, window_s = drawn
    sent_ms, done_ms = (np.rint(1e3 * calls[name]).astype(int) for name in ("sent_s", "done_s"))
    bars = list(zip(sent_ms, done_ms, strict=True))
    levels = [sum(sent <= at < done for sent, done in bars) for at in range(round(1e3 * window_s))]

    assert lesson_00.mean_in_flight(calls, window_s) == pytest.approx(np.mean(levels))


@settings(deadline=None, max_examples=100)
@given(lesson_01.drawn_mixes())
def test_the_rate_of_a_mix_is_what_laying_the_calls_end_to_end_gives(drawn):
    sent, read_s, write_s = drawn
    at_s = 0.0
    for kind, count in sent.items():
        for _ in range(count):
            at_s += read_s if kind == "retrieve" else write_s

    assert lesson_01.calls_per_s(*drawn) == pytest.approx(sum(sent.values()) / at_s)


@settings(deadline=None, max_examples=50)
@given(lesson_00.drawn_load())
def test_the_utilisation_is_the_work_of_one_second(drawn):
    calls_per_s, cpu_us = drawn
    work_us = sum(itertools.repeat(cpu_us, int(calls_per_s)))

    assert lesson_00.utilisation(*drawn) == pytest.approx(work_us / 1_000_000)


# ---- 00.first_client -----------------------------------------------------------------------------


def _with_call(stub, items):
    for key, value in items:
        stub.Create.with_call(CreateRequest(key=key, value=value))
    return [stub.Retrieve.with_call(RetrieveRequest(key=key))[0].value for key, _ in items]


def _futures_one_at_a_time(stub, items):
    for key, value in items:
        stub.Create.future(CreateRequest(key=key, value=value)).result()
    return [stub.Retrieve.future(RetrieveRequest(key=key)).result().value for key, _ in items]


def _from_a_pool_of_one(stub, items):
    with ThreadPoolExecutor(1) as pool:
        list(pool.map(lambda item: stub.Create(CreateRequest(key=item[0], value=item[1])), items))
        replies = pool.map(lambda item: stub.Retrieve(RetrieveRequest(key=item[0])), items)
        return [reply.value for reply in replies]


def _through_a_queue(stub, items):
    queue, values = SimpleQueue(), []
    for key, value in items:
        stub.Create(CreateRequest(key=key, value=value), timeout=5)
        queue.put(key)
    while not queue.empty():
        values.append(stub.Retrieve(RetrieveRequest(key=queue.get())).value)
    return values


@pytest.mark.parametrize(
    "answer", [_with_call, _futures_one_at_a_time, _from_a_pool_of_one, _through_a_queue]
)
def test_a_first_client_in_another_style_passes(answer):
    verdict = judged(lesson_00.FIRST_CLIENT, answer)

    assert verdict.passed, verdict.message


def _last_item_left_out(stub, items):
    return lesson_00.first_client(stub, items[:-1])


def _reversed_reads(stub, items):
    for key, value in items:
        stub.Create(CreateRequest(key=key, value=value))
    return [stub.Retrieve(RetrieveRequest(key=key)).value for key, _ in items[::-1]][::-1]


def _key_and_value_swapped(stub, items):
    return lesson_00.first_client(stub, [(value, key) for key, value in items])


def _reading_twice(stub, items):
    lesson_00.first_client(stub, items)
    return [stub.Retrieve(RetrieveRequest(key=key)).value for key, _ in items]


def _a_dictionary(stub, items):
    return dict(zip([key for key, _ in items], lesson_00.first_client(stub, items), strict=True))


def _sorted_values(stub, items):
    return sorted(lesson_00.first_client(stub, items))


def _first_key_always(stub, items):
    for key, value in items:
        stub.Create(CreateRequest(key=key, value=value))
    return [stub.Retrieve(RetrieveRequest(key=items[0][0])).value for _ in items]


def _reads_at_once(stub, items):
    for key, value in items:
        stub.Create(CreateRequest(key=key, value=value))
    calls = [stub.Retrieve.future(RetrieveRequest(key=key)) for key, _ in items]
    return [call.result().value for call in calls]


@pytest.mark.parametrize(
    "answer",
    [
        _last_item_left_out, _reversed_reads, _key_and_value_swapped, _reading_twice,
        _a_dictionary, _sorted_values, _first_key_always, _reads_at_once,
        lambda stub, items: [], lambda stub, items: [b"hot " + value for _, value in items],
    ],
)  # fmt: skip
def test_a_wrong_first_client_fails(answer):
    assert judged(lesson_00.FIRST_CLIENT, answer).outcome == "not yet"


# ---- 01.read_all ---------------------------------------------------------------------------------


def _with_match(stub, keys, deadline_s):
    def one(key):
        try:
            return stub.Retrieve(RetrieveRequest(key=key), timeout=deadline_s).value
        except grpc.RpcError as error:
            match error.code():
                case grpc.StatusCode.NOT_FOUND:
                    return None
            raise

    return [one(key) for key in keys]


def _with_futures(stub, keys, deadline_s):
    values = []
    for key in keys:
        call = stub.Retrieve.future(RetrieveRequest(key=key), timeout=deadline_s)
        missing = call.code() is grpc.StatusCode.NOT_FOUND  # waits for the end
        values.append(None if missing else call.result().value)
    return values


def _with_a_generator(stub, keys, deadline_s):
    def values():
        for key in keys:
            try:
                reply, _ = stub.Retrieve.with_call(RetrieveRequest(key=key), deadline_s)
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.NOT_FOUND:
                    raise
                yield None
            else:
                yield reply.value

    return list(values())


@pytest.mark.parametrize("answer", [_with_match, _with_futures, _with_a_generator])
def test_a_loop_with_a_deadline_in_another_style_passes(answer):
    verdict = judged(lesson_01.READ_ALL, answer)

    assert verdict.passed, verdict.message


def _stopping_at_a_missing_key(stub, keys, deadline_s):
    values = []
    for key in keys:
        try:
            values.append(stub.Retrieve(RetrieveRequest(key=key), timeout=deadline_s).value)
        except grpc.RpcError:
            break
    return values


def _empty_for_missing(stub, keys, deadline_s):
    return [value or b"" for value in lesson_01.read_all(stub, keys, deadline_s)]


def _none_for_empty(stub, keys, deadline_s):
    return [value or None for value in lesson_01.read_all(stub, keys, deadline_s)]


def _raising_late(stub, keys, deadline_s):
    values, last = [], None
    for key in keys:
        try:
            values.append(stub.Retrieve(RetrieveRequest(key=key), timeout=deadline_s).value)
        except grpc.RpcError as error:
            values.append(None)
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                last = error
    if last:
        raise last
    return values


def _retrying(stub, keys, deadline_s):
    values = []
    for key in keys:
        for _ in range(2):
            value = lesson_01.read_all(stub, [key], deadline_s)[0]
            if value is not None:
                break
        values.append(value)
    return values


def _deadline_of_its_own(stub, keys, deadline_s):
    return lesson_01.read_all(stub, keys, 1.0)


def _tenth_of_the_deadline(stub, keys, deadline_s):
    return lesson_01.read_all(stub, keys, deadline_s / 10)


def _swallowing_the_deadline(stub, keys, deadline_s):
    values = []
    for key in keys:
        try:
            values.append(stub.Retrieve(RetrieveRequest(key=key), timeout=deadline_s).value)
        except grpc.RpcError as error:
            ours = (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.DEADLINE_EXCEEDED)
            if error.code() not in ours:
                raise
            values.append(None)
    return values


def _sorted_keys(stub, keys, deadline_s):
    return lesson_01.read_all(stub, sorted(keys), deadline_s)


def _only_missing(stub, keys, deadline_s):
    values = []
    for key in keys:
        try:
            values.append(stub.Retrieve(RetrieveRequest(key=key), timeout=deadline_s).value)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.INTERNAL:
                raise
            values.append(None)
    return values


@pytest.mark.parametrize(
    "answer",
    [
        _stopping_at_a_missing_key, _empty_for_missing, _none_for_empty, _raising_late, _retrying,
        _deadline_of_its_own, _tenth_of_the_deadline, _swallowing_the_deadline, _sorted_keys,
        _only_missing, lambda stub, keys, deadline_s: [None for _ in keys],
    ],
)  # fmt: skip
def test_a_wrong_loop_with_a_deadline_fails(answer):
    assert judged(lesson_01.READ_ALL, answer).outcome == "not yet"


# ---- 00.mean_in_flight ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        lambda calls, window_s: sum(
            (c.done_s - c.sent_s) / window_s for c in calls.itertuples()
        ),
        lambda calls, window_s: (
            len(calls) / window_s * (calls["done_s"] - calls["sent_s"]).mean() if len(calls) else 0
        ),
        lambda calls, window_s: (
            (calls["done_s"].sum() - calls["sent_s"].sum()) / window_s
        ),
    ],
)  # fmt: skip
def test_a_mean_in_another_style_passes(answer):
    verdict = judged(lesson_00.MEAN_IN_FLIGHT, answer)

    assert verdict.passed, verdict.message


@pytest.mark.parametrize(
    "answer",
    [
        lambda calls, window_s: 0.6,
        lambda calls, window_s: len(calls),
        lambda calls, window_s: (calls["done_s"] - calls["sent_s"]).sum(),
        lambda calls, window_s: (calls["done_s"] - calls["sent_s"]).median() / window_s,
        lambda calls, window_s: calls["done_s"].sum() / window_s,
        lambda calls, window_s: (calls["done_s"].max() - calls["sent_s"].min()) / window_s,
        lambda calls, window_s: (
            len(calls) / window_s * (calls["done_s"] - calls["sent_s"]).mean()
        ),  # NaN for no call at all
        lambda calls, window_s: round((calls["done_s"] - calls["sent_s"]).sum() / window_s, 1),
        lambda calls, window_s: max(
            0.1, (calls["done_s"] - calls["sent_s"]).sum() / window_s
        ),
        lambda calls, window_s: str((calls["done_s"] - calls["sent_s"]).sum() / window_s),
    ],
)  # fmt: skip
def test_a_wrong_mean_fails(answer):
    assert judged(lesson_00.MEAN_IN_FLIGHT, answer).outcome == "not yet"


def test_the_smallest_input_that_fails_is_shown():
    verdict = judged(
        lesson_00.MEAN_IN_FLIGHT,
        lambda calls, window_s: len(calls) / window_s * (calls["done_s"] - calls["sent_s"]).mean(),
    )

    assert "calls from none" in verdict.message
    assert "`nan`" in verdict.message


# ---- 01.mix_to_rate ------------------------------------------------------------------------------


def _lengths(sent, read_s, write_s):
    return [read_s if kind == "retrieve" else write_s for kind in Counter(sent).elements()]


@pytest.mark.parametrize(
    "answer",
    [
        lambda sent, read_s, write_s: 1 / statistics.fmean(_lengths(sent, read_s, write_s)),
        lambda sent, read_s, write_s: statistics.harmonic_mean(
            [1 / each for each in _lengths(sent, read_s, write_s)]
        ),
        lambda sent, read_s, write_s: (
            sum(sent.values())
            / sum(n * (read_s if kind == "retrieve" else write_s) for kind, n in sent.items())
        ),
    ],
)
def test_a_rate_in_another_style_passes(answer):
    verdict = judged(lesson_01.MIX_TO_RATE, answer)

    assert verdict.passed, verdict.message


@pytest.mark.parametrize(
    "answer",
    [
        lambda sent, read_s, write_s: (
            sum(sent.values())
            / (sent["retrieve"] * read_s + (sum(sent.values()) - sent["retrieve"]) * write_s)
        ),  # accepted by the first edition
        lambda sent, read_s, write_s: 1 / 0.042,
        lambda sent, read_s, write_s: 1000 * lesson_01.calls_per_s(sent, read_s, write_s),
        lambda sent, read_s, write_s: round(lesson_01.calls_per_s(sent, read_s, write_s)),
        lambda sent, read_s, write_s: lesson_01.calls_per_s(sent, write_s, read_s),
        lambda sent, read_s, write_s: statistics.harmonic_mean(
            _lengths(sent, read_s, write_s)
        ),
        lambda sent, read_s, write_s: 1 / statistics.median(_lengths(sent, read_s, write_s)),
        lambda sent, read_s, write_s: (
            (sent.get("retrieve", 0) + sent.get("update", 0))
            / (sent.get("retrieve", 0) * read_s + sent.get("update", 0) * write_s)
        ),
        lambda sent, read_s, write_s: 1 / min(read_s, write_s),
        lambda sent, read_s, write_s: math.inf,
    ],
)  # fmt: skip
def test_a_wrong_rate_fails(answer):
    assert judged(lesson_01.MIX_TO_RATE, answer).outcome == "not yet"


def test_a_known_mistake_has_its_message_and_the_input_that_shows_it():
    verdict = judged(
        lesson_01.MIX_TO_RATE,
        lambda sent, read_s, write_s: (
            sum(sent.values())
            / (sent["retrieve"] * read_s + (sum(sent.values()) - sent["retrieve"]) * write_s)
        ),
    )

    assert "A kind that is not in `sent` was not sent" in verdict.message
    assert "KeyError" in verdict.message


# ---- further: 00.utilisation, 00.median_ms -------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        lambda calls_per_s, cpu_us: calls_per_s * cpu_us / 1e6,  # rejected by the first edition
        lambda calls_per_s, cpu_us: calls_per_s / 1e3 * (cpu_us / 1e3),
        lambda calls_per_s, cpu_us: calls_per_s * (cpu_us * 1e-6),
    ],
)
def test_a_utilisation_in_another_style_passes(answer):
    assert judged(lesson_00.UTILISATION, answer).passed


@pytest.mark.parametrize(
    "answer",
    [
        lambda calls_per_s, cpu_us: min(1.0, calls_per_s * cpu_us / 1e6),
        lambda calls_per_s, cpu_us: calls_per_s * cpu_us,
        lambda calls_per_s, cpu_us: calls_per_s * cpu_us / 1e3,
        lambda calls_per_s, cpu_us: calls_per_s * cpu_us / 1e9,
        lambda calls_per_s, cpu_us: calls_per_s + cpu_us / 1e6,
        lambda calls_per_s, cpu_us: 0.005,
        lambda calls_per_s, cpu_us: calls_per_s * cpu_us // 1e6,
        lambda calls_per_s, cpu_us: round(calls_per_s * cpu_us / 1e6, 2),
    ],
)
def test_a_wrong_utilisation_fails(answer):
    assert judged(lesson_00.UTILISATION, answer).outcome == "not yet"


def _times_ms(stub, operations):
    times_ms = []
    for operation in operations:
        began_s = time.perf_counter()
        operation.rpc(stub)(operation.request)
        times_ms.append(1e3 * (time.perf_counter() - began_s))
    return times_ms


@pytest.mark.parametrize(
    "answer",
    [
        lambda stub, operations: min(_times_ms(stub, operations)),  # accepted by the first edition
        lambda stub, operations: _times_ms(stub, operations)[-1],  # one Retrieve: accepted as well
        lambda stub, operations: _times_ms(stub, operations)[0],
        lambda stub, operations: _times_ms(stub, operations)[len(operations) // 2] / 2,
        lambda stub, operations: max(_times_ms(stub, operations)),
        lambda stub, operations: statistics.fmean(_times_ms(stub, operations)),
        lambda stub, operations: statistics.median(_times_ms(stub, operations)) * 1e3,
        lambda stub, operations: statistics.median(_times_ms(stub, [*operations, operations[-1]])),
        lambda stub, operations: math.nan * len(_times_ms(stub, operations)),
    ],
)
def test_a_wrong_median_fails(answer):
    assert judged(lesson_00.MEDIAN_MS, answer).outcome == "not yet"


@pytest.mark.parametrize(
    "answer",
    [
        lambda stub, operations: sorted(_times_ms(stub, operations))[len(operations) // 2],
        lambda stub, operations: float(np.quantile(_times_ms(stub, operations), 0.5)),
        lambda stub, operations: 1e3 * statistics.median(
            each / 1e3 for each in _times_ms(stub, operations)
        ),
    ],
)  # fmt: skip
def test_a_median_in_another_style_passes(answer):
    verdict = judged(lesson_00.MEDIAN_MS, answer)

    assert verdict.passed, verdict.message


def test_a_read_that_overtakes_its_create_is_told_that_calls_overlapped():
    """The read fails; what the learner has to change is that nothing waits for the create."""

    def reads_first(stub, operations):
        calls = [each.rpc(stub).future(each.request) for each in reversed(operations)]
        return statistics.median(call.result() is None for call in reversed(calls))

    verdict = judged(lesson_00.MEDIAN_MS, reads_first)

    assert "Calls overlapped" in verdict.message


@pytest.mark.parametrize("times", [1, 1.8])
def test_a_median_is_judged_only_where_reads_are_far_quicker_than_writes(times, monkeypatch):
    """A busy machine makes all calls alike; so does a disk that writes nearly as fast as it reads.

    There a call at the right place in the order may pass for the median.
    """
    monkeypatch.setattr(lesson_00, "WRITE_S", times * lesson_00.READ_S)
    monkeypatch.setattr(lesson_00, "SLOWER", (20,))

    verdict = judged(lesson_00.MEDIAN_MS, lesson_00.median_ms)

    assert verdict.outcome == "not yet"
    assert "This machine is so busy" in verdict.message
