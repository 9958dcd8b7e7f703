import unittest

from logic import refusal


class RefusalTest(unittest.TestCase):
    def test_only_a_large_request_is_refused(self):
        self.assertIsNone(refusal(10, 10))
        self.assertIn("11 tokens", refusal(11, 10))


if __name__ == "__main__":
    unittest.main()
