"""stories/climb.py: prices from two sizes, rungs up to the top, and batches on a disk."""

import dataclasses

import pytest
from made_runs import run_of

from kvstore.course.stories import climb, pictures
from kvstore.measure import Cpu, Run, audit
from kvstore.model import Prediction
from kvstore.server import serving

PRICE = climb.Cost(per_message_s=90e-6, per_operation_s=1e-6)


def priced(seconds: float) -> Run:
    """A run of one message that took the client so long, and the server less."""
    made = run_of([(0.0, 1.0, "batch")])
    return dataclasses.replace(made, client_cpu=Cpu(seconds, 0), server_cpu=Cpu(seconds / 2, 0))


def test_two_sizes_give_both_prices():
    found = climb.cost({1: priced(91e-6), 1_024: priced(1_114e-6)})

    assert pytest.approx(PRICE) == found
    assert found.throughput(10).value == pytest.approx(10 / 100e-6)
    assert found.gain(10).value == pytest.approx(10 * 91 / 100)
    assert found.enough() == pytest.approx(810)


def test_a_clock_too_coarse_for_b_leaves_it_almost_nothing():
    assert 0 < climb.cost({1: priced(0.02), 1_024: priced(0.01)}).per_operation_s < 1e-8


def test_the_size_that_is_furthest_off_is_found_whichever_way():
    prices = {10: priced(100e-6), 110: priced(100e-6), 210: priced(450e-6)}

    assert climb.worst_factor(prices, PRICE) == pytest.approx(2.0)
    assert climb.worst_factor({10: prices[10]}, PRICE) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("size", "group", "per_s", "binds"),
    [
        (1, False, 8 / 0.021, "the disk"),
        (16, False, 8 * 16 / 0.321, "the disk"),
        (16, True, 8 * 16 / 0.021, "the disk"),
        (9_910, True, 9_910 / 10e-3, "operations"),
    ],
)
def test_a_group_pays_the_disk_once_until_the_processor_binds(size, group, per_s, binds):
    predicted = climb.commit_throughput(size, PRICE, trip_s=0.001, group_commit=group)

    assert (pytest.approx(per_s), binds) == (predicted.value, predicted.binds)


def test_a_bound_is_held_against_the_time_at_work_only():
    """1 operation a second, a quarter of a core busy; 8 a second were possible."""
    run = dataclasses.replace(priced(0.25), client_cpu=Cpu(0.25, 0.0))

    assert climb.while_at_work(run, Prediction(8.0, "operations/s", "by hand")) == 0.5


def test_one_operation_that_was_not_ok_is_not_verified():
    good, bad = run_of([(0.0, 1.0, "batch")]), run_of([(0.0, 1.0, "batch", "NOT_FOUND")])

    assert (2, 0) == (climb.verified({1: good, 8: good}), climb.verified({1: good, 8: bad}))


@pytest.fixture(scope="module")
def climbed() -> dict[int, Run]:
    with serving(read_delay_s=0, write_delay_s=0, locking="per_key", use_asyncio=True) as server:
        return climb.climb(server, (1, 32, 1_024), duration_s=0.1, rounds=1)


@pytest.mark.slow
@pytest.mark.usefixtures("no_windows")
class TestClimbed:
    def test_every_operation_is_answered_and_verified(self, climbed):
        assert climb.verified(climbed) == sum(run.operations_ok for run in climbed.values())
        assert all(audit(run).holds for run in climbed.values())
        assert [1, 32, 1_024] == [run.records["operations"].max() for run in climbed.values()]

    def test_the_picture_shows_what_was_gained_beside_what_it_cost(self, climbed):
        left, right = pictures.climbed(climbed, PRICE, fitted=(1, 1_024))

        assert "(operations/s)" in left.get_ylabel()
        assert "(ms)" in right.get_ylabel()
        for ax in (left, right):
            dots = {line.get_label(): len(line.get_xdata()) for line in ax.lines}
            assert (2, 1) == (dots["gave a and b"], dots["tests them"])

    def test_the_ladder_begins_with_what_was_published(self, climbed):
        table = climb.ladder_table(climb.ladder(climbed))

        assert [1.0, 1.511, 151.1] == list(table["times the first"])[:3]
        assert "stream, k = 1,024" == table.index[-1]

    def test_commits_are_drawn_and_listed_for_both_settings(self):
        runs = {}
        for group in (False, True):
            with serving(
                write_delay_s=0.002, locking="per_key", use_asyncio=True, group_commit=group
            ) as server:
                runs[group] = climb.commits(server, (1, 4), duration_s=0.05)
        predicted = climb.commit_predictions((1, 4), PRICE, 0.001)

        assert 4 == len(climb.commit_table(runs, predicted))
        assert "(writes)" in pictures.commits(runs, predicted).get_xlabel()
