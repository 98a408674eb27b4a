"""Lesson 05: the race of three clients, the order of replies, messages, a link to a stream."""

import pytest
from made_runs import run_of

from kvstore.client import load
from kvstore.client.strategies import blocking
from kvstore.course import rendering
from kvstore.course.lessons.lesson_05 import figures, pipelining, rpc_pipeline
from kvstore.course.lessons.lesson_05.pipelining import Replication, a_log, replicate
from kvstore.measure import audit
from kvstore.server import serving

OVERTAKEN = run_of(
    [
        (0.000, 0.050, "update"),
        (0.001, 0.011, "retrieve"),
        (0.002, 0.012, "retrieve"),
        (0.011, 0.060, "retrieve"),
    ],
    in_flight=4,
)


class TestReplyOrder:
    def test_replies_in_order_wait_for_all_earlier_ones(self):
        assert [0.050, 0.050, 0.050, 0.060] == pipelining.in_order_done_s(OVERTAKEN.calls).tolist()
        table = pipelining.both_orders(OVERTAKEN)
        assert [0.0, 39.0, 38.0, 0.0] == table["held back (ms)"].tolist()

    def test_overtaken_calls_and_positions_of_replies_are_counted_from_one(self):
        assert 1 == pipelining.overtaken(OVERTAKEN)
        assert 0 == pipelining.overtaken(run_of([(0, 1, "update"), (0.5, 2, "update")]))
        assert [3, 1, 2, 4] == [pipelining.answered_as(OVERTAKEN, n) for n in (1, 2, 3, 4)]

    @pytest.mark.slow
    def test_the_slow_write_comes_first_and_is_the_only_one(self):
        with serving(read_delay_s=0, write_delay_s=0) as server:
            run = load.run(
                blocking, server, pipelining.SLOW_FIRST, calls=pipelining.SLOW_FIRST_CALLS
            )

        assert ["update"] + 47 * ["retrieve"] == run.calls["operation"].tolist()


@pytest.fixture(scope="module")
def runs():
    with serving(read_delay_s=0, write_delay_s=0, locking="per_key", use_asyncio=True) as server:
        return rpc_pipeline.race(server, calls=60, rounds=2)


class TestRace:
    @pytest.mark.slow
    def test_each_client_makes_all_its_calls_in_each_round(self, runs):
        assert [2, 2, 2, 2] == [len(repeated) for repeated in runs.values()]
        for repeated in runs.values():
            assert all({"OK": 60} == run.outcomes() and audit(run).holds for run in repeated)

    @pytest.mark.slow
    @pytest.mark.usefixtures("no_windows")
    def test_the_tables_and_the_figure_compare_with_the_published_ones(self, runs):
        shares = rpc_pipeline.ratios(runs)

        assert list(runs) == list(rpc_pipeline.as_published(runs).index) == list(shares.index)
        assert 1.0 == shares.loc["synchronous", "real here"]
        assert 0.35 == shares.loc["pipelined", "real published"]
        assert 0.92 == shares.loc["pipelined", "processor published"]
        assert list(runs) == [label.get_text() for label in figures.race(runs).get_yticklabels()]


def test_rounds_that_overlap_are_called_so():
    def lasting(*seconds):
        return [run_of([(0.0, each, "retrieve")]) for each in seconds]

    apart = {"synchronous": lasting(3.0, 4.0), "pipelined": lasting(1.0, 2.0)}
    mixed = {"synchronous": lasting(3.0, 4.0), "pipelined": lasting(1.0, 3.5)}

    assert rpc_pipeline.spread_in_words(apart).startswith("every pipelined round was faster")
    assert rpc_pipeline.spread_in_words(mixed).startswith("the rounds overlap, 1.00 to 3.50 s")


def test_a_message_is_shown_as_protobuf_with_its_comment(page):
    rendering.show_message("PipelineRequest", "CreateResponse")
    plain, markdown = page[0]["text/plain"], page[0]["text/markdown"]

    assert plain.startswith("// Operations are laid out as columns")
    assert "repeated bytes values = 4;\n}" in plain
    assert "```protobuf\n// Operations" in markdown
    assert markdown.endswith("message CreateResponse {}\n```")
    with pytest.raises(LookupError, match="no 'Nothing'"):
        rendering.show_message("Nothing")


def test_a_progress_bar_yields_everything_in_order():
    assert [3, 1, 2] == list(rendering.counted([3, 1, 2]))


@pytest.mark.slow
@pytest.mark.usefixtures("no_windows")
class TestPictures:
    def test_held_back_calls_are_drawn_behind_their_own_time(self):
        ax = figures.both_orders(OVERTAKEN)

        assert "wait with replies in order" in ax.get_legend_handles_labels()[1]

    def test_staircase_and_slab_share_one_clock(self):
        above, below = figures.staircase_and_slab(
            {"one": OVERTAKEN, "two": OVERTAKEN}, most=4, until_s=0.05
        )

        assert above.get_xlim() == below.get_xlim() == (0.0, 0.05)

    def test_a_log_is_drawn_with_what_was_predicted(self):
        with serving(write_delay_s=0.002, locking="per_key", use_asyncio=True) as follower:
            copies = [replicate(a_log(12, long_every=4), follower, window=w) for w in (1, 6)]

        for ax in (
            figures.commit_over_time(copies, 0.002),
            figures.stored_and_committed(copies[1]),
        ):
            assert "(entries)" in ax.get_ylabel()
            assert "(ms)" in ax.get_xlabel()
        assert isinstance(copies[0], Replication)
