"""A short name for a table of cases."""

import pytest

for_each = pytest.mark.parametrize
