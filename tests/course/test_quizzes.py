import pytest

from kvstore.course import quiz

OPTIONS = ["twice", "the same", "half"]


@pytest.mark.parametrize("answer", ["the same", 1])
def test_unfolding_an_option_says_whether_it_is_right(page, answer):
    quiz("Twice the cores: what is X?", OPTIONS, answer, "the disk decides")

    html = page[-1]["text/html"]
    assert [fold.split("<b")[1].split(">")[1][0] for fold in html.split("<details>")[1:]] == [
        "✘",
        "✔",
        "✘",
    ]
    assert html.count("the disk decides") == 1
    assert "script" not in html


def test_each_wrong_option_may_say_why(page):
    quiz("?", {"a": "no, since <z>", "b": ""}, "b", "yes")

    assert "no, since &lt;z&gt;" in page[-1]["text/html"]


def test_the_plain_form_has_question_options_and_answer(page):
    quiz("How many?", OPTIONS, 0, "because")

    assert page[-1]["text/plain"].splitlines() == [
        "How many?",
        "  a) twice",
        "  b) the same",
        "  c) half",
        "Answer: a) because",
    ]


@pytest.mark.parametrize("answer", ["thrice", 3, -1, True])
def test_an_answer_that_is_no_option_is_refused(page, answer):
    with pytest.raises(ValueError, match="answer must be one of the options"):
        quiz("?", OPTIONS, answer, "")


def test_one_option_is_no_choice(page):
    with pytest.raises(ValueError, match="two or more"):
        quiz("?", ["a"], 0, "")
