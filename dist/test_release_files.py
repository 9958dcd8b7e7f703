"""Tests of what `release.py` and `try.py` find: python3 -m unittest discover dist"""

import importlib
import json
import pathlib
import tempfile
import unittest

import release

# `try` is a word of the language, and so no name that can be imported with `import`.
trying = importlib.import_module("try")


def exits(function, *arguments):
    """Returns the message with which a function ends the program."""
    try:
        function(*arguments)
    except SystemExit as ended:
        return str(ended.code)
    raise AssertionError(f"{function.__name__} did not end the program")


class BuiltProgram(unittest.TestCase):
    def artifact(self, name, executable):
        return json.dumps({"reason": "compiler-artifact", "target": {"name": name}, "executable": executable})

    def test_program_is_where_cargo_says(self):
        library = self.artifact("shelly-host", None)
        other = self.artifact("shelly-host-under-test", "/elsewhere/debug/shelly-host-under-test")
        program = self.artifact("shelly-host", "/elsewhere/debug/shelly-host")
        finished = json.dumps({"reason": "build-finished", "success": True})
        found = release.executable_in("\n".join([library, other, program, finished]))
        self.assertEqual(found, pathlib.Path("/elsewhere/debug/shelly-host"))
        self.assertIn("did not build a program", exits(release.executable_in, "\n".join([library, other, finished])))

    def test_release_files_are_not_among_files_of_cargo(self):
        self.assertNotIn(release.OUTPUT.name, ["debug", "release", "dist", "doc", "tmp", *release.TARGETS])

    def test_program_without_a_plugin_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "program"
            def write(ids, code):
                listed = json.dumps([{"id": each} for each in ids])
                program.write_text(f"#!/bin/sh\necho '{listed}'\nexit {code}\n")
                program.chmod(0o755)
            every = sorted(release.plugins_in_repository())
            self.assertGreater(len(every), 40)
            write(every, 0)
            release.check_plugins(program)
            write(every[1:], 0)
            self.assertIn(f"does not have the plugins {every[0]}\n", exits(release.check_plugins, program))
            write(every, 3)
            self.assertIn(every[-1], exits(release.check_plugins, program))


class ChosenFiles(unittest.TestCase):
    def test_every_target_is_that_of_a_machine(self):
        for system, machine, target in [
            ("linux", "x86_64", "x86_64-unknown-linux-gnu"),
            ("linux", "aarch64", "aarch64-unknown-linux-gnu"),
            ("darwin", "x86_64", "x86_64-apple-darwin"),
            ("darwin", "arm64", "aarch64-apple-darwin"),
            ("win32", "AMD64", "x86_64-pc-windows-msvc"),
        ]:
            self.assertEqual(trying.native_target(system, machine), target)
        self.assertIn("no release files for linux on riscv64", exits(trying.native_target, "linux", "riscv64"))

    def test_files_of_one_target_and_version_are_chosen(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for version in ["0.1.0", "0.2.0"]:
                for target in release.TARGETS:
                    wheel = f"{release.wheel_base(version)}-{release.wheel_tag(target, '2_34')}.whl"
                    npm = [f"{package}-{version}.tgz" for package in [release.npm_package(target), release.NAME]]
                    for file in [release.archive_name(version, target), wheel, *npm]:
                        (folder / file).touch()
            for target, archive, wheel, npm in [
                ("x86_64-unknown-linux-gnu", "x86_64-unknown-linux-gnu.tar.gz", "manylinux_2_34_x86_64", "linux-x64"),
                ("x86_64-apple-darwin", "x86_64-apple-darwin.tar.gz", "macosx_10_12_x86_64", "darwin-x64"),
                ("x86_64-pc-windows-msvc", "x86_64-pc-windows-msvc.zip", "win_amd64", "win32-x64"),
            ]:
                chosen = (folder, "0.2.0", target)
                self.assertEqual(trying.archive_in(*chosen).name, f"shelly-host-0.2.0-{archive}")
                self.assertEqual(trying.wheel_in(*chosen).name, f"shelly_host-0.2.0-py3-none-{wheel}.whl")
                packages = [path.name for path in trying.npm_packages_in(*chosen)]
                self.assertEqual(packages, [f"shelly-host-{npm}-0.2.0.tgz", "shelly-host-0.2.0.tgz"])
            self.assertIn("not one", exits(trying.archive_in, folder, "0.3.0", "x86_64-apple-darwin"))

    def test_only_standard_output_is_looked_at(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "project").mkdir()
            shown = trying.run(["/bin/sh", "-c", "echo answer; echo README.md >&2"], folder, "/bin")
            self.assertEqual(shown, "answer\n")


if __name__ == "__main__":
    unittest.main()
