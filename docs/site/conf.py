"""How `make docs` makes a site of these pages, by Sphinx with Furo.

Search needs no server, and no page loads anything from elsewhere.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

project = "kconnect"
html_title = "kconnect"
extensions = ["myst_parser"]
exclude_patterns = ["site"]
# Pages link to headings of others, as on a page of a repository
myst_heading_anchors = 4
html_theme = "furo"
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "native"


def setup(app: Any) -> None:  # Sphinx is not among the tools of `make dev`
    """Copies pictures that pages name in HTML, for light and for dark screens: Sphinx does not look into these."""
    app.connect("build-finished", copy_pictures)


def copy_pictures(app: Any, error: Exception | None) -> None:
    """Called when the pages are written."""
    if error is None:
        shutil.copytree(Path(app.srcdir, "images"), Path(app.outdir, "images"), dirs_exist_ok=True)
