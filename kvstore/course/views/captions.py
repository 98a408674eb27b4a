"""A figure with a sentence below it, which is also its alternative text."""

import base64
import io

import matplotlib.pyplot as plt
from IPython.core.getipython import get_ipython
from IPython.display import display
from matplotlib.axes import Axes

from kvstore.course import rendering


def captioned(ax: Axes, text: str) -> None:
    """Show the figure of these axes, with `text` below it and as its alternative text.

    Compute the text from the run, so that it says what the figure shows here.
    """
    figure = ax.figure.get_figure(root=True)
    assert figure is not None
    picture = io.BytesIO()
    figure.savefig(picture, format="png", bbox_inches="tight")
    plt.close(figure)
    bundle = {"image/png": base64.b64encode(picture.getvalue()).decode("ascii"), "text/plain": text}
    if get_ipython() is not None:
        display(bundle, raw=True, metadata={"image/png": {"alt": text}})  # type: ignore[no-untyped-call]
    rendering.show({"text/plain": text, "text/html": f"<p><em>{rendering.inline(text)}</em></p>"})
