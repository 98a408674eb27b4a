"""The capstone: an unknown service in a process of its own, to measure, name, predict and improve.

    service      open_service(): the process, and what a learner asks of it
    clients      a plain and a patient client; the operations of a run
    scoreboard   the records of a class, from a folder

The settings of the service are in the other process (`kvstore.judge`), which computes the score.
"""

from kvstore.course.capstone.clients import patient, plain
from kvstore.course.capstone.scoreboard import scoreboard
from kvstore.course.capstone.service import Score, Service, open_service, records

__all__ = ["Score", "Service", "open_service", "patient", "plain", "records", "scoreboard"]
