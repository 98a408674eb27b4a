"""CPU cost from two sizes of message, the steps up to the largest, and batches on a disk."""

import dataclasses

import pytest
from made_runs import run_of

from kvstore.course.lessons.lesson_05 import batch_ladder, figures
from kvstore.measure import Cpu, Run, audit
from kvstore.model import Prediction
from kvstore.server import serving

COST = batch_ladder.Cost(per_message_s=90e-6, per_operation_s=1e-6)


def costing(seconds: float) -> Run:
    """A run of one message that took the client so long, and the server less."""
    made = run_of([(0.0, 1.0, "batch")])
    return dataclasses.replace(made, client_cpu=Cpu(seconds, 0), server_cpu=Cpu(seconds / 2, 0))


def test_two_sizes_give_a_and_b():
    found = batch_ladder.cost({1: costing(91e-6), 1_024: costing(1_114e-6)})

    assert pytest.approx(COST) == found
    assert found.throughput(10).value == pytest.approx(10 / 100e-6)
    assert found.enough() == pytest.approx(810)


def test_a_clock_too_coarse_for_b_leaves_it_almost_nothing():
    assert 0 < batch_ladder.cost({1: costing(0.02), 1_024: costing(0.01)}).per_operation_s < 1e-8


def test_the_size_that_is_furthest_off_is_found_whichever_way():
    costs = {10: costing(100e-6), 110: costing(100e-6), 210: costing(450e-6)}

    assert batch_ladder.worst_factor(costs, COST) == pytest.approx(2.0)
    assert batch_ladder.worst_factor({10: costs[10]}, COST) == pytest.approx(1.0)


def test_a_bound_is_compared_over_the_busy_time_only():
    """1 operation a second, a quarter of a core busy; 8 a second were possible."""
    run = dataclasses.replace(costing(0.25), client_cpu=Cpu(0.25, 0.0))

    assert batch_ladder.while_at_work(run, Prediction(8.0, "operations/s", "by hand")) == 0.5


def test_one_operation_that_was_not_ok_is_not_verified():
    good, bad = run_of([(0.0, 1.0, "batch")]), run_of([(0.0, 1.0, "batch", "NOT_FOUND")])

    assert (2, 0) == (
        batch_ladder.verified({1: good, 8: good}),
        batch_ladder.verified({1: good, 8: bad}),
    )


@pytest.fixture(scope="module")
def climbed() -> dict[int, Run]:
    with serving(read_delay_s=0, write_delay_s=0, locking="per_key", use_asyncio=True) as server:
        return batch_ladder.climb(server, (1, 32, 1_024), duration_s=0.1, rounds=1)


@pytest.mark.slow
@pytest.mark.usefixtures("no_windows")
class TestClimbed:
    def test_every_operation_is_answered_and_verified(self, climbed):
        assert batch_ladder.verified(climbed) == sum(run.operations_ok for run in climbed.values())
        assert all(audit(run).holds for run in climbed.values())
        assert [1, 32, 1_024] == [run.records["operations"].max() for run in climbed.values()]

    def test_the_picture_shows_what_was_gained_beside_what_it_cost(self, climbed):
        left, right = figures.climbed(climbed, COST, fitted=(1, 1_024))

        assert "(operations/s)" in left.get_ylabel()
        assert "(ms)" in right.get_ylabel()
        for ax in (left, right):
            dots = {line.get_label(): len(line.get_xdata()) for line in ax.lines}
            assert (2, 1) == (dots["gave a and b"], dots["tests them"])

    def test_the_ladder_begins_with_what_was_published(self, climbed):
        table = batch_ladder.ladder_table(batch_ladder.ladder(climbed))

        assert [1.0, 1.511, 151.1] == list(table["times the first"])[:3]
        assert "stream, k = 1,024" == table.index[-1]
