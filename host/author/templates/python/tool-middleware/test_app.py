import unittest

from app import AskFirst
from shelly_plugin import ToolHints
from shelly_plugin.testing import Host
from shelly_plugin.tool_middleware import Allow, Target
from shelly_plugin.types import RunContext, ToolCall


class AskFirstTest(unittest.TestCase):
    def before(self, tool, hints=ToolHints(0)):
        return AskFirst().before(RunContext(), ToolCall("1", tool), Target(hints=hints))

    def test_only_calls_that_may_change_something_are_asked_about(self):
        with Host(params={"allow": ["note"]}):
            self.assertEqual(self.before("read", ToolHints.READ_ONLY), Allow())
            self.assertEqual(self.before("note"), Allow())
            self.assertIn("`write`", self.before("write").text)


if __name__ == "__main__":
    unittest.main()
