"""The functions of the host, and the host for unit tests."""

import contextlib
import datetime
import io
import unittest
from dataclasses import dataclass

from shelly_plugin import PluginError, chat, clock, config, coordinator, effect, http, kv, log, outgoing, process, progress
from shelly_plugin import random, tool
from shelly_plugin.attachments import read_all
from shelly_plugin.state import dump_state, load_state
from shelly_plugin.streamed import Streamed
from shelly_plugin.testing import Host
from shelly_plugin.types import Ask, Completion, Media, Message, Request, Thinking, ToolCall, ToolResult, Url, Usage

URL = "https://user:secret@example.com:8443/a"


@dataclass
class Params:
    turns: int = 10


class ParamsTest(unittest.TestCase):
    def test_params_are_read_and_checked(self):
        self.assertEqual((config.params(), config.params(Params)), ({}, Params(10)))
        with Host(params={"turns": 3}):
            self.assertEqual((config.params(), config.params(Params)), ({"turns": 3}, Params(3)))
        with Host(params={"turn": 3}), self.assertRaises(PluginError) as wrong:
            config.params(Params)
        said = "params: `turn`: unknown property; the properties are `turns`; did you mean `turns`?"
        self.assertEqual(wrong.exception, PluginError("invalid", said))


class WithoutHostTest(unittest.TestCase):
    def test_function_without_a_host_names_itself(self):
        for call, name in [
            (clock.now_ms, "clock.now"),
            (chat.length, "chat.length"),
            (outgoing.get, "outgoing.get"),
            (lambda: kv.get("a"), "kv.get"),
            (lambda: http.get(URL), "http.send"),
            (lambda: process.run("a"), "process.run"),
            (lambda: random.random_bytes(1), "random.bytes"),
        ]:
            with self.assertRaisesRegex(RuntimeError, f"^{name} calls the host.*testing.Host"):
                call()

    def test_log_without_a_host_goes_to_standard_error(self):
        written = io.StringIO()
        with contextlib.redirect_stderr(written):
            log.warn("a")
        self.assertEqual(written.getvalue(), "warn: a\n")
        progress.report(1)
        with self.assertRaisesRegex(ValueError, "unknown level 'loud'"):
            log.write("loud", "a")

    def test_hosts_do_not_overlap(self):
        with Host(), self.assertRaisesRegex(RuntimeError, "entered already"):
            Host().__enter__()
        with Host() as host:
            log.info("a")
            progress.report(1, 2, "b")
        self.assertEqual((host.log, host.progress), ([("info", "a")], [(1.0, 2.0, "b")]))


class KvTest(unittest.TestCase):
    def test_values_are_stored_listed_and_removed(self):
        with Host() as host:
            for name in ("b", "a/2", "a/1"):
                kv.put(name, {"is": name})
            self.assertEqual((kv.read("b"), kv.read("c", 7)), ({"is": "b"}, 7))
            self.assertEqual((kv.keys("a/"), kv.keys("", "a/1")), (["a/1", "a/2"], ["a/2", "b"]))
            kv.remove("b")
            self.assertIsNone(kv.get("b"))
            self.assertEqual(sorted(host.stored), ["a/1", "a/2"])

    def test_swap_holds_only_for_the_revision_that_was_read(self):
        with Host():
            self.assertTrue(kv.compare_and_swap("a", None, b"1"))
            self.assertFalse(kv.compare_and_swap("a", None, b"2"))
            entry = kv.get("a")
            kv.set("a", entry.value)
            self.assertFalse(kv.compare_and_swap("a", entry.revision, b"2"), "the revision changes with an equal value")

    def test_update_is_repeated_after_another_write(self):
        with Host():
            kv.put("n", 1)
            seen = []

            def change(count):
                if not seen:
                    kv.put("n", 5)
                seen.append(count)
                return count + 1

            self.assertEqual((kv.update("n", change), seen), (6, [1, 5]))

    def test_bounds_of_the_store_are_those_of_the_host(self):
        with Host():
            for call, kind in [
                (lambda: kv.get(""), "invalid"),
                (lambda: kv.get("a" * 513), "invalid"),
                (lambda: kv.set("a", b"1" * ((1 << 20) + 1)), "too-large"),
            ]:
                with self.assertRaises(PluginError) as refused:
                    call()
                self.assertEqual(refused.exception.kind, kind)
            kv.set("a", b"no json")
            with self.assertRaises(PluginError) as broken:
                kv.read("a")
            self.assertIn("the value of `a` is not JSON", broken.exception.message)


