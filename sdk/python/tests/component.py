"""Runs within a process that has bindings: see `test_bindings.py`, which starts it."""

import sys
import unittest
from dataclasses import dataclass

from componentize_py_types import Err, Ok
from contract import CONTRACT

from shelly_plugin import FileChange, Json, PluginError, ToolHints, _bindings, _lift, _lower, coordinator, effect, export
from shelly_plugin import Reply, attachments, chat, clock, config, http, kv, log, model_middleware, outgoing, process
from shelly_plugin import progress, provider, random, run_middleware, sink, tool, tool_middleware, types

NO = PluginError("unavailable", "no", 5)


@dataclass
class Params:
    turns: int


class LateImports:
    """The modules that are looked for after the plugin was loaded: a component has none of them any more."""

    names = []

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        cls.names.append(name)


def setUpModule():
    sys.meta_path.insert(0, LateImports)


def tearDownModule():
    sys.meta_path.remove(LateImports)
    assert not LateImports.names, f"a component could not import {LateImports.names}"


def lowered(interface, function, result):
    """Checks what an exported function returned, and returns it in plain words."""
    _, written = CONTRACT.functions[interface, function]
    return CONTRACT.lower(interface, written.removeprefix("result<").rsplit(", ", 1)[0], result)


def refused(call, *args):
    """Returns the error that an exported function raised."""
    try:
        call(*args)
    except Err as error:
        return CONTRACT.lower("types", "error", error.value)
    raise AssertionError("there is no error")


def arguments(interface, function):
    """Returns calls with samples of all parameters."""
    parameters, _ = CONTRACT.functions[interface, function]
    columns = [CONTRACT.samples(interface, parameter) for parameter in parameters]
    return [[column[at % len(column)] for column in columns] for at in range(max(map(len, columns)))]


class SharedTypesTest(unittest.TestCase):
    def test_values_of_the_host_come_back_as_they_were(self):
        for name, lift, lower in [
            ("message", _lift.message, _lower.message),
            ("content", _lift.content, _lower.content),
            ("part", _lift.part, _lower.part),
            ("request", _lift.request, _lower.request),
            ("completion", _lift.completion, _lower.completion),
            ("tool-spec", _lift.tool_spec, _lower.tool_spec),
            ("tool-call", _lift.call, _lower.call),
            ("error", _bindings.error_from_bindings, _lower.error),
            ("usage", _lift.usage, _lower.usage),
        ]:
            samples = CONTRACT.samples("types", name)
            self.assertGreater(len(samples), 1, name)
            for sample in samples:
                again = lower(lift(sample))
                self.assertEqual(again, sample, name)
                CONTRACT.lower("types", name, again)

    def test_values_that_the_bindings_cannot_convert_are_named(self):
        for value, lower, cause in [
            (types.Usage(input_tokens=-1), _lower.usage, "`input_tokens` is -1"),
            (types.Request([], max_output_tokens=1 << 32), _lower.request, "`max_output_tokens` is 4294967296"),
            (types.Message.of("person", "a"), _lower.message, "unknown role 'person'"),
        ]:
            with self.assertRaisesRegex(ValueError, cause):
                lower(value)
        with self.assertRaisesRegex(TypeError, "in place of a text"):
            _lower.content(7)
        self.assertEqual(_lower.text("a\ud83c"), "a\ufffd")


@tool(hints=ToolHints.PURE, title="Repeats", output=dict)
def repeat(text: str, times: int = 2):
    """Repeats a text.

    Args:
        text: The text.
    """
    if times > 9:
        raise PluginError("invalid", "at most 9")
    if times < 0:
        raise KeyError("times")
    return Reply(text * times, Json.of({"text": text}), FileChange("a", types.Remove()))


class ToolTest(unittest.TestCase):
    def setUp(self):
        self.tools = export(repeat)()

    def call(self, name, arguments):
        return self.tools.call(_bindings.types.ToolCall("1", name, arguments, []))

    def test_tools_are_listed_and_called(self):
        (spec,) = lowered("tool", "specs", self.tools.specs())
        self.assertEqual((spec["name"], spec["hints"], spec["meta"]), ("repeat", 15, [("title", "Repeats")]))
        content = lowered("tool", "call", self.call("repeat", '{"text": "a"}'))
        self.assertEqual(content[0], ("Content_Text", "aa"))
        self.assertEqual(content[2][0], "Content_Change")

    def test_each_failure_is_an_error_of_the_contract(self):
        self.assertEqual(refused(self.call, "repeat", '{"text": "a", "times": 10}'), ("Error_Invalid", "at most 9"))
        self.assertEqual(refused(self.call, "other", "{}")[0], "Error_NotFound")
        case, message = refused(self.call, "repeat", '{"txt": "a"}')
        self.assertIn("did you mean `text`?", message)
        stderr, sys.stderr = sys.stderr, Written()
        try:
            crash = refused(self.call, "repeat", '{"text": "a", "times": -1}')
            written = sys.stderr.text
        finally:
            sys.stderr = stderr
        self.assertEqual(crash, ("Error_Other", "the plugin failed: KeyError: 'times'"))
        self.assertRegex(written, r"KeyError: 'times'\n  at .*component.py:\d+ in repeat\n")


