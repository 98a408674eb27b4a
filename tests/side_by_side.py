"""In which order `python3 course.py test` runs the tests: most side by side, some alone.

Most tests look at what happened, whatever else the machine does meanwhile, so several processes
of pytest-xdist work through them, a file at a time. What a lesson measures is another matter: the
files of `ALONE` wait until all others are done, and then their tests run one by one.
"""

from typing import TYPE_CHECKING

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

ALONE = (
    "tests/test_further_notebooks.py",
    "tests/test_notebooks.py",
)
"""Files with tests that compare what they measure with a prediction."""


class SideBySideThenAlone(LoadScopeScheduling):
    """Hands files to workers as they come free; when all are done, one worker gets the rest."""

    def __init__(self, config, log=None) -> None:
        super().__init__(config, log)
        self._alone: dict[str, dict[str, bool]] = {}  # held back from the queue

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.split("::", 1)[0]

    def schedule(self) -> None:
        """Share out what was collected; called once all workers have told what they found."""
        if self.collection is not None or not self._check_nodes_have_same_collection():
            return
        self.collection = list(next(iter(self.registered_collections.values())))
        units: dict[str, dict[str, bool]] = {}
        for nodeid in self.collection:
            units.setdefault(self._split_scope(nodeid), {})[nodeid] = False
        self._alone = {file: units.pop(file) for file in ALONE if file in units}
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
