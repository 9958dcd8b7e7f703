import os
import subprocess
import sys
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parent


class BindingsTest(unittest.TestCase):
    def test_plugins_fit_the_contract_where_there_are_bindings(self):
        """In a process of its own: the package looks for bindings when it is imported."""
        paths = os.pathsep.join([str(TESTS / "bindings"), str(TESTS.parent)])
        command = [sys.executable, str(TESTS / "component.py")]
        done = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"Ran \d\d tests")


if __name__ == "__main__":
    unittest.main()
