"""parts.py: parts worked out by hand, and Little's law on what they make together."""

import numpy as np
import pytest
from traces import CALLS, Made, random_trace, run_of

from kvstore.measure import Cpu, Outcome, Sample, audit
from kvstore.measure.parts import merge
from kvstore.measure.recorder import sample_rows

EARLY = Sample(0.0, 0, 0, 0, 1e8, 2e8, 5, 130)
LATE = Sample(4.0, 2, 5, 3, 2e8, 3e8, 6, 131)
OTHER = Sample(1.0, 1, 9, 8, 5e8, 4e8, 7, 129)


def test_counts_add_up_and_calls_lie_in_one_trace():
    other = [Made(0.25, 3.0), Made(3.0, 12.0)]
    merged = merge(
        [
            run_of(
                CALLS,
                client_cpu=Cpu(1.5, 0.25, 1.0),
                server_cpu=Cpu(2, 1, 2),
                issued=5,
                in_flight=3,
            ),
            run_of(other, client_cpu=Cpu(1.0, 0.5, 0.5), server_cpu=Cpu(2, 2, 3), in_flight=2),
        ]
    )

    assert (7, 5, 12.0) == (merged.issued, merged.in_flight, merged.window_s)
    assert [1.0, 2.5, 3.0, 4.0, 5.5, 10.0, 12.0] == list(merged.records["done_s"])
    assert (Cpu(2.5, 0.75, 1.5), Cpu(2, 2, 3)) == (merged.client_cpu, merged.server_cpu)
    assert (None, "global") == (merged.server.operations, merged.server.settings.locking)
    # 1 + 2 + 3 + 4 + 8 of the one and 2.75 + 9 of the other, over 12 seconds
    assert audit(merged).in_flight_mean == pytest.approx(29.75 / 12)
    assert audit(merged).holds


def test_littles_law_holds_on_any_parts():
    """Calls start and end at any time, overlap, touch, and sometimes take no time."""
    parts = [random_trace(seed) for seed in range(5)]
    merged = merge(parts)
    areas = [audit(part).in_flight_mean * part.window_s for part in parts]

    assert audit(merged).holds
    assert audit(merged).in_flight_mean * merged.window_s == pytest.approx(sum(areas))
    assert merged.throughput_per_s * merged.window_s == pytest.approx(1_500)


def test_connections_are_known_when_all_are(subtests):
    for counts, whole in [((2, 3), 5), ((2, 0), 0), ((0, 0), 0)]:
        with subtests.test(counts=counts, whole=whole):
            parts = [run_of(CALLS, connections=count, connect_s=[0.1] * count) for count in counts]

            assert whole == merge(parts).connections
            assert [0.1] * sum(counts) == merge(parts).connect_s


def test_connections_have_numbers_of_their_own():
    two = run_of(CALLS).records.copy()
    two["connection"] = [0, 1, 0, 1, 1]
    merged = merge([run_of([]), run_of(CALLS), run_of(CALLS, records=two), run_of(CALLS)])
    numbers, counts = np.unique(merged.records["connection"], return_counts=True)

    assert {1: 5, 2: 2, 3: 3, 4: 5} == dict(zip(numbers, counts, strict=True))
    assert {0, 1} == set(two["connection"])


def test_the_worst_outcome_is_that_of_the_whole(subtests):
    for outcomes, whole in [
        (("complete", "complete"), "complete"),
        (("interrupted", "complete"), "interrupted"),
        (("server unresponsive", "failed"), "failed"),
    ]:
        with subtests.test(outcomes=outcomes, whole=whole):
            assert whole == merge([run_of(CALLS, outcome=each) for each in outcomes]).outcome
            assert set(outcomes) <= set(Outcome)


def test_a_server_stopped_answering_when_the_last_part_had_its_last_answer():
    known = [{"a:1": 3.0}, {"a:1": 3.5, "b:2": 1.0}, {}]
    whole = merge([run_of(CALLS, unresponsive=each) for each in known])

    assert {"a:1": 3.5, "b:2": 1.0} == whole.unresponsive


def test_samples_hold_until_the_next():
    parts = [run_of(CALLS, sample_rows=sample_rows(each)) for each in ([EARLY, LATE], [OTHER])]
    samples = merge(parts).samples

    assert [0.0, 1.0, 4.0] == list(samples["elapsed_s"])
    assert [9, 9, 14] == list(samples["issued"])
    assert [6e8, 6e8, 7e8] == list(samples["client_rss_bytes"])
    assert [4e8, 4e8, 4e8] == list(samples["server_rss_bytes"])
    assert list(Sample._fields) == list(samples.columns)
