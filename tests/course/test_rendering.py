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


def test_backticks_become_code_and_its_content_stays_escaped():
    assert rendering.inline("see `a < b`") == "see <code>a &lt; b</code>"


def test_markdown_shows_formulas_and_names_as_they_stand():
    assert rendering.markdown_escaped("a_b * c costs $5") == r"a\_b \* c costs \$5"
    assert rendering.markdown_escaped("`a_b`") == "`a_b`"


def test_the_plain_table_lines_up():
    lines = rendering.plain_table(["", "unit"], [["mine", "1"], ["measured", "20"]]).splitlines()

    assert lines == ["         unit", "mine        1", "measured   20"]


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
