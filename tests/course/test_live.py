import dataclasses

import pytest
from made_runs import run_of, staircase

from kvstore.client import load
from kvstore.client.errors import RunInterrupted, ServerGone
from kvstore.client.strategies import bounded, futures
from kvstore.client.workload import crud
from kvstore.course import live, predict, progress, rendering, views
from kvstore.measure import Sample


@pytest.fixture
def screen(monkeypatch, page):
    """A page that can be drawn on: what was put on it, and what each update replaced."""
    put = []
    monkeypatch.setattr(live, "_has_page", lambda: True)
    monkeypatch.setattr(
        live, "display", lambda bundle, **how: put.append((how["display_id"], bundle))
    )
    monkeypatch.setattr(
        live.DisplayHandle,
        "update",
        lambda self, bundle, **how: put.append((self.display_id, bundle)),
    )
    return put


def sample(elapsed_s, answered):
    return Sample(elapsed_s, 3.0, answered + 3.0, answered, 1e8, 1e8, 5.0, 9.0)


def test_the_view_is_drawn_at_most_four_times_a_second_in_one_place(screen):
    view = live.View("bounded", duration_s=2.0, calls=None)
    for tick in range(20):
        view.look(sample(tick * 0.1, tick * 10.0))
    view.finish(staircase())

    assert {0.0, 0.3, 0.6} < {round(float(b["text/plain"].split()[1]), 1) for _, b in screen[:-1]}
    assert 6 <= len(screen) - 1 <= 8
    assert len({place for place, _ in screen}) == 1


def test_progress_tells_time_answers_and_the_latest_rate(screen):
    view = live.View("bounded", duration_s=2.0, calls=None)
    view.look(sample(0.0, 0.0))
    view.look(sample(1.0, 50.0))

    assert screen[-1][1]["text/plain"] == "bounded: 1.0 of 2 s, 50 answered, 50 calls/s"
    assert 'value="0.500"' in screen[-1][1]["text/html"]


def test_the_learners_prediction_is_drawn_in_the_figure_of_the_run(lesson_97, no_windows):
    predict("97.ms", 9)  # no rate
    predict("97.plain", 40)
    run = staircase()

    number = live.yours([progress.ask("97.ms"), progress.ask("97.plain")], run)
    near = views.plot_throughput_over_time(run, yours=number)
    far = views.plot_throughput_over_time(run, yours=100_000.0)

    assert 40.0 == number
    assert 40.0 in [line.get_ydata()[0] for line in near.lines]
    top = run.throughput_per_s * 3
    assert max(far.get_ylim()) < top  # the dots can still be told apart
    assert any("100,000" in text.get_text() for text in far.get_legend().get_texts())


def test_in_fast_mode_only_the_last_picture_is_drawn(screen, monkeypatch):
    monkeypatch.setenv("COURSE_MODE", "fast")
    view = live.View("bounded", 2.0, None)
    view.look(sample(0.0, 0.0))
    view.finish(staircase())

    assert ["image/png" in bundle for _, bundle in screen] == [True]


def test_without_a_page_nothing_is_drawn(monkeypatch, page):
    def never(*_, **__):
        raise AssertionError("something was displayed")

    monkeypatch.setattr(live, "display", never)
    view = live.View("bounded", 2.0, None)
    view.look(sample(0.0, 0.0))
    view.finish(staircase())

    assert not page


def test_the_run_is_that_of_load_and_closes_its_questions(screen, monkeypatch):
    made = staircase()
    seen = []

    def run(strategy, server, workload, *, on_sample, **options):
        assert progress.ask("01.reads_only").closed
        on_sample(sample(0.0, 0.0))
        return made

    monkeypatch.setattr(load, "run", run)

    assert made is live.run(
        bounded, "host:1", crud(), closes="01.reads_only", on_sample=seen.append, duration_s=1
    )
    assert len(seen) == 1
    assert predict("01.reads_only", 25).status == "refused"


def test_a_run_apart_is_watched_in_the_same_way(screen, monkeypatch):
    made = staircase()
    monkeypatch.setattr(live, "run_in_process", lambda *_, on_sample, rate_per_s: made)

    assert made is live.run(
        futures, "host:1", crud(), closes="02.ceiling", apart=True, rate_per_s=9
    )
    assert progress.ask("02.ceiling").closed
    assert "image/png" in screen[-1][1]


@pytest.mark.parametrize("ended", [RunInterrupted, lambda run: ServerGone("gone", run)])
def test_a_run_that_ends_early_is_drawn_and_then_raised(screen, monkeypatch, ended):
    error = ended(staircase())

    def run(*_, **__):
        raise error

    monkeypatch.setattr(load, "run", run)

    with pytest.raises(type(error)):
        live.run(bounded, "host:1", crud(), duration_s=1)
    assert "image/png" in screen[-1][1]


def test_an_error_before_the_end_leaves_no_progress_bar(screen, monkeypatch):
    def run(*_, on_sample, **__):
        on_sample(sample(0.0, 0.0))
        raise ValueError("no")

    monkeypatch.setattr(load, "run", run)

    with pytest.raises(ValueError, match="no"):
        live.run(futures, "host:1", crud(), duration_s=1)
    assert "given up" in screen[-1][1]["text/plain"]
    assert "text/html" not in screen[-1][1]


def test_one_sentence_says_what_to_do_about_the_gravest_doubt(screen, page):
    """100 callers whose last calls are as long as the run itself."""
    steady = run_of([(n / 100, n / 100 + 0.01, "create") for n in range(1000)])
    cut_short = run_of([(n / 1000, n / 1000 + 1.0, "create") for n in range(1000)], in_flight=100)
    stopped = dataclasses.replace(cut_short, clock_step_s=5.0)

    assert not any(text in live.in_words(steady) for text in live.ADVICE.values())
    assert live.ADVICE["short"] in live.in_words(cut_short)
    assert live.ADVICE["clock"] in live.in_words(stopped)
    assert live.ADVICE["short"] not in live.in_words(stopped)


def test_what_is_behind_the_sentence_is_in_a_fold(screen, page):
    live.View("a strategy", 1.0, None).finish(
        run_of([(n / 1000, n / 1000 + 1.0, "create") for n in range(1000)], in_flight=100)
    )
    shown = page[-1]
    visible, _, folded = shown["text/html"].partition("<details>")

    assert "were still open" not in visible + shown["text/plain"]
    assert "were still open" in folded


def test_a_run_without_a_figure_leaves_its_sentence_as_html_and_as_text(screen):
    """Plain text would break within a word, and show the marks of emphasis."""
    run = run_of([(n / 100, n / 100 + 0.01, "create") for n in range(1000)])
    live.View("a strategy", 1.0, None).finish_in_words(run)
    _, bundle = screen[-1]

    assert bundle["text/plain"] == live.in_words(run)
    assert bundle["text/html"] == rendering.inline(live.in_words(run))
