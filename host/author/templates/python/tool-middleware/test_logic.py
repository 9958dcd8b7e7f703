import unittest

from logic import question


class QuestionTest(unittest.TestCase):
    def test_only_calls_that_may_change_something_are_asked_about(self):
        self.assertIsNone(question("read", True, []))
        self.assertIsNone(question("note", False, ["note"]))
        self.assertIn("`write`", question("write", False, ["note"]))


if __name__ == "__main__":
    unittest.main()
