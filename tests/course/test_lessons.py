from kvstore.course import lessons, progress
from tools.run_notebooks import is_further, lessons_in


def shown(page):
    lessons.your_progress()
    return page[-1]["text/plain"]


def test_a_newcomer_sees_no_empty_table(page):
    lessons.your_progress()

    assert not page


def test_a_lesson_that_was_begun_is_gone_on_with(page):
    progress.keep_prediction("01.mix", 20.0, "calls/s")
    progress.ask("01.reads")

    assert "1 of 2" in shown(page)
    assert "Go on with `01_blocking`." in shown(page)


def test_after_a_lesson_comes_the_next_that_exists(page):
    progress.keep_prediction("03.mix", 20.0, "calls/s")
    progress.record_answer("03.limit", "passed", "")

    assert "Go on with `04_server`." in shown(page)


def test_an_exercise_that_was_only_looked_at_keeps_the_lesson_open(page):
    progress.keep_prediction("01.mix", 20.0, "calls/s")
    progress.record_answer("01.loop", "not attempted", "")

    assert "Go on with `01_blocking`." in shown(page)


def test_the_notebooks_come_in_the_order_of_the_map():
    """The number of a lesson is its name; its place is declared."""
    core = [path.stem for path in lessons_in() if not is_further(path)]

    assert core == list(lessons.LESSONS.values())


def test_every_lesson_is_in_a_part_and_stands_beside_its_title(page):
    for number in lessons.LESSONS:
        progress.keep_prediction(f"{number}.mix", 20.0, "calls/s")
    rows = shown(page).splitlines()

    assert list(lessons.LESSONS) == [each for part in lessons.parts().values() for each in part]
    for title, numbers in lessons.parts().items():
        beside = [row.split(title)[1].split()[0] for row in rows if row.strip().startswith(title)]
        assert beside == [lessons.LESSONS[number] for number in numbers]
