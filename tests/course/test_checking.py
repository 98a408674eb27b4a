from kvstore.course import NOT_ATTEMPTED, check, hint, progress, solution
from kvstore.course.exercises import base, find


def test_a_right_answer_is_passed_and_remembered(page):
    verdict = check("00.utilisation", find("00.utilisation").reference)

    assert verdict.passed
    assert "✔ Passed." in page[-1]["text/plain"]
    assert page[-1][base.MIME_TYPE]["exercise_id"] == "00.utilisation"
    assert progress.overview().loc["00", "exercises passed"] == "1 of 1"


def test_an_untouched_exercise_lets_the_notebook_go_on(page):
    assert check("00.utilisation", lambda x, d: NOT_ATTEMPTED).outcome == "not attempted"
    assert progress.overview().loc["00", "exercises passed"] == "0 of 1"


def test_messages_are_text_and_not_markup(page):
    def mine(x, d):
        raise ValueError("<img src=x>")

    check("00.utilisation", mine)

    assert "<img" not in page[-1]["text/html"]


def test_each_hint_goes_one_step_further_up_to_the_last(page):
    count = len(find("00.utilisation").hints)
    for _ in range(count + 1):
        hint("00.utilisation")

    steps = [bundle["text/plain"].split(".")[0] for bundle in page]
    assert [f"Hint {min(n, count)} of {count}" for n in range(1, count + 2)] == steps
    assert 'solution("00.utilisation")' in page[-1]["text/plain"]


def test_the_solution_is_the_source_that_passes_and_is_noted(page):
    solution("00.utilisation")

    assert "min(1.0, calls_per_s * demand_s)" in page[-1]["text/markdown"]
    assert progress.overview().loc["00", "solutions seen"] == 1
