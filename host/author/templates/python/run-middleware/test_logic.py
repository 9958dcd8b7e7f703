import unittest

from logic import is_empty_answer


class EmptyAnswerTest(unittest.TestCase):
    def test_answer_without_a_word_is_empty(self):
        self.assertTrue(is_empty_answer([" ", "\n"], {}))
        self.assertFalse(is_empty_answer(["yes"], {}))
        self.assertFalse(is_empty_answer([], {"shelly.ending": "handed-over"}))


if __name__ == "__main__":
    unittest.main()
