//! The macro `export!`, which makes a component of a plugin's types.

use std::{marker::PhantomData, sync::Once};

use crate::{
    bindings::{coordinator, effect, model_middleware, provider, run_middleware, tool, tool_middleware},
    types::{Completion, Content, Error, Message, Request, RunContext, ToolCall, ToolSpec},
};

/// Makes a component of your types. Each key names a kind to export; its value is the type that implements the kind's
/// trait.
///
/// ```
/// # use shelly_plugin::{Call, NoArgs, Reply, Error, Tool, effect::{Effect, EffectInput, Step}};
/// # struct Now;
/// # impl Tool for Now {
/// #     const NAME: &'static str = "now"; const DESCRIPTION: &'static str = ""; type Args = NoArgs;
/// #     fn call(_: NoArgs, _: &Call) -> Result<Reply, Error> { Ok("now".into()) }
/// # }
/// # struct Quiet;
/// # impl Effect for Quiet {
/// #     fn eval(_: EffectInput, state: Vec<u8>) -> Result<Step, Error> { Ok(Step::edits(state, vec![])) }
/// # }
/// shelly_plugin::export!(tools: [Now], effect: Quiet);
/// # fn main() {}
/// ```
///
/// | key | what follows |
/// |---|---|
/// | `tools` | a list of types with [`Tool`](crate::Tool) |
/// | `tool` | a type with [`tool::Tools`](crate::tool::Tools), in place of `tools` |
/// | `effect` | a type with [`effect::Effect`](crate::effect::Effect) |
/// | `run_middleware` | a type with [`run_middleware::RunMiddleware`](crate::run_middleware::RunMiddleware) |
/// | `model_middleware` | a type with [`model_middleware::ModelMiddleware`](crate::model_middleware::ModelMiddleware) |
/// | `tool_middleware` | a type with [`tool_middleware::ToolMiddleware`](crate::tool_middleware::ToolMiddleware) |
/// | `provider` | a type with [`provider::Provider`](crate::provider::Provider) |
/// | `coordinator` | a type with [`coordinator::Coordinator`](crate::coordinator::Coordinator) |
///
/// The exports exist only when compiled for WebAssembly. On other targets the types are checked and nothing is exported.
#[macro_export]
macro_rules! export {
    () => {};
    (tools: [$($tool:ty),+ $(,)?] $(, $($rest:tt)*)?) => {
        const _: () = {
            struct Tools;

            impl $crate::tool::Tools for Tools {
                fn specs() -> ::std::result::Result<::std::vec::Vec<$crate::types::ToolSpec>, $crate::Error> {
                    ::std::result::Result::Ok(::std::vec![$($crate::tool::spec::<$tool>()),+])
                }

                fn call(
                    call: $crate::types::ToolCall,
                ) -> ::std::result::Result<::std::vec::Vec<$crate::Content>, $crate::Error> {
                    $(
                        if call.name == <$tool as $crate::Tool>::NAME {
                            return $crate::tool::run::<$tool>(call);
                        }
                    )+
                    let names = [$(<$tool as $crate::Tool>::NAME),+];
                    ::std::result::Result::Err($crate::tool::unknown(&call.name, &names))
                }
            }

            $crate::__export_kind!(tool, Tools);
        };
        $($crate::export!($($rest)*);)?
    };
    ($kind:ident: $plugin:ty $(, $($rest:tt)*)?) => {
        const _: () = {
            $crate::__export_kind!($kind, $plugin);
        };
        $($crate::export!($($rest)*);)?
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __export_kind {
    ($kind:ident, $plugin:ty) => {
        type Plugin = $crate::Guarded<$plugin>;

        // A native linker does not accept the names of the exports as symbols.
        #[cfg(target_arch = "wasm32")]
        $crate::bindings::$kind::export!(Plugin with_types_in $crate::bindings::$kind);

        // The section that names the imports lies in the object file of this function, which a linker leaves out as long as
        // nothing refers to it.
        #[cfg(target_arch = "wasm32")]
        #[used]
        static IMPORTS: fn() = $crate::bindings::imports::__link_custom_section_describing_imports;

        #[cfg(not(target_arch = "wasm32"))]
        const _: fn() = $crate::bindings::$kind::check::<Plugin>;
    };
}

/// A wrapper that writes the panics of a plugin to the log; without it the host sees a trap without a message.
pub struct Guarded<T>(PhantomData<T>);

fn guard() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        std::panic::set_hook(Box::new(|panic| crate::error!("{panic}")));
    });
}

impl<T: tool::Guest> tool::Guest for Guarded<T> {
    fn specs() -> Result<Vec<ToolSpec>, Error> {
        guard();
        T::specs()
    }

    fn call(call: ToolCall) -> Result<Vec<Content>, Error> {
        guard();
        T::call(call)
    }
}

impl<T: effect::Guest> effect::Guest for Guarded<T> {
    fn eval(input: effect::EffectInput, state: Vec<u8>) -> Result<effect::Step, Error> {
        guard();
        T::eval(input, state)
    }
}

impl<T: run_middleware::Guest> run_middleware::Guest for Guarded<T> {
    fn before(cx: RunContext, input: Vec<Message>) -> Result<run_middleware::BeforeDecision, Error> {
        guard();
        T::before(cx, input)
    }

    fn after(
        cx: RunContext,
        outcome: run_middleware::Outcome,
        state: Vec<u8>,
    ) -> Result<run_middleware::AfterDecision, Error> {
        guard();
        T::after(cx, outcome, state)
    }
}

impl<T: model_middleware::Guest> model_middleware::Guest for Guarded<T> {
    fn before(cx: RunContext, sending: model_middleware::Sending) -> Result<model_middleware::BeforeDecision, Error> {
        guard();
        T::before(cx, sending)
    }

    fn after(
        cx: RunContext,
        sending: model_middleware::Sending,
        reply: Result<Completion, Error>,
        state: Vec<u8>,
    ) -> Result<model_middleware::AfterDecision, Error> {
        guard();
        T::after(cx, sending, reply, state)
    }
}

impl<T: tool_middleware::Guest> tool_middleware::Guest for Guarded<T> {
    fn before(
        cx: RunContext,
        call: ToolCall,
        target: tool_middleware::Target,
    ) -> Result<tool_middleware::Decision, Error> {
        guard();
        T::before(cx, call, target)
    }

    fn after(
        cx: RunContext,
        call: ToolCall,
        outcome: Result<Vec<Content>, Error>,
        state: Vec<u8>,
    ) -> Result<Option<Vec<Content>>, Error> {
        guard();
        T::after(cx, call, outcome, state)
    }
}

impl<T: provider::Guest> provider::Guest for Guarded<T> {
    fn complete(model: String, request: Request) -> Result<Completion, Error> {
        guard();
        T::complete(model, request)
    }
}

impl<T: coordinator::Guest> coordinator::Guest for Guarded<T> {
    fn next(input: coordinator::CoordinatorInput, state: Vec<u8>) -> Result<coordinator::Step, Error> {
        guard();
        T::next(input, state)
    }
}
