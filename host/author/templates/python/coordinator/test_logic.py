import unittest

from logic import chosen


class ChosenTest(unittest.TestCase):
    def test_each_member_works_once_a_round(self):
        members = [chosen(["a", "b"], step, 2) for step in range(5)]
        self.assertEqual(members, ["a", "b", "a", "b", None])
        self.assertIsNone(chosen([], 0, 1))


if __name__ == "__main__":
    unittest.main()