class HttpTest(unittest.TestCase):
    def test_request_has_each_part(self):
        with Host(credentials=["k"]) as host:
            self.assertEqual(http.credentials(), ["k"])
            host.respond("POST", URL + "?b=1&q=%C3%A4%20b%26c", json={"title": "A"}, headers={"X-A": "b"})
            query, headers = {"q": "ä b&c", "none": None}, {"Accept": "a"}
            response = http.post(URL + "?b=1", query=query, headers=headers, json=[1], credential="k", timeout=1.5)
            self.assertEqual((response.json(), response.header("x-a"), response.header("no")), ({"title": "A"}, "b", None))
            (sent,) = host.requests
        self.assertEqual(sent.headers, {"accept": "a", "content-type": "application/json"})
        self.assertEqual((sent.body, sent.credential, sent.timeout_ms), (b"[1]", "k", 1500))

    def test_unprepared_request_fails_the_test(self):
        with Host() as host:
            host.respond("GET", URL, body="a")
            host.respond("GET", "https://b", body="b", always=True)
            self.assertEqual(http.get(URL).text(), "a")
            self.assertEqual([http.get("https://b").text() for _ in range(2)], ["b", "b"])
            with self.assertRaisesRegex(AssertionError, "no response is prepared for GET .* Prepared: GET https://b$"):
                http.get(URL)

    def test_status_becomes_the_error_that_it_means(self):
        unpaid = '{"error": {"code": "insufficient_quota", "message": "pay"}}'
        for status, headers, body, kind, said, after_ms in [
            (404, {}, '{"error": {"message": "no\\u001b[31m such"}}', "not-found", ": no [31m such", None),
            (429, {"Retry-After": "1.5"}, "", "rate-limited", "", 1500),
            (503, {"retry-after-ms": "7"}, "<html>", "unavailable", "", 7),
            (400, {}, "x" * 400, "invalid", f": {'x' * 300}…", None),
            (429, {}, unpaid, "exhausted", ": pay", None),
            (403, {}, '[{"detail": "no"}]', "denied", ": no", None),
            (501, {}, "", "other", "", None),
        ]:
            with Host() as host:
                host.respond("GET", URL, status=status, headers=headers, body=body)
                with self.assertRaises(PluginError) as raised:
                    http.get(URL).ok()
            error = PluginError(kind, f"example.com:8443 answered {status}{said}", after_ms)
            self.assertEqual(raised.exception, error)
        with Host() as host:
            host.respond("GET", URL, status=204)
            self.assertTrue(http.get(URL).ok().is_success)

    def test_lines_and_events_are_read_as_they_arrive(self):
        pieces = [b"event: a\r\nda", b"ta: \xc3", b"\xa4\ndata:b\n\n", b": ping\n\nid: 7\ndata: c\n\ndata: cut"]
        with Host() as host:
            host.respond("GET", URL, body=pieces)
            host.respond("GET", URL, body=[b"one\r\n\ntw", b"o"])
            host.respond("GET", URL, body=[b"one\n", PluginError("unavailable", "broken")])
            events = [(event.name, event.data, event.id) for event in http.get(URL).events()]
            self.assertEqual(events, [("a", "ä\nb", ""), ("message", "c", "7")])
            self.assertEqual(list(http.get(URL).lines()), ["one", "", "two"])
            lines = http.get(URL).lines()
            self.assertEqual(next(lines), "one")
            with self.assertRaises(PluginError):
                next(lines)

    def test_body_beyond_its_bound_is_refused(self):
        with Host() as host:
            host.respond("GET", URL, body=b"1" * (http.MOST_WHOLE + 1), always=True)
            for read in (lambda response: response.content(), lambda response: list(response.lines())):
                with self.assertRaises(PluginError) as refused:
                    read(http.get(URL))
                self.assertEqual(refused.exception.kind, "too-large")

    def test_upload_is_one_request(self):
        with Host() as host:
            host.respond("PUT", URL, status=201)
            upload = http.upload("PUT", URL)
            upload.write(b"a" * 300_000)
            upload.write(b"b")
            self.assertEqual(upload.finish().status, 201)
            self.assertEqual(len(host.requests[0].body), 300_001)

    def test_missing_server_is_read_from_the_denial(self):
        line = 'GET https://b is not granted; to allow it write `http: ["https://b"]`'
        self.assertEqual(http.lacking(PluginError("denied", line)), "https://b")
        self.assertIsNone(http.lacking(PluginError("invalid", line)))
        self.assertIsNone(http.lacking(PluginError("denied", "b leads to no public address")))


