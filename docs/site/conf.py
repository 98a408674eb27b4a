"""Sphinx settings of the site. `course.py build site` writes the pages that this folder lacks."""

import json
from pathlib import Path

HERE = Path(__file__).parent
MADE = json.loads((HERE / "made.json").read_text("utf-8"))  # written by tools/website.py

project = "RPC throughput: predict, run, compare"
author = "the authors of the course"
language = "en"

extensions = ["myst_nb"]
root_doc = "course"  # the front page, index.html, is no page of Sphinx: see tools/front_page.py
exclude_patterns = ["front"]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # the lessons come executed
nb_merge_streams = True
nb_render_markdown_format = "myst"
# A lesson also publishes data for programs, and links into its own copies of the lessons.
suppress_warnings = ["mystnb.unknown_mime_type"]

html_theme = "furo"
html_title = project
html_static_path = ["_static"]
html_css_files = ["course.css", "asks.css"]
html_js_files = ["keyboard.js", "curve.js", "asks.js"]
templates_path = ["_templates"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_context = {"machine": MADE["machine"]}
# Everything is shipped: a page asks the internet for nothing.
mathjax_path = "mathjax/tex-svg.js"
mathjax3_config = {"options": {"enableMenu": False}}
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#00527f", "color-brand-content": "#00527f"},
    "dark_css_variables": {"color-brand-primary": "#7fc4ee", "color-brand-content": "#7fc4ee"},
}
