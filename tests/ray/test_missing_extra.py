"""What happens where Ray is not installed."""

from __future__ import annotations

import subprocess
import sys

WITHOUT_RAY = """
import sys
sys.modules["ray"] = None  # which makes any import of it a ModuleNotFoundError
import bbo_plugins.errors
try:
    import bbo_plugins.ray
except ImportError as error:
    print(type(error).__name__, error)
"""


def test_import_names_the_command() -> None:
    """The front door says how to install what it needs, as an ImportError."""
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_RAY], check=True, capture_output=True, text=True
    )
    assert run.stdout.startswith("MissingExtraError bbo_plugins.ray needs packages")
    assert "pip install 'bbo-plugins[ray]'" in run.stdout
