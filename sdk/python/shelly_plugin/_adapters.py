"""The classes that componentize-py instantiates, one for each kind: they convert what an author's class gets and returns."""

from __future__ import annotations

import sys
from typing import Any, Callable, TypeVar

from . import _bindings, _lift, _lower, coordinator, effect, model_middleware, run_middleware, tool_middleware
from .errors import PluginError
from .provider import Provider
from .tools import Tool
from .types import Content

T = TypeVar("T")


def answered(function: Callable[..., T], *args: Any) -> T:
    """Calls an author's function and raises its `PluginError` as an error of the contract.

    Any other exception is logged with its place, and becomes an error of kind `other`: the plugin itself is in order.
    """
    try:
        return function(*args)
    except PluginError as error:
        raise _bindings.results.Err(_lower.error(error)) from None
    except Exception as error:
        cause = f"{type(error).__name__}: {error}"
        print("\n".join([cause, *places(error)]), file=sys.stderr)
        raise _bindings.results.Err(_lower.error(PluginError("other", f"the plugin failed: {cause}"))) from None


def places(error: BaseException) -> list[str]:
    """Returns the places through which an exception came, the innermost first.

    The module `traceback` would read the sources, which a component does not have.
    """
    found: list[str] = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        found.append(f"  at {code.co_filename}:{trace.tb_lineno} in {code.co_name}")
        trace = trace.tb_next
    return found[::-1]


class ToolAdapter:
    """Serves tools."""

    tools: dict[str, Tool[..., Any]] = {}

    def specs(self) -> Any:
        return answered(lambda: [_lower.tool_spec(tool.spec()) for tool in self.tools.values()])

    def call(self, call: Any) -> Any:
        return answered(lambda: _lower.contents(self.run(call.name, call.arguments, call.id)))

    def run(self, name: str, arguments: str, id: str) -> list[Content]:
        tool = self.tools.get(name)
        if tool is None:
            raise PluginError("not-found", f"unknown tool `{name}`; available tools: {', '.join(self.tools)}")
        return tool.run(arguments, id)


class EffectAdapter:
    """Serves an effect."""

    author: type[effect.Effect]
    bindings: Any

    def eval(self, input: Any, state: bytes) -> Any:
        return answered(lambda: self.lowered(self.author().eval(self.lifted(input), bytes(state))))

    def lifted(self, input: Any) -> effect.EffectInput:
        case = _bindings.case_of(input.phase)
        return effect.EffectInput(
            _lift.context(input.cx),
            input.phase.value if case == "other" else case,
            input.iteration,
            input.messages,
            input.request_tokens,
            input.context_window,
            None if input.last_usage is None else _lift.usage(input.last_usage),
            _lift.usage(input.run_usage),
            input.model_ms,
            input.elapsed_ms,
            None if input.reply is None else _lift.reply(input.reply),
        )

    def lowered(self, step: effect.Step) -> Any:
        b = self.bindings
        if step.ask is not None:
            if step.edits:
                raise ValueError("a step has edits and asks a model; return the edits after the reply")
            action = b.Action_AskModel(_lower.ask(step.ask))
        else:
            action = b.Action_Edits([self.edit(edit) for edit in step.edits])
        return b.Step(bytes(step.state), action, self.next_call(step.next_call))

    def next_call(self, next_call: effect.NextCall) -> Any:
        b = self.bindings
        if next_call == "next-phase":
            return b.NextCall_NextPhase()
        if next_call == "never":
            return b.NextCall_Never()
        if not isinstance(next_call, effect.Wake):
            raise ValueError(f'the step has `next_call` {next_call!r}; use "next-phase", "never" or a `Wake`')
        return b.NextCall_When(
            b.Wake(
                _lower.optional_unsigned(next_call.iteration, "iteration", 32),
                _lower.optional_unsigned(next_call.request_tokens, "request_tokens"),
                _lower.optional_unsigned(next_call.run_tokens, "run_tokens"),
                _lower.optional_unsigned(next_call.model_ms, "model_ms"),
            )
        )

    def edit(self, edit: effect.Edit) -> Any:
        b = self.bindings
        if isinstance(edit, effect.Note):
            return b.Edit_Note(_lower.text(edit.text))
        if isinstance(edit, effect.ReplaceResult):
            return b.Edit_ReplaceResult(b.NewResult(_lower.text(edit.call_id), _lower.contents(edit.content)))
        if isinstance(edit, effect.Replace):
            first, last = _lower.unsigned(edit.first, "first"), _lower.unsigned(edit.last, "last")
            return b.Edit_Replace(b.Replacement(first, last, _lower.messages(edit.messages)))
        if isinstance(edit, effect.HideTools):
            return b.Edit_HideTools([_lower.text(name) for name in edit.names])
        if isinstance(edit, effect.Stop):
            return b.Edit_Stop(b.Stop(_lower.text(edit.code), _lower.text(edit.message)))
        return b.Edit_Other(_lower.opaque(edit))


