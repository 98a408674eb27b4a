"""One run counted three times: by the sender, by the records, by the server."""

from collections.abc import Mapping

import pandas as pd

from kvstore.course.views.inputs import by_row, rounded
from kvstore.measure import Run, audit


def counting_table(runs: Mapping[str, Run]) -> pd.DataFrame:
    """Both sides of Little's law for each run, and its calls as three parties counted them.

    "L" is counted by walking along the time axis; "X·R" is computed from the rate and the mean
    residence time. The server's count is missing where it reported none.
    """
    rows = []
    for name, run in runs.items():
        law = audit(run)
        rows.append(
            {
                "run": name,
                "L (mean in flight)": law.in_flight_mean,
                "X·R": law.sent_per_s * law.residence_mean_s,
                "calls sent": law.issued,
                "calls recorded": law.recorded,
                "calls counted by the server": sum(run.server.get("operations", {}).values()),
            }
        )
    return rounded(by_row(rows, "run"))
