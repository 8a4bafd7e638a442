"""Make the relative links of README.md absolute: a package index shows it without the repository.

`python .ci/absolute_links.py OWNER/NAME TAG` changes the file; the release workflow calls it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path


def absolute(text: str, repository: str, tag: str) -> str:
    """Return the Markdown text with links to the files of that tag.

    Args:
        text: Markdown with links `](path)` and pictures `src="path"`, `srcset="path"`.
        repository: Owner and name on GitHub.
        tag: The tag of the release.
    """
    page = f"https://github.com/{repository}/blob/{tag}/"
    file = f"https://raw.githubusercontent.com/{repository}/{tag}/"
    text = re.sub(r"(?<=\]\()(?!https?:|#)", page, text)
    return re.sub(r'(\bsrc(?:set)?=")(?!https?:)', rf"\g<1>{file}", text)


if __name__ == "__main__":
    readme = Path(__file__).parents[1] / "README.md"
    readme.write_text(absolute(readme.read_text(encoding="utf-8"), *sys.argv[1:]), encoding="utf-8")
