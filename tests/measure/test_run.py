"""run.py: every figure against numbers worked out by hand."""

import math

import pytest
from traces import Made, run_of

from kvstore.codes import (
    BATCH,
    CANCELLED,
    CREATE,
    KINDS,
    NO_ANSWER,
    NOT_FOUND,
    RETRIEVE,
    STATUSES,
)
from kvstore.measure import Cpu

DEADLINE_EXCEEDED, UNAVAILABLE = STATUSES.index("DEADLINE_EXCEEDED"), STATUSES.index("UNAVAILABLE")


def test_throughput_counts_what_was_answered_ok(run):
    assert 3 == run.operations_ok
    assert 3 / 10 == run.throughput_per_s


def test_a_refusal_is_an_answer_and_silence_is_not(run):
    assert 4 / 10 == run.answered_per_s


def test_mean_residence_is_over_every_call_whatever_its_end(run):
    assert (1 + 2 + 3 + 4 + 8) / 5 == run.mean_residence_s


def test_latency_is_over_the_calls_answered_ok(run):
    assert 1.0 == run.latency_s(0.0)
    assert 2.0 == run.latency_s(0.5)
    assert 4.0 == run.latency_s(1.0)


def test_a_call_that_was_due_is_late_from_then_on():
    """Sent 3 s late and answered in 1 s: 4 s for whoever wanted it, 1 s in flight."""
    late = run_of([Made(3.0, 4.0, due_s=0.0)])

    assert 4.0 == late.latency_s(0.5)
    assert 1.0 == late.mean_residence_s


def test_a_batch_counts_each_of_its_operations():
    batch = run_of([Made(0.0, 2.0, BATCH, NOT_FOUND, operations=8, ok_operations=7)])

    assert 7 == batch.operations_ok
    assert 3.5 == batch.throughput_per_s


def test_the_mix_is_the_share_of_each_kind_that_the_server_worked_on(run):
    assert {"create": 0.25, "retrieve": 0.25, "update": 0.25, "delete": 0.25} == run.mix()


@pytest.mark.parametrize("status", [1, DEADLINE_EXCEEDED, 8, UNAVAILABLE, NO_ANSWER])
def test_calls_that_cost_the_server_nothing_are_not_in_the_mix(status):
    assert {"retrieve": 1.0} == run_of([Made(0, 1, RETRIEVE), Made(0, 1, CREATE, status)]).mix()


def test_every_end_is_counted_under_its_name(run):
    assert {"OK": 3, "NOT_FOUND": 1, "NO_ANSWER": 1} == run.outcomes()
    assert run.issued == sum(run.outcomes().values())


def test_a_run_of_no_calls_has_figures_too():
    empty = run_of([], window_s=0.0)

    assert (0.0, 0.0, {}, {}) == (
        empty.throughput_per_s, empty.answered_per_s, empty.mix(), empty.outcomes()
    )  # fmt: skip
    assert math.isnan(empty.mean_residence_s)
    assert math.isnan(empty.latency_s(0.5))
    assert 0 == len(empty.calls)


def test_calls_are_a_table_with_words_in_order_of_sending(run):
    calls = run.calls

    assert [0.0, 0.5, 1.0, 1.5, 2.0] == calls["sent_s"].tolist()
    assert ["create", "retrieve", "update", "delete", "create"] == calls["operation"].tolist()
    assert ["OK", "OK", "NOT_FOUND", "OK", "NO_ANSWER"] == calls["status"].tolist()
    assert [1.0, 2.0, 3.0, 4.0, 8.0] == calls["residence_s"].tolist()


def test_every_code_has_its_word_in_the_table():
    rows = [Made(n, n + 1, n % len(KINDS), n) for n in range(len(STATUSES))]
    calls = run_of(rows).calls

    assert list(STATUSES) == calls["status"].tolist()
    assert set(KINDS) == set(calls["operation"])


def test_a_run_reads_as_a_sentence(run):
    assert (
        "<Run bounded x2: 0.3 operations/s over 10.0 s, p50 2,000.0 ms, p99 3,960.0 ms;"
        " 3 calls OK, 1 NOT_FOUND, 1 NO_ANSWER>"
    ) == repr(run)


def test_a_run_that_ended_early_says_so():
    assert repr(run_of([Made(0, 1)], outcome="interrupted")).endswith("[interrupted]>")


def test_processor_time_is_user_and_system():
    assert 1.75 == Cpu(1.5, 0.25).total_s


def test_a_run_without_an_answer_speaks_of_no_latency():
    run = run_of([Made(0, 1, status=CANCELLED)])

    assert "nan" not in repr(run)
