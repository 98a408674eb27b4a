"""The processors of this machine as stations, and the path of one call as a figure."""

from matplotlib.axes import Axes

from kvstore import numbers
from kvstore.course.views import style, time_by_station_table
from kvstore.measure import Run, cores
from kvstore.measure.cpu_cost import cpu_per_call_s, serial_s
from kvstore.model import Station


def cpu_stations(run: Run) -> list[Station]:
    """Return the processors as stations, each with the service demand that this run showed.

    A Python process runs one thread of Python at a time. So each process counts as one core, with
    the CPU time of that thread. If client and server together need more than all cores, there
    is one station for all cores.
    """
    together_s, one = cpu_per_call_s(run).together_s, serial_s(run)
    if together_s / cores() > one.larger_s:
        name = "CPU of all cores" if cores() > 1 else "the one core"
        return [Station(name, together_s / cores())]
    return [
        Station("CPU of the client", one.client_s),
        Station("CPU of the server", one.server_s),
    ]


def draw_path(run: Run) -> Axes:
    """Draw the mean time at each station of a call as a bar, all to one scale, in their order."""
    means_ms = time_by_station_table(run).iloc[0]
    shown = [name for name in style.STATIONS if f"{name} (ms)" in means_ms]
    with style.canvas(height_in=3.8, rows=shown, title="Where this call spent its time") as ax:
        for row, name in enumerate(shown):
            colour, hatch = style.STATIONS[name]
            spent_ms = float(means_ms[f"{name} (ms)"])
            ax.barh(row, spent_ms, color=colour, hatch=hatch, edgecolor="black")
            ax.annotate(
                numbers.seconds(spent_ms / 1e3),
                (spent_ms, row),
                (8, 0),
                textcoords="offset points",
                va="center",
                weight="bold",
            )
        whole_ms = float(means_ms["whole residence (ms)"])
        ax.set_xlim(0.0, 1.1 * whole_ms)
        ax.set(xlabel=f"time (ms), {numbers.seconds(whole_ms / 1e3)} in all", ylabel="station")
    return ax
