"""What lesson 05 plays again: the race, the order of replies, the contract, a link to a stream."""

import pytest
from made_runs import run_of

from kvstore.client import load
from kvstore.client.strategies import blocking
from kvstore.course.stories import contract, pictures, reply_order, rpc_pipeline
from kvstore.course.stories.counted import counted
from kvstore.course.stories.link import LinkError, linked
from kvstore.course.stories.replicated_log import Replication, a_log, replicate
from kvstore.measure import audit
from kvstore.model import bounds
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
    def test_in_order_a_reply_leaves_after_all_before_it(self):
        held = reply_order.in_order_done_s(OVERTAKEN.calls)

        assert [0.050, 0.050, 0.050, 0.060] == held.tolist()

    def test_both_orders_end_together_and_say_who_was_held_back(self):
        table = reply_order.both_orders(OVERTAKEN)

        assert [0.0, 39.0, 38.0, 0.0] == table["held back (ms)"].tolist()

    def test_the_overtaken_are_counted(self):
        assert 1 == reply_order.overtaken(OVERTAKEN)
        assert 0 == reply_order.overtaken(run_of([(0, 1, "update"), (0.5, 2, "update")]))

    def test_the_place_of_a_reply_counts_from_one(self):
        assert [3, 1, 2, 4] == [reply_order.answered_as(OVERTAKEN, n) for n in (1, 2, 3, 4)]

    @pytest.mark.slow
    def test_the_slow_write_comes_first_and_is_the_only_one(self):
        with serving(read_delay_s=0, write_delay_s=0) as server:
            run = load.run(
                blocking, server, reply_order.SLOW_FIRST, calls=reply_order.SLOW_FIRST_CALLS
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
    def test_the_tables_stand_beside_the_published_ones(self, runs):
        shares = rpc_pipeline.ratios(runs)

        assert list(runs) == list(rpc_pipeline.as_published(runs).index) == list(shares.index)
        assert 1.0 == shares.loc["synchronous", "real here"]
        assert 0.35 == shares.loc["pipelined", "real published"]
        assert 0.92 == shares.loc["pipelined", "processor published"]

    @pytest.mark.slow
    def test_the_stations_add_up_to_the_round_trip_and_the_delay(self, runs):
        parts = rpc_pipeline.Parts(0.001, 0.0001, 0.0002)

        way = rpc_pipeline.stations(parts, 0.010)

        assert pytest.approx(0.011) == sum(station.demand_s for station in way)
        assert pytest.approx(0.011 / 0.0002) == bounds.knee(way)
        assert rpc_pipeline.parts(runs).round_trip_s > 0

    @pytest.mark.slow
    @pytest.mark.usefixtures("no_windows")
    def test_the_figure_has_a_row_for_each_client(self, runs):
        ax = pictures.race(runs)

        assert list(runs) == [label.get_text() for label in ax.get_yticklabels()]


def test_rounds_that_overlap_are_called_so():
    def lasting(*seconds):
        return [run_of([(0.0, each, "retrieve")]) for each in seconds]

    apart = {"synchronous": lasting(3.0, 4.0), "pipelined": lasting(1.0, 2.0)}
    mixed = {"synchronous": lasting(3.0, 4.0), "pipelined": lasting(1.0, 3.5)}

    assert rpc_pipeline.spread_in_words(apart).startswith("every pipelined round was faster")
    assert rpc_pipeline.spread_in_words(mixed).startswith("the rounds overlap, 1.00 to 3.50 s")


class TestContract:
    def test_a_message_is_shown_with_the_comment_above_it(self):
        text = contract.definition("PipelineRequest")

        assert text.startswith("// Operations are laid out as columns")
        assert text.endswith("repeated bytes values = 4;\n}")

    def test_a_message_that_is_not_there_is_an_error(self):
        with pytest.raises(LookupError, match="no 'Nothing'"):
            contract.definition("Nothing")

    def test_it_reaches_the_page_as_protobuf(self, page, monkeypatch):
        monkeypatch.setattr(contract.rendering, "show", page.append)

        contract.show_message("CreateResponse")

        assert "```protobuf\nmessage CreateResponse {}\n```" in page[0]["text/markdown"]


@pytest.fixture(scope="module")
def server():
    with serving(read_delay_s=0.004, write_delay_s=0, locking="per_key", use_asyncio=True) as it:
        yield it


@pytest.mark.slow
class TestLink:
    def test_a_slow_read_is_overtaken_and_the_number_tells(self, server):
        with linked(server, {b"a": b"1", b"b": b"2"}, {b"a": 5}) as link:
            link.send(7, b"a")
            link.send(8, b"b")

            assert [(8, b"2"), (7, b"1")] == [link.receive(), link.receive()]
            assert 2 == link.most_open

    def test_what_can_never_end_well_is_an_error_that_says_so(self, server):
        with linked(server, {b"c": b"1"}) as link:
            with pytest.raises(LinkError, match="nothing to receive"):
                link.receive()
            link.send(1, b"c")
            with pytest.raises(LinkError, match="a number of its own"):
                link.send(1, b"c")


def test_counting_hands_out_everything_in_order():
    assert [3, 1, 2] == list(counted([3, 1, 2]))


@pytest.mark.slow
@pytest.mark.usefixtures("no_windows")
class TestPictures:
    def test_held_back_calls_are_drawn_behind_their_own_time(self):
        ax = pictures.both_orders(OVERTAKEN)

        assert "held back, were replies in order" in ax.get_legend_handles_labels()[1]

    def test_staircase_and_slab_share_one_clock(self):
        above, below = pictures.staircase_and_slab(
            {"one": OVERTAKEN, "two": OVERTAKEN}, most=4, until_s=0.05
        )

        assert above.get_xlim() == below.get_xlim() == (0.0, 0.05)

    def test_a_log_is_drawn_with_what_was_predicted(self):
        with serving(write_delay_s=0.002, locking="per_key", use_asyncio=True) as follower:
            copies = [replicate(a_log(12, long_every=4), follower, window=w) for w in (1, 6)]

        for ax in (
            pictures.commit_over_time(copies, 0.002),
            pictures.stored_and_committed(copies[1]),
        ):
            assert "(entries)" in ax.get_ylabel()
            assert "(ms)" in ax.get_xlabel()
        assert isinstance(copies[0], Replication)