class Written:
    text = ""

    def write(self, text):
        self.text += text


class KindsTest(unittest.TestCase):
    def test_effect_gets_each_input_and_returns_each_step(self):
        edits = [
            effect.Note("a"),
            effect.ReplaceResult("1", ["a"]),
            effect.Replace(1, 2, [types.Message.of("user", "a")]),
            effect.HideTools(["a"]),
            effect.Stop("a", "b"),
            types.Opaque("a", "1"),
        ]
        seen = []

        class Probe(effect.Effect):
            def eval(self, input, state):
                seen.append(input)
                if isinstance(input.reply, types.Completion):
                    return effect.Step(state, edits, next_call=effect.Wake(1, 2, 3, 4))
                return effect.Step(state, ask=types.Ask.of("a", "small"))

        adapter = export(Probe)()
        steps = [lowered("effect", "eval", adapter.eval(*args)) for args in arguments("effect", "eval")]
        self.assertEqual({step["action"][0] for step in steps}, {"Action_Edits", "Action_AskModel"})
        all_edits = next(step["action"][1] for step in steps if step["action"][0] == "Action_Edits")
        self.assertEqual(len({name for name, _ in all_edits}), len(edits))
        self.assertEqual({type(input.reply) for input in seen}, {type(None), types.Completion, PluginError})
        self.assertTrue({"before-model", "after-model"} < {input.phase for input in seen})

    def test_effect_says_when_it_is_called_again(self):
        cases = [
            ({}, "NextCall_NextPhase"),
            ({"next_call": "next-phase"}, "NextCall_NextPhase"),
            ({"next_call": "never"}, "NextCall_Never"),
            ({"next_call": effect.Wake()}, "NextCall_When"),
            ({"next_call": effect.Wake(1, 2, 3, 4)}, "NextCall_When"),
            ({"next_call": effect.Wake(run_tokens=0)}, "NextCall_When"),
        ]
        for says, case in cases:

            class Probe(effect.Effect):
                def eval(self, input, state):
                    return effect.Step(state, **says)

            adapter = export(Probe)()
            for args in arguments("effect", "eval"):
                self.assertEqual(lowered("effect", "eval", adapter.eval(*args))["next-call"][0], case)

    def test_next_call_of_no_kind_is_named(self):
        for next_call in (None, "later"):

            class Probe(effect.Effect):
                def eval(self, input, state):
                    return effect.Step(state, next_call=next_call)

            case, message = self.crash(export(Probe)().eval, *arguments("effect", "eval")[0])
            self.assertEqual(case, "Error_Other")
            self.assertIn(f'`next_call` {next_call!r}; use "next-phase", "never" or a `Wake`', message)

    def crash(self, call, *args):
        """Returns the error that a failure of the plugin becomes, without its lines in the log."""
        stderr, sys.stderr = sys.stderr, Written()
        try:
            return refused(call, *args)
        finally:
            sys.stderr = stderr

    def test_run_middleware_returns_each_decision(self):
        message = types.Message.of("assistant", "a")
        answers = []

        class Probe(run_middleware.RunMiddleware):
            def before(self, cx, input):
                return answers.pop(0)

            def after(self, cx, outcome, state):
                seen.add(type(outcome.reply))
                return answers.pop(0)

        seen = set()
        adapter = export(Probe)()
        m = run_middleware
        before = [m.Proceed([message]), m.Answer(message), m.Reject(NO)]
        self.decide(adapter.before, "run-middleware", "before", answers, before)
        after = [m.Accept(), m.Replace(message), m.Reject(NO), m.Retry("a", 5, b"s")]
        self.decide(adapter.after, "run-middleware", "after", answers, after)
        self.assertEqual(seen, {types.Message, PluginError})

    def test_model_middleware_returns_each_decision(self):
        reply = types.Completion(["a"], "odd")
        request = types.Request([types.Message.of("user", "a")], tool_choice=types.ForcedTool("a"), temperature=1)
        answers = []

        class Probe(model_middleware.ModelMiddleware):
            def before(self, cx, sending):
                return answers.pop(0)

            def after(self, cx, sending, reply, state):
                return answers.pop(0)

        adapter = export(Probe)()
        m = model_middleware
        before = [m.Proceed("small", request), m.Proceed(), m.Answer(reply), m.Reject(NO)]
        self.decide(adapter.before, "model-middleware", "before", answers, before)
        after = [m.Accept(), m.Replace(reply), m.Reject(NO), m.Retry("a", 5, b"s")]
        self.decide(adapter.after, "model-middleware", "after", answers, after)

    def test_tool_middleware_returns_each_decision(self):
        answers = []

        class Probe(tool_middleware.ToolMiddleware):
            def before(self, cx, call, target):
                return answers.pop(0)

            def after(self, cx, call, outcome, state):
                return answers.pop(0)

        adapter = export(Probe)()
        m = tool_middleware
        before = [m.Allow("{}", b"s"), m.AskPerson("a", "b"), m.Answer(["a"]), m.Deny("a")]
        self.decide(adapter.before, "tool-middleware", "before", answers, before)
        for args in arguments("tool-middleware", "after"):
            answers[:] = [["a"]]
            CONTRACT.lower("tool-middleware", "option<list<content>>", adapter.after(*args))
        answers[:] = [None]
        self.assertIsNone(adapter.after(*args))

    def decide(self, call, interface, function, answers, decisions):
        """Returns each decision to each call."""
        seen = set()
        for args in arguments(interface, function):
            for decision in decisions:
                answers[:] = [decision]
                written = lowered(interface, function, call(*args))
                seen.add(written["verdict"][0] if "verdict" in written else written[0])
        self.assertEqual(len(seen), len({type(decision) for decision in decisions}))

    def test_provider_completes_each_request(self):
        class Echo(provider.Provider):
            def complete(self, model, request):
                if not request.messages:
                    raise NO
                return types.Completion(request.messages[0].parts, "refusal", model=model, meta=request.meta)

        adapter = export(Echo)()
        for model, request in arguments("provider", "complete"):
            if request.messages:
                lowered("provider", "complete", adapter.complete(model, request))
            else:
                error = refused(adapter.complete, model, request)
                self.assertEqual(error, ("Error_Unavailable", {"message": "no", "after-ms": 5}))

    def test_coordinator_returns_each_action(self):
        answers, seen = [], []

        class Probe(coordinator.Coordinator):
            def next(self, input, state):
                seen.append(input)
                return coordinator.Step(answers[0], state)

        adapter = export(Probe)()
        for action in [
            coordinator.Run([coordinator.Assignment("a", "b"), coordinator.Assignment("c")]),
            coordinator.Done(),
            coordinator.Done(["a"]),
            coordinator.AskModel(types.Ask.of("a")),
        ]:
            answers[:] = [action]
            for args in arguments("coordinator", "next"):
                step = lowered("coordinator", "next", adapter.next(*args))
                self.assertEqual(step["state"], args[1])
        outcomes = [report.outcome for input in seen for report in input.reports]
        self.assertEqual({type(outcome) for outcome in outcomes}, {str, coordinator.HandedOver, PluginError})
        self.assertEqual({outcome for outcome in outcomes if isinstance(outcome, str)}, {"replied"})
        self.assertIn(coordinator.HandedOver("a\U0001f600"), outcomes)
        answers[:] = [coordinator.Done(None)]
        case, message = self.crash(adapter.next, *arguments("coordinator", "next")[0])
        self.assertEqual(case, "Error_Other")
        self.assertIn('the answer None; use "last-reply" or a list of content', message)


