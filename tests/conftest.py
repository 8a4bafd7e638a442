"""Settings shared by all tests."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

# Optuna's conformance classes assert; without the rewriting a failure says only "AssertionError".
pytest.register_assert_rewrite("optuna.testing")

# The smoke tests run in an environment that has nothing but the wheel and pytest.
if find_spec("hypothesis") is not None:
    from hypothesis import settings

    # Wall-clock deadlines fail on a busy machine for reasons no test can do anything about.
    settings.register_profile("bbo_plugins", deadline=None, derandomize=True)
    settings.load_profile("bbo_plugins")
