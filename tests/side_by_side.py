"""In which order `python3 course.py test` runs the tests: most side by side, some alone.

Most tests look at what happened, whatever else the machine does meanwhile, so several processes
of pytest-xdist work through them, a file at a time. A test that waits leaves its core to others, so
there are more processes than cores. The lessons come first, one by one: most of the time of a
lesson is waiting, too. What a lesson measures can suffer from what runs beside it, so the tests of
`ALONE` wait until all others are done: those that repeat the lessons of which a claim did not hold,
and those from which a browser would suffer.
"""

from typing import TYPE_CHECKING

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

ONE_BY_ONE = (
    "tests/test_notebooks.py",
    "tests/course/test_exercises.py",
)
"""Files of long tests: each test may run in another process. They begin before all others."""
ALONE = (
    "tests/test_notebooks.py::test_the_claims_of_a_lesson_hold",
    "tests/test_other_machine.py",
)
"""Tests that compare what they measure with a prediction, or change the network of this machine."""


class SideBySideThenAlone(LoadScopeScheduling):
    """Hands files to workers as they come free; when all are done, one worker gets the rest."""

    def __init__(self, config, log=None) -> None:
        super().__init__(config, log)
        self._alone: dict[str, dict[str, bool]] = {}  # held back from the queue

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        alone = next((each for each in ALONE if nodeid.startswith(each)), None)
        return alone or (nodeid if test and file in ONE_BY_ONE else file)

    def schedule(self) -> None:
        """Share out what was collected; called once all workers have told what they found."""
        if self.collection is not None or not self._check_nodes_have_same_collection():
            return
        self.collection = list(next(iter(self.registered_collections.values())))
        units: dict[str, dict[str, bool]] = {}
        for nodeid in self.collection:
            units.setdefault(self._split_scope(nodeid), {})[nodeid] = False
        self._alone = {scope: units.pop(scope) for scope in ALONE if scope in units}
        first = {scope: units.pop(scope) for scope in [*units] if "::" in scope}
        self.workqueue.update(first)
        self.workqueue.update(reversed(units.items()))  # the longest files are the last collected
        for _ in range(2):  # a worker begins a test when it knows its next, or that there is none
            for node in self.nodes:
                self._reschedule(node)

    @property
    def tests_finished(self) -> bool:
        """Whether the workers may stop when they have done what they know of."""
        return not self._alone and super().tests_finished

    def mark_test_complete(
        self, node: "WorkerController", item_index: int, duration: float = 0
    ) -> None:
        """Note that a worker has done a test, and see whether it was the last of its phase."""
        super().mark_test_complete(node, item_index, duration)
        self._let_the_rest_begin()

    def _reschedule(self, node: "WorkerController") -> None:
        if self.workqueue or not self._alone or node is not self._last():
            super()._reschedule(node)  # more work, or the news that there is none
        self._let_the_rest_begin()

    def _let_the_rest_begin(self) -> None:
        last = self._last()
        others = [work for node, work in self.assigned_work.items() if node is not last]
        if self._alone and last and not self.workqueue and not any(map(self._pending_of, others)):
            self.workqueue.update(self._alone)
            self._alone = {}
            while self.workqueue:
                self._assign_work_unit(last)

    def _last(self) -> "WorkerController | None":
        """The worker that stays when the others have gone."""
        return next((node for node in self.nodes if not node.shutting_down), None)
