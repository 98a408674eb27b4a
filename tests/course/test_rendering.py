import pytest

from kvstore.course import rendering


def test_what_html_would_read_as_markup_is_shown_as_text():
    nasty = '<script>alert("x")</script> & more'

    for html in (
        rendering.inline(nasty),
        rendering.headline("!", nasty, "red"),
        rendering.table([nasty, "b"], [[nasty, nasty]]),
    ):
        assert "<script" not in html
        assert "&lt;script&gt;" in html


def test_a_text_becomes_a_sentence_and_a_symbol_keeps_its_form():
    for text, sentence in {
        "no call was lost": "No call was lost.",
        "a read takes 2 ms.": "A read takes 2 ms.",
        "k is 3": "k is 3.",
        "R / k: 3": "R / k: 3.",
        "round_robin: all four": "round_robin: all four.",
        "time.sleep ends": "time.sleep ends.",
        "min(N, c) holds": "min(N, c) holds.",
        "`threads` has 8": "`threads` has 8.",
        "is it so?": "Is it so?",
        "": "",
    }.items():
        assert rendering.as_sentence(text) == sentence


def test_backticks_become_code_and_its_content_stays_escaped():
    assert rendering.inline("see `a < b`") == "see <code>a &lt; b</code>"


def test_markdown_shows_formulas_and_names_as_they_stand():
    assert rendering.markdown_escaped("a_b * c costs $5") == r"a\_b \* c costs \$5"
    assert rendering.markdown_escaped("`a_b`") == "`a_b`"


def test_the_plain_table_lines_up():
    lines = rendering.plain_table(["", "unit"], [["mine", "1"], ["measured", "20"]]).splitlines()

    assert lines == ["         unit", "mine        1", "measured   20"]


def test_numbers_stand_on_the_right_of_a_column_and_sentences_on_the_left():
    """JupyterLab puts all cells of a table on the right."""
    html = rendering.table(["line", "points", "why"], [["target", "30.0", "the target was met"]])

    assert "<td>30.0</td>" in html
    assert '<th style="text-align: left">why</th>' in html
    assert '<td style="text-align: left">the target was met</td>' in html


@pytest.mark.parametrize(
    ("value", "shown"),
    [(4_448_547, "4,449,000"), (9_999, "9,999"), (27_322, "27,320"), (88.06, "88.1")],
)
def test_no_number_has_more_digits_than_a_run_can_tell(value, shown):
    assert rendering.number(value) == shown


def test_outside_of_a_notebook_the_plain_form_is_printed(capsys):
    rendering.show({"text/plain": "hello", "text/html": "<b>hello</b>"})

    assert capsys.readouterr().out == "hello\n"


def test_a_shown_result_is_not_put_twice_on_the_page_by_the_same_cell(page, monkeypatch):
    class Result(rendering.Shown):
        def _forms(self):
            return {"text/plain": "result"}

    monkeypatch.setattr(rendering, "_cell", lambda: 7)
    result = Result()
    result._show()
    result._ipython_display_()
    assert len(page) == 1

    monkeypatch.setattr(rendering, "_cell", lambda: 8)
    result._ipython_display_()
    assert len(page) == 2
