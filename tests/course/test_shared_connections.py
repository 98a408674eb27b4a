"""stories/shared_connections.py: a canary for the setting that keeps connections apart."""

import pytest

from kvstore.course.stories.shared_connections import callers_seen


@pytest.mark.parametrize(("apart", "callers"), [(False, 1), (True, 5)])
def test_channels_share_a_connection_unless_told_not_to(apart, callers, quick_server):
    assert callers == callers_seen(quick_server, 5, apart=apart)
