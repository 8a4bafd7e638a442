"""How the documentation is built: `sphinx-build -W --keep-going docs docs/_build`."""

import bbo_plugins

project = "bbo_plugins"
author = "bbo_plugins contributors"
copyright = "2026, bbo_plugins contributors"  # noqa: A001 - Sphinx's name for it
release = bbo_plugins.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"bbo_plugins {release}"

# GitHub's Markdown and nothing beyond, so that the pages can be read there too; headings are link
# targets, as they are there.
myst_heading_anchors = 3

# Signatures as they are written: short names, and defaults that are not evaluated.
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
python_use_unqualified_type_names = True
