"""What `course.py lab` changes in JupyterLab's own export to HTML: the file works offline."""

from pathlib import Path

c = get_config()  # type: ignore[name-defined]  # noqa: F821
c.HTMLExporter.template_name = "course"
c.HTMLExporter.extra_template_basedirs = [str(Path(__file__).resolve().parent / "templates")]
c.HTMLExporter.preprocessors = ["tools.pages.Offline"]