class ClockTest(unittest.TestCase):
    def test_time_passes_when_a_test_says_so(self):
        with Host() as host:
            begun = clock.monotonic_ns()
            host.advance(1.5)
            self.assertEqual(clock.monotonic_ns() - begun, 1_500_000_000)
            self.assertEqual(clock.now(), datetime.datetime(2025, 1, 1, 0, 0, 1, 500_000, datetime.timezone.utc))
            self.assertEqual(len(random.random_bytes(5)), 5)


class ChatTest(unittest.TestCase):
    def test_entries_have_the_facts_of_messages(self):
        messages = [
            Message.of("user", "a"),
            Message("assistant", [ToolCall("1", "t")]),
            Message("tool", [ToolResult("1", ["x"], True)]),
            Message("user", [Media("image/png", Url("u"))], meta={"shelly.note": "a"}),
        ]
        with Host(chat=messages, tools=["t"]):
            entries = chat.all_entries()
            self.assertEqual([entry.group for entry in entries], [None, 2, 2, None])
            facts = [{name for name, value in vars(entry).items() if value is True} for entry in entries]
            self.assertEqual(facts, [set(), {"has_calls"}, {"has_results", "has_failed"}, {"has_media", "is_note"}])
            self.assertEqual((entries[0].is_said_by_person, entries[3].is_said_by_person), (True, False))
            self.assertEqual([position for position, _ in chat.newest()], [3, 2, 1, 0])
            self.assertEqual((chat.message(0), chat.message(9)), (messages[0], None))
            self.assertEqual((chat.find(2), chat.find(9), chat.tools()), (1, None, ["t"]))

    def test_long_chat_is_read_in_pages(self):
        with Host(chat=[Message.of("user", "a")] * 2_000):
            self.assertEqual(len(chat.entries(0, 2_000)), 1_024)
            self.assertEqual(len(chat.all_entries()), 2_000)
            self.assertEqual(len(list(chat.newest())), 2_000)


class ModelsTest(unittest.TestCase):
    def test_effect_is_called_again_with_the_reply(self):
        class Judge(effect.Effect):
            def eval(self, input, state):
                if input.reply is None:
                    return effect.Step(b"1", ask=Ask.of("Is it good?", "small"))
                return effect.Step(state, [effect.Note(input.reply.text)])

        with Host() as host:
            input = effect.EffectInput()
            for reply in ["yes", "no"]:
                host.reply(reply)
                step = host.eval(Judge(), input)
                self.assertEqual((step.state, step.edits), (b"1", [effect.Note(reply)]))
            self.assertIsNone(input.reply, "the input of the test stays as it is")
            self.assertEqual(host.asked, [Ask.of("Is it good?", "small")] * 2)
            with self.assertRaisesRegex(AssertionError, "no reply of a model is prepared"):
                host.eval(Judge())

    def test_coordinator_that_is_called_twice_asks_twice(self):
        class Chooser(coordinator.Coordinator):
            def next(self, input, state):
                if input.reply is None:
                    return coordinator.Step(coordinator.AskModel(Ask.of(f"Who, after {state!r}?")), state + b"1")
                return coordinator.Step(coordinator.Run([coordinator.Assignment(input.reply.text)]), state)

        with Host() as host:
            input = coordinator.CoordinatorInput([coordinator.Member("ada"), coordinator.Member("bob")])
            state = b""
            for member, later in [("ada", b"1"), ("bob", b"11")]:
                host.reply(member)
                step = host.next(Chooser(), input, state)
                chosen = coordinator.Run([coordinator.Assignment(member)])
                self.assertEqual((step.action, step.state), (chosen, later))
                state = step.state
            self.assertIsNone(input.reply, "the input of the test stays as it is")
            self.assertEqual([ask.request.messages[0].text for ask in host.asked], ["Who, after b''?", "Who, after b'1'?"])
            with self.assertRaisesRegex(AssertionError, "no reply of a model is prepared"):
                host.next(Chooser(), input, state)

    def test_endless_questions_to_a_model_end(self):
        class Asks(coordinator.Coordinator):
            def next(self, input, state):
                return coordinator.Step(coordinator.AskModel(Ask.of("a")), state)

        with Host() as host:
            for _ in range(9):
                host.reply(PluginError("denied", "no"))
            with self.assertRaises(PluginError) as ended:
                host.next(Asks(), coordinator.CoordinatorInput())
            self.assertEqual(ended.exception.kind, "exhausted")

    def test_effect_knows_how_full_the_window_is(self):
        for tokens, window, last, fills in [(499, 1_000, None, False), (500, 1_000, None, True), (9, None, None, False)]:
            self.assertEqual(effect.EffectInput(request_tokens=tokens, context_window=window, last_usage=last).fills(0.5), fills)
        self.assertTrue(effect.EffectInput(context_window=10, last_usage=Usage(2, 9, 2, 1)).fills(0.5))


