"""Helpers for tests of both packages: an environment, a silent standard error, a Python process."""

import contextlib
import os
import subprocess
import sys
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # tests/program
PACKAGE = os.path.join(HERE, "..", "..", "db", "lookup", "python")

sys.dont_write_bytecode = True  # the checkout stays as it is
sys.path.insert(0, PACKAGE)


@contextlib.contextmanager
def environment(**values):
    """None takes a variable away."""
    with mock.patch.dict(os.environ):
        for name, value in values.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        yield


def python(*command, **values):
    """Runs Python with the package, and this process's library unless said otherwise."""
    with environment(**dict({"PYTHONPATH": PACKAGE, "PYTHONDONTWRITEBYTECODE": "1"}, **values)):
        return subprocess.run(
            [sys.executable, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
            timeout=1200,
        )


def can_import(name):
    """In a process of its own: some of what builds wheels changes the one that loads it."""
    return python("-W", "ignore", "-c", f"import {name}").returncode == 0


def outcome(call):
    try:
        return call()
    except Exception as error:
        return f"{type(error).__name__} {getattr(error, 'status', '')}: {error}"


@contextlib.contextmanager
def silent():
    """Keeps what the library says on standard error, where errors are expected, out of the way."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def choose(build):
    """From here on that build's libraries and program are meant, and nothing of the user's."""
    library = os.path.abspath(os.path.join(build, "libmoelookup.so.1"))
    if not os.path.exists(library):
        print(f"  FAILED library: {library} is not there")
        print("0 passed, 1 failed")
        sys.exit(1)
    for name in list(os.environ):
        if name.startswith(("MOELOOKUP_", "MOETUNE_", "LOCAL_")):
            del os.environ[name]
    os.environ["MOELOOKUP_LIBRARY"] = library
    os.environ["MOETUNE_LIBRARY"] = os.path.abspath(os.path.join(build, "libmoetune.so.1"))
    os.environ["MOETUNE"] = os.path.abspath(os.path.join(build, "moetune"))
    os.environ["MOELOOKUP_LOG"] = "error"
    os.environ["XDG_DATA_HOME"] = os.devnull  # the user's own table is not asked


def main(*modules):
    suite = unittest.TestSuite(
        unittest.defaultTestLoader.loadTestsFromModule(module) for module in modules
    )
    result = unittest.TestResult()
    suite.run(result)
    skipped = sorted({reason for _, reason in result.skipped})
    bad = result.failures + result.errors
    for reason in skipped:
        print(f"skipped: {reason}")
    for test, trace in bad:
        print(f"  FAILED {test.id().split('.', 1)[-1]}: {trace.strip()}")
    passed = result.testsRun - len(result.skipped) - len({test for test, _ in bad})
    print(f"{passed} passed, {len({test for test, _ in bad})} failed")
    return 1 if bad else 0
