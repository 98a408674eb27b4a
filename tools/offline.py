"""What an export to HTML needs so that the file works without a server and without the internet."""

from typing import Any

from nbconvert.preprocessors import Preprocessor
from nbformat import NotebookNode

from tools import pages


class Offline(Preprocessor):
    """Gives outputs their static form, and the page MathJax itself, where `.[site]` installed it.

    Without it, formulas are shown by MathJax from the internet, as ever.
    """

    def preprocess(
        self, nb: NotebookNode, resources: dict[str, Any]
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Change the notebook in place, and return it with the resources of the template."""
        pages.static(nb)
        resources.setdefault("course_head", "")
        try:
            source = pages.mathjax().read_text("utf-8")
        except FileNotFoundError:
            source = ""
        resources["mathjax_source"] = source.replace("</script", "<\\/script")
        return nb, resources
