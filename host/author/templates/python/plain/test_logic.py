import unittest

from logic import counts


class CountsTest(unittest.TestCase):
    def test_words_lines_and_characters_are_counted(self):
        self.assertEqual(counts("to be\nor not"), {"words": 4, "lines": 2, "characters": 12})
        self.assertEqual(counts("süß"), {"words": 1, "lines": 1, "characters": 3})


if __name__ == "__main__":
    unittest.main()
