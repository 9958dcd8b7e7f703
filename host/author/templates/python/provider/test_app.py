import unittest

from app import Echo
from shelly_plugin import Message
from shelly_plugin.testing import Host
from shelly_plugin.types import Request


class EchoTest(unittest.TestCase):
    def test_newest_message_of_the_user_is_repeated(self):
        request = Request([Message.of("user", "Hello"), Message.of("assistant", "Hi")])
        with Host(params={"prefix": "You said: "}) as host:
            reply = Echo().complete("echo-1", request)
            self.assertEqual(reply.text, "You said: Hello")
            self.assertEqual(host.text, reply.text)


if __name__ == "__main__":
    unittest.main()
