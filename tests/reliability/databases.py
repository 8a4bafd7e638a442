"""Servers that a test starts by itself: PostgreSQL, and a gRPC proxy in front of SQLite."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.reliability.workers import context, serve

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEBIAN = Path("/usr/lib/postgresql")
_OWNERS = ("postgres", "nobody")  # who may run the server where the tests run as root


@contextmanager
def postgresql() -> Iterator[str]:
    """Start a PostgreSQL server for this test alone; yield the URL of its database.

    Skips the test if Debian's package, or a driver for it, is not installed.
    """
    folders = sorted(_DEBIAN.glob("*/bin"), key=lambda folder: int(folder.parent.name))
    if not folders:
        pytest.skip(f"PostgreSQL is not installed: no initdb in {_DEBIAN}/*/bin")
    drivers = [driver for driver in ("psycopg2", "psycopg") if find_spec(driver) is not None]
    if not drivers:
        pytest.skip("no driver for PostgreSQL is installed: neither psycopg2 nor psycopg")
    owner = _owner()
    home = Path(tempfile.mkdtemp(prefix="postgresql-"))
    if owner is not None:
        shutil.chown(home, owner)
    data = home / "data"

    def command(program: str, *arguments: str) -> None:
        subprocess.run(
            [folders[-1] / program, "-D", data, *arguments],
            user=owner,
            cwd=home,
            check=True,
            stdout=subprocess.DEVNULL,
        )

    try:
        command("initdb", "--auth=trust", "--username=optuna", "--encoding=UTF8", "--no-sync")
        options = f"-c listen_addresses='' -c fsync=off -k {home}"
        command(
            "pg_ctl", "start", "--wait", "--silent", f"--log={home}/log", f"--options={options}"
        )
        yield f"postgresql+{drivers[0]}://optuna@/postgres?host={home}"
    finally:
        if (data / "postmaster.pid").exists():
            command("pg_ctl", "stop", "--mode=immediate", "--silent")
        shutil.rmtree(home)


def _owner() -> str | None:
    """Return who is to run the server, None for the user of the tests: root may not."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    for owner in _OWNERS:
        if owner in known:
            return owner
    pytest.skip(f"PostgreSQL does not run as root, and there is none of the users {_OWNERS}")


@contextmanager
def grpc_proxy(url: str) -> Iterator[int]:
    """Start a gRPC server in front of a database; yield its port."""
    if find_spec("grpc") is None or find_spec("google.protobuf") is None:
        pytest.skip("gRPC is not installed: grpcio and protobuf")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = int(free.getsockname()[1])
    server = context().Process(target=serve, args=(url, port))
    server.start()
    try:
        _wait_for(port)
        yield port
    finally:
        server.terminate()
        server.join()


def _wait_for(port: int) -> None:
    """Return once something listens at ``port``."""
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("localhost", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail("the gRPC server has not started within a minute")