class RunMiddlewareAdapter:
    """Serves a run middleware."""

    author: type[run_middleware.RunMiddleware]
    bindings: Any

    def before(self, cx: Any, input: Any) -> Any:
        return answered(lambda: self.begun(self.author().before(_lift.context(cx), _lift.messages(input))))

    def after(self, cx: Any, outcome: Any, state: bytes) -> Any:
        return answered(lambda: self.ended(self.author().after(_lift.context(cx), self.lifted(outcome), bytes(state))))

    def lifted(self, outcome: Any) -> run_middleware.Outcome:
        is_ok = isinstance(outcome.reply, _bindings.results.Ok)
        convert: Any = _lift.message if is_ok else _bindings.error_from_bindings
        return run_middleware.Outcome(convert(outcome.reply.value), _lift.usage(outcome.usage), outcome.attempt)

    def begun(self, decision: run_middleware.BeforeDecision) -> Any:
        b = self.bindings
        if isinstance(decision, run_middleware.Proceed):
            input = None if decision.input is None else _lower.messages(decision.input)
            return b.BeforeDecision_Proceed(b.Pass(input, bytes(decision.state)))
        if isinstance(decision, run_middleware.Answer):
            return b.BeforeDecision_Answer(_lower.message(decision.message))
        return b.BeforeDecision_Reject(_lower.error(decision.error))

    def ended(self, decision: run_middleware.AfterDecision) -> Any:
        b = self.bindings
        if isinstance(decision, run_middleware.Accept):
            return b.AfterDecision_Accept()
        if isinstance(decision, run_middleware.Replace):
            return b.AfterDecision_Replace(_lower.message(decision.message))
        if isinstance(decision, run_middleware.Reject):
            return b.AfterDecision_Reject(_lower.error(decision.error))
        delay = _lower.unsigned(decision.delay_ms, "delay_ms")
        return b.AfterDecision_Retry(b.Again(_lower.optional_text(decision.feedback), delay, bytes(decision.state)))


class ModelMiddlewareAdapter:
    """Serves a model middleware."""

    author: type[model_middleware.ModelMiddleware]
    bindings: Any

    def before(self, cx: Any, sending: Any) -> Any:
        return answered(lambda: self.begun(self.author().before(_lift.context(cx), self.lifted(sending))))

    def after(self, cx: Any, sending: Any, reply: Any, state: bytes) -> Any:
        def after() -> Any:
            context, sent = _lift.context(cx), self.lifted(sending)
            return self.ended(self.author().after(context, sent, _lift.reply(reply), bytes(state)))

        return answered(after)

    def lifted(self, sending: Any) -> model_middleware.Sending:
        return model_middleware.Sending(sending.model, sending.digest, sending.tokens, sending.attempt)

    def begun(self, decision: model_middleware.BeforeDecision) -> Any:
        b = self.bindings
        if isinstance(decision, model_middleware.Proceed):
            model, request = _lower.optional_text(decision.model), _lower.optional_request(decision.request)
            return b.BeforeDecision_Proceed(b.Pass(model, request, bytes(decision.state)))
        if isinstance(decision, model_middleware.Answer):
            return b.BeforeDecision_Answer(_lower.completion(decision.completion))
        return b.BeforeDecision_Reject(_lower.error(decision.error))

    def ended(self, decision: model_middleware.AfterDecision) -> Any:
        b = self.bindings
        if isinstance(decision, model_middleware.Accept):
            return b.AfterDecision_Accept()
        if isinstance(decision, model_middleware.Replace):
            return b.AfterDecision_Replace(_lower.completion(decision.completion))
        if isinstance(decision, model_middleware.Reject):
            return b.AfterDecision_Reject(_lower.error(decision.error))
        delay = _lower.unsigned(decision.delay_ms, "delay_ms")
        return b.AfterDecision_Retry(b.Again(_lower.optional_text(decision.model), delay, bytes(decision.state)))