class ProviderTest(unittest.TestCase):
    def test_streamed_reply_is_what_was_emitted(self):
        with Host() as host:
            reply = Streamed("small")
            reply.thinking("hm")
            reply.text("a")
            reply.text("b" * 20_000)
            reply.call("1", "t", "")
            reply.usage(Usage(1, 2))
            completion = reply.finish("tool-calls")
            self.assertEqual(completion.parts, [Thinking("hm"), "a" + "b" * 20_000, ToolCall("1", "t", "{}")])
            self.assertEqual((completion.text, completion.usage), (host.text, Usage(1, 2)))
            self.assertEqual(len(host.emitted), 6, "a long text is emitted in two pieces")

    def test_reply_beyond_its_bounds_is_refused(self):
        for many, add in [
            (16, lambda reply: reply.text("ä" * (1 << 19))),
            (1_024, lambda reply: reply.call("", "t", "{}")),
        ]:
            with Host():
                reply = Streamed("small")
                for _ in range(many - 1):
                    add(reply)
                with self.assertRaises(PluginError) as refused:
                    add(reply)
                    add(reply)
            self.assertEqual(refused.exception.kind, "too-large")

    def test_attachments_and_requests_are_given(self):
        request = Request([Message.of("user", "a")])
        with Host(attachments={"a": b"x" * ((1 << 20) + 5)}, outgoing=request):
            self.assertEqual(len(read_all("a")), (1 << 20) + 5)
            self.assertEqual(outgoing.get(), request)
            with self.assertRaises(PluginError):
                read_all("b")


class ProcessTest(unittest.TestCase):
    def test_program_has_its_prepared_outcome(self):
        with Host() as host:
            host.set_output("git", process.Output(0, b"clean"))
            host.set_output("git", PluginError("denied", "no"))
            self.assertEqual(process.run("git", "status", stdin=b"a", timeout=0.0001).stdout, b"clean")
            self.assertEqual(host.commands, [process.Command("git", ["status"], b"a", 1)])
            with self.assertRaises(PluginError):
                process.run("git")
            with self.assertRaisesRegex(AssertionError, "no output is prepared for the program `git`"):
                process.run("git")


class StateTest(unittest.TestCase):
    def test_state_of_another_version_is_not_read(self):
        state = dump_state(1, Params(3))
        self.assertEqual((load_state(1, state, Params), load_state(1, state)), (Params(3), {"turns": 3}))
        for version, bytes_, shape in [(2, state, Params), (1, b"", Params), (1, b"\x01{", Params), (1, b"\x01\xff", dict)]:
            self.assertIsNone(load_state(version, bytes_, shape))


class CallTest(unittest.TestCase):
    def test_tool_is_called_as_a_model_calls_it(self):
        @tool
        def add(a: int, b: int = 1) -> str:
            """Adds."""
            return str(a + b)

        with Host() as host:
            self.assertEqual((host.call(add, a=1), host.call(add, '{"a": 2}')), (["2"], ["3"]))
            with self.assertRaises(PluginError):
                host.call(add)

    def test_error_of_no_kind_is_refused(self):
        with self.assertRaisesRegex(ValueError, "unknown kind of error 'bad'"):
            PluginError("bad", "a")
        with self.assertRaisesRegex(ValueError, "has no `after_ms`"):
            PluginError("invalid", "a", 5)
        self.assertEqual(Completion(["a", Thinking("b"), "c"]).text, "ac")


if __name__ == "__main__":
    unittest.main()
