"""Make the picture of the README: `python3 -m tools.picture` writes `docs/replay.png`.

It shows two runs that are made now: 40 calls in flight, behind one lock and with a lock for each
key. It has no throughput, because the README asks for it. It needs Chromium and the extra `dev`.
"""

import io
import shutil
import tempfile
from pathlib import Path
from typing import Final

from PIL import Image

from kvstore.client import load, strategies, workload
from kvstore.course.replays import replay
from kvstore.measure import Run
from kvstore.server import serving

FILE: Final = Path(__file__).resolve().parent.parent / "docs" / "replay.png"
WIDTH, COLOURS = 1000, 64
STATIONS: Final = 178 / 252
"""The part of a replay's height above its strips of throughput."""
CHROMIUM: Final = ("chromium", "chromium-browser", "google-chrome")


def runs() -> dict[str, Run]:
    """Run the course's client against both servers for six seconds each."""
    made = {}
    for name, locking in ("one lock", "global"), ("a lock for each key", "per_key"):
        disk = {"read_delay_s": 0.05, "write_delay_s": 0.25}
        with serving(locking=locking, station_times=True, use_asyncio=True, **disk) as server:
            made[name] = load.run(
                strategies.bounded, server, workload.crud(seed=3), in_flight=40, duration_s=6
            )
    return made


def picture(html: str) -> Image.Image:
    """Return the stations of each run in the page. Raises RuntimeError without Chromium."""
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found is None:
        raise RuntimeError("no chromium on the PATH: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        page_file = Path(folder, "page.html")
        page_file.write_text(f"<!doctype html><meta charset=utf-8>{html}", "utf-8")
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 400})
        page.goto(page_file.as_uri())
        runs = [
            Image.open(io.BytesIO(canvas.screenshot()))
            for canvas in page.locator(".rpc-replay canvas").all()
        ]
        browser.close()
    height = round(STATIONS * runs[0].height)
    stacked = Image.new("RGB", (runs[0].width, height * len(runs)), "white")
    for number, each in enumerate(runs):
        stacked.paste(each.crop((0, 0, each.width, height)), (0, number * height))
    return stacked


def main() -> None:
    """Make the runs, and write the picture with a small palette."""
    shown = picture(replay(runs(), start_s=4.0).html)
    shown.quantize(COLOURS, dither=Image.Dither.NONE).save(FILE, optimize=True)
    print(f"{FILE.name}: {FILE.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
