"""tables.py: a table reports every case that fails, and takes fixtures as any test does."""

import pytest
from tables import for_each


def test_every_case_runs_and_all_failures_are_reported(tmp_path):
    seen = []

    @for_each("number, even", [(1, True), (2, True), (3, True)])
    def check(number, even, tmp_path):
        seen.append((number, tmp_path))
        assert (number % 2 == 0) == even or number == 3
        if number == 3:
            with pytest.raises(ValueError, match="x"):  # fails with an error that is no `Exception`
                int("3")

    with pytest.raises(BaseExceptionGroup, match="2 of 3 cases failed") as failed:
        check(tmp_path=tmp_path)

    assert [(1, tmp_path), (2, tmp_path), (3, tmp_path)] == seen
    assert ["with number, even = 1, True", "with number, even = 3, True"] == [
        failure.__notes__[-1] for failure in failed.value.exceptions
    ]


@for_each("first", [1, 2])
@for_each(("second", "third"), [(3, 4)])
def test_tables_combine_and_leave_the_fixtures_to_pytest(first, second, third, tmp_path):
    assert first in (1, 2)
    assert (3, 4) == (second, third)
    assert tmp_path.is_dir()


def test_a_table_without_cases_checks_nothing_and_fails():
    @for_each("case", [])
    def check(case):
        pass

    with pytest.raises(AssertionError, match="without cases"):
        check()