class ToolMiddlewareAdapter:
    """Serves a tool middleware."""

    author: type[tool_middleware.ToolMiddleware]
    bindings: Any

    def before(self, cx: Any, call: Any, target: Any) -> Any:
        def before() -> Any:
            of = tool_middleware.Target(target.origin, tool_middleware.ToolHints(target.hints.value))
            return self.lowered(self.author().before(_lift.context(cx), _lift.call(call), of))

        return answered(before)

    def after(self, cx: Any, call: Any, outcome: Any, state: bytes) -> Any:
        def after() -> Any:
            is_ok = isinstance(outcome, _bindings.results.Ok)
            convert: Any = _lift.contents if is_ok else _bindings.error_from_bindings
            changed = self.author().after(_lift.context(cx), _lift.call(call), convert(outcome.value), bytes(state))
            return None if changed is None else _lower.contents(changed)

        return answered(after)

    def lowered(self, decision: tool_middleware.Decision) -> Any:
        b, arguments = self.bindings, None
        if isinstance(decision, tool_middleware.Allow):
            verdict, arguments = b.Verdict_Allow(), decision.arguments
        elif isinstance(decision, tool_middleware.AskPerson):
            question = b.Question(_lower.text(decision.text), _lower.text(decision.topic))
            verdict, arguments = b.Verdict_Ask(question), decision.arguments
        elif isinstance(decision, tool_middleware.Answer):
            verdict = b.Verdict_Answer(_lower.contents(decision.content))
        else:
            verdict = b.Verdict_Deny(_lower.text(decision.reason))
        return b.Decision(verdict, _lower.optional_text(arguments), bytes(decision.state))


class ProviderAdapter:
    """Serves a provider."""

    author: type[Provider]
    bindings: Any

    def complete(self, model: str, request: Any) -> Any:
        return answered(lambda: _lower.completion(self.author().complete(model, _lift.request(request))))


class CoordinatorAdapter:
    """Serves a coordinator."""

    author: type[coordinator.Coordinator]
    bindings: Any

    def next(self, input: Any, state: bytes) -> Any:
        return answered(lambda: self.lowered(self.author().next(self.lifted(input), bytes(state))))

    def lifted(self, input: Any) -> coordinator.CoordinatorInput:
        return coordinator.CoordinatorInput(
            [coordinator.Member(member.name, member.role, member.description) for member in input.members],
            input.step,
            [self.report(report) for report in input.reports],
            None if input.reply is None else _lift.reply(input.reply),
            _lift.context(input.cx),
        )

    def report(self, report: Any) -> coordinator.Report:
        case, outcome = _bindings.case_of(report.outcome), report.outcome
        if case == "failed":
            return coordinator.Report(report.member, _bindings.error_from_bindings(outcome.value))
        if case == "handed-over":
            return coordinator.Report(report.member, coordinator.HandedOver(outcome.value))
        return coordinator.Report(report.member, "replied")

    def lowered(self, step: coordinator.Step) -> Any:
        b, action = self.bindings, step.action
        if isinstance(action, coordinator.Run):
            lowered = b.Action_Run(
                [b.Assignment(_lower.text(one.member), _lower.optional_text(one.task)) for one in action.assignments]
            )
        elif isinstance(action, coordinator.Done):
            lowered = b.Action_Done(self.answer(action.answer))
        else:
            lowered = b.Action_AskModel(_lower.ask(action.ask))
        return b.Step(bytes(step.state), lowered)

    def answer(self, answer: Any) -> Any:
        b = self.bindings
        if answer == "last-reply":
            return b.TeamAnswer_LastReply()
        if not isinstance(answer, list):
            raise ValueError(f'the team ends with the answer {answer!r}; use "last-reply" or a list of content')
        return b.TeamAnswer_Content(_lower.contents(answer))