class Recorded:
    """An interface of the host: the next results, and what was called."""

    def __init__(self, module, function):
        self.calls, self.results = [], []
        self.function = function
        setattr(module, function.replace("-", "_"), self)

    def __call__(self, *args):
        self.calls.append(args)
        result = self.results.pop(0)
        if isinstance(result, Err):
            raise result
        return result


class InterfacesTest(unittest.TestCase):
    """The arguments that the functions of the host get, and their results."""

    def host(self, interface, function, *results):
        recorded = Recorded(CONTRACT.modules[interface], function)
        recorded.results = list(results)
        return recorded

    def got(self, interface, recorded):
        """The arguments of the last call, in plain words."""
        parameters, _ = CONTRACT.functions[interface, recorded.function]
        self.assertEqual(len(parameters), len(recorded.calls[-1]))
        return [CONTRACT.lower(interface, of, value) for of, value in zip(parameters, recorded.calls[-1])]

    def test_plain_functions_get_what_they_take(self):
        b = CONTRACT.modules
        for call, interface, function, result, expected in [
            (lambda: log.warn("a"), "log", "write", None, [2, "a"]),
            (lambda: config.params(), "config", "get", "{}", []),
            (lambda: progress.report(1, 2, "a"), "progress", "report", None, [1.0, 2.0, "a"]),
            (lambda: clock.now_ms(), "clock", "now", 5, []),
            (lambda: random.random_bytes(2), "random", "bytes", b"ab", [2]),
            (lambda: attachments.read("a", 1), "attachments", "read", b"a", ["a", 1, 1 << 20]),
            (lambda: kv.set("a", bytearray(b"b")), "kv", "set", None, ["a", b"b"]),
            (lambda: kv.compare_and_swap("a", None, None), "kv", "compare-and-swap", True, ["a", None, None]),
            (lambda: kv.keys("a"), "kv", "keys", ["ab"], ["a", None]),
            (lambda: chat.tools(), "chat", "tools", ["a"], []),
        ]:
            recorded = self.host(interface, function, result)
            call()
            self.assertEqual(self.got(interface, recorded), expected, interface)
        self.host("kv", "get", b["kv"].Entry(b"1", 4), None)
        self.assertEqual((kv.get("a"), kv.get("a")), (kv.Entry(b"1", 4), None))
        self.host("config", "get", '{"turns": 1}', '{"turns": 1}')
        self.assertEqual((config.params(), config.params(Params)), ({"turns": 1}, Params(1)))

    def test_pieces_of_a_reply_are_passed_on(self):
        recorded = self.host("sink", "emit", *[None] * 5)
        cases = []
        texts = [sink.TextDelta("a"), sink.ThinkingDelta("a"), sink.ToolCallDelta("a")]
        for delta in [*texts, types.Usage(), types.Opaque("a", "1")]:
            sink.emit(delta)
            cases.append(self.got("sink", recorded)[0][0])
        self.assertEqual(cases, ["Delta_Text", "Delta_Thinking", "Delta_ToolCall", "Delta_Usage", "Delta_Other"])

    def test_chat_and_request_are_read(self):
        b = CONTRACT.modules["chat"]
        samples = CONTRACT.samples("chat", "entry")
        self.host("chat", "entries", samples)
        entries = chat.entries(0, 9)
        self.assertEqual([entry.has_calls for entry in entries], [bool(s.traits.value) for s in samples])
        notes = b.Entry(1, CONTRACT.modules["types"].Role.USER, b.Traits.NOTE | b.Traits.MEDIA, None, 3)
        self.host("chat", "entries", [notes])
        self.assertEqual(chat.entries(0, 1), [chat.Entry(1, "user", None, 3, has_media=True, is_note=True)])
        self.host("chat", "read", CONTRACT.samples("types", "message"))
        self.assertIsInstance(chat.read(0, 9)[0], types.Message)
        self.host("outgoing", "get", CONTRACT.samples("types", "request")[-1])
        self.assertIsInstance(outgoing.get(), types.Request)

    def test_requests_and_their_errors_are_converted(self):
        b, t = CONTRACT.modules["http"], CONTRACT.modules["types"]

        class Body:
            pieces = [b"[1", b"]", b""]

            def read(self, most):
                assert most <= 64 << 10
                return self.pieces.pop(0) if self.pieces else self.fail()

            def fail(self):
                raise Err(t.Error_Unavailable(t.Retry("broken", None)))

        recorded = self.host("http", "send", b.Response(200, [("a", "b")], Body()), Err(t.Error_Denied("no")))
        response = http.post("https://a/b", json={"a": 1}, headers={"X": "y"}, credential="k", timeout=0)
        request, body = self.got("http", recorded)
        self.assertEqual(request["headers"], [("x", "y"), ("content-type", "application/json")])
        self.assertEqual(request["timeout-ms"], 1)
        self.assertEqual((body, response.json(), response.header("A")), (b'{"a": 1}', [1], "b"))
        with self.assertRaises(PluginError) as broken:
            response.read()
        self.assertEqual(broken.exception, PluginError("unavailable", "broken"))
        with self.assertRaises(PluginError) as denied:
            http.get("https://a/b")
        self.assertEqual(denied.exception, PluginError("denied", "no"))

        class Upload:
            written = b""

            def write(self, chunk):
                self.written += chunk

            @classmethod
            def finish(cls, upload):
                return b.Response(201, [], Body())

        b.Upload = Upload
        self.host("http", "begin", Upload())
        upload = http.upload("PUT", "https://a/b")
        upload.write(b"a")
        self.assertEqual(upload.finish().status, 201)

    def test_programs_are_run(self):
        b = CONTRACT.modules["process"]
        recorded = self.host("process", "run", b.Output(0, b"a", b"", False))
        self.assertEqual(process.run("git", "status", timeout=1).stdout, b"a")
        command = {"program": "git", "args": ["status"], "stdin": b"", "timeout-ms": 1000}
        self.assertEqual(self.got("process", recorded), [command])


class ImportTest(unittest.TestCase):
    def test_interface_that_the_world_lacks_is_named(self):
        del sys.modules["wit_world.imports.kv"]
        with self.assertRaisesRegex(ModuleNotFoundError, "No module named 'wit_world.imports.kv'"):
            _bindings.HostInterface("kv")
        CONTRACT.install()
        LateImports.names.remove("wit_world.imports.kv")


if __name__ == "__main__":
    unittest.main()
