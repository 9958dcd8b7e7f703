import unittest

from app import MaxRequest
from shelly_plugin.model_middleware import Proceed, Sending
from shelly_plugin.testing import Host
from shelly_plugin.types import RunContext


class MaxRequestTest(unittest.TestCase):
    def test_only_a_large_request_is_refused(self):
        with Host(params={"max_tokens": 10}):
            self.assertEqual(MaxRequest().before(RunContext(), Sending(tokens=10)), Proceed())
            refused = MaxRequest().before(RunContext(), Sending(tokens=11))
            self.assertIn("11 tokens", refused.error.message)


if __name__ == "__main__":
    unittest.main()
