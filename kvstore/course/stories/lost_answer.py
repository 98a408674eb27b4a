"""An answer that is lost: the work was done, the caller does not know, and asks again."""

import time

import pandas as pd

from kvstore.client.channel import connected, target_of
from kvstore.client.client import Client
from kvstore.client.workload import Operation, retrieve

PATIENT_S = 10.0


def asked_again(server: object, operation: Operation, *, hasty_s: float) -> pd.DataFrame:
    """Ask with a deadline that is too short, ask again with a long one, then look what is there.

    `hasty_s` is to be shorter than the operation's disk, in seconds. One row for each call: the
    deadline, how it ended, and whether the value that is read is the one that was to be written.
    """
    target = target_of(server)
    rows = []
    with connected(target) as (channel, _):
        for asks, deadline_s in (
            (operation, hasty_s),
            (operation, PATIENT_S),
            (retrieve(operation.key), PATIENT_S),
        ):
            answer = Client(channel, target.address, deadline_s=deadline_s).call(asks)
            read = answer.value == operation.value if answer.value else ""
            rows.append(
                {
                    "asks": asks.name,
                    "deadline (s)": deadline_s,
                    "answer": answer.status,
                    "reads what was to be written": read,
                }
            )
            if len(rows) == 1:  # the first is at work, and is to change its key before the second
                time.sleep(hasty_s)
    return pd.DataFrame(rows, index=pd.RangeIndex(1, len(rows) + 1, name="call"))
