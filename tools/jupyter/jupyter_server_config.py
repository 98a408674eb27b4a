"""What `course.py lab` changes in JupyterLab: pages work offline, words stay whole, a short log."""

from pathlib import Path

c = get_config()  # type: ignore[name-defined]  # noqa: F821
c.HTMLExporter.template_name = "course"
c.HTMLExporter.extra_template_basedirs = [str(Path(__file__).resolve().parent / "templates")]
c.HTMLExporter.preprocessors = ["tools.pages.Offline"]
c.LabApp.custom_css = True
c.ServerApp.tornado_settings = {
    "static_custom_path": [str(Path(__file__).resolve().parent / "custom")]
}
c.Application.logging_config = {
    "filters": {"useful": {"()": "tools.jupyter_log.Useful"}},
    "formatters": {"plain": {"()": "tools.jupyter_log.Plain"}},
    "handlers": {"console": {"filters": ["useful"], "formatter": "plain"}},
    "loggers": {"asyncio": {"filters": ["useful"]}},
}
