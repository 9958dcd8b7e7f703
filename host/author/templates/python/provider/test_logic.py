import unittest

from logic import answer


class AnswerTest(unittest.TestCase):
    def test_what_was_said_is_repeated_after_the_prefix(self):
        self.assertEqual(answer("You said: ", ["Hel", "lo"]), "You said: Hello")


if __name__ == "__main__":
    unittest.main()
