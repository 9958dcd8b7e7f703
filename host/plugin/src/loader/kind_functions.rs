//! The exported functions of each kind, for all versions of the contract that the host serves.
//!
//! The generated bindings find exports only by the names of the newest version, such as `shelly:plugin/tool@0.2.0`. So this
//! module finds and calls the functions itself. One definition serves all versions in which a function has the same types; a
//! kind whose types differ has one definition for each, and an enum of them.

use wasmtime::{
    Store,
    component::{ComponentExportIndex, Instance, InstancePre},
};

use crate::{
    bindings::{
        exports::{coordinator, effect, model_middleware, run_middleware, tool_middleware},
        types::{Completion, Content, Error, Message, Request, RunContext, ToolCall, ToolSpec},
        version_0_1::{CoordinatorInput0_1, CoordinatorStep0_1, EffectStep0_1},
    },
    contract::ContractVersion,
    store::PluginState,
};

/// An interface that a component exports.
struct ExportedInterface<'a> {
    pre: &'a InstancePre<PluginState>,
    name: String,
    index: ComponentExportIndex,
}

impl<'a> ExportedInterface<'a> {
    fn find(pre: &'a InstancePre<PluginState>, interface: &str, version: ContractVersion) -> wasmtime::Result<Self> {
        let name = version.qualified(interface);
        let index = pre.component().get_export_index(None, name.as_str());
        let index = index.ok_or_else(|| wasmtime::format_err!("no exported instance named `{name}`"))?;
        Ok(Self { pre, name, index })
    }

    fn function(&self, function: &str) -> wasmtime::Result<ComponentExportIndex> {
        let index = self.pre.component().get_export_index(Some(&self.index), function);
        index.ok_or_else(|| wasmtime::format_err!("instance export `{}` does not have export `{function}`", self.name))
    }
}

/// Defines a struct for the functions of an interface. It has the export index of each function, `find` and `check`, and for
/// each function a method that calls it.
macro_rules! kind_functions {
    ($(
        $(#[$doc:meta])*
        $functions:ident of $interface:literal {
            $($method:ident($($argument:ident: $type:ty),*) -> $returned:ty;)+
        }
    )+) => {$(
        $(#[$doc])*
        pub struct $functions {
            $($method: ComponentExportIndex,)+
        }

        impl $functions {
            /// Finds the functions in a component.
            pub fn find(pre: &InstancePre<PluginState>, version: ContractVersion) -> wasmtime::Result<Self> {
                let interface = ExportedInterface::find(pre, $interface, version)?;
                Ok(Self { $($method: interface.function(stringify!($method))?,)+ })
            }

            /// Checks the types of the functions.
            pub fn check(&self, store: &mut Store<PluginState>, instance: &Instance) -> wasmtime::Result<()> {
                $(instance.get_typed_func::<($($type,)*), (Result<$returned, Error>,)>(&mut *store, &self.$method)?;)+
                Ok(())
            }

            $(pub async fn $method(
                &self,
                store: &mut Store<PluginState>,
                instance: &Instance,
                $($argument: $type,)*
            ) -> wasmtime::Result<Result<$returned, Error>> {
                let function = instance
                    .get_typed_func::<($($type,)*), (Result<$returned, Error>,)>(&mut *store, &self.$method)?;
                let (returned,) = function.call_async(&mut *store, ($($argument,)*)).await?;
                Ok(returned)
            })+
        }
    )+};
}

kind_functions! {
    /// The functions of `tool`.
    ToolFunctions of "tool" {
        specs() -> Vec<ToolSpec>;
        call(call: &ToolCall) -> Vec<Content>;
    }

    /// The functions of `effect` in the newest version.
    NewestEffectFunctions of "effect" {
        eval(input: &effect::EffectInput, state: &[u8]) -> effect::Step;
    }

    /// The functions of `effect` in version 0.1.
    EffectFunctions0_1 of "effect" {
        eval(input: &effect::EffectInput, state: &[u8]) -> EffectStep0_1;
    }

    /// The functions of `run-middleware`.
    RunMiddlewareFunctions of "run-middleware" {
        before(cx: &RunContext, input: &[Message]) -> run_middleware::BeforeDecision;
        after(cx: &RunContext, outcome: &run_middleware::Outcome, state: &[u8]) -> run_middleware::AfterDecision;
    }

    /// The functions of `model-middleware`.
    ModelMiddlewareFunctions of "model-middleware" {
        before(cx: &RunContext, sending: &model_middleware::Sending) -> model_middleware::BeforeDecision;
        after(
            cx: &RunContext,
            sending: &model_middleware::Sending,
            reply: Result<&Completion, &Error>,
            state: &[u8]
        ) -> model_middleware::AfterDecision;
    }

    /// The functions of `tool-middleware`.
    ToolMiddlewareFunctions of "tool-middleware" {
        before(cx: &RunContext, call: &ToolCall, target: &tool_middleware::Target) -> tool_middleware::Decision;
        after(
            cx: &RunContext,
            call: &ToolCall,
            outcome: Result<&[Content], &Error>,
            state: &[u8]
        ) -> Option<Vec<Content>>;
    }

    /// The functions of `provider`.
    ProviderFunctions of "provider" {
        complete(model: &str, request: &Request) -> Completion;
    }

    /// The functions of `coordinator` in the newest version.
    NewestCoordinatorFunctions of "coordinator" {
        next(input: &coordinator::CoordinatorInput, state: &[u8]) -> coordinator::Step;
    }

    /// The functions of `coordinator` in version 0.1.
    CoordinatorFunctions0_1 of "coordinator" {
        next(input: &CoordinatorInput0_1, state: &[u8]) -> CoordinatorStep0_1;
    }
}

/// Defines the functions of a kind whose types differ between the versions of the contract.
macro_rules! functions_of_versions {
    ($(#[$doc:meta])* $functions:ident: $newest:ident, $old:ident) => {
        $(#[$doc])*
        pub enum $functions {
            V0_1($old),
            V0_2($newest),
        }

        impl $functions {
            /// Finds the functions in a component.
            pub fn find(pre: &InstancePre<PluginState>, version: ContractVersion) -> wasmtime::Result<Self> {
                Ok(match version {
                    ContractVersion::V0_1 => Self::V0_1($old::find(pre, version)?),
                    ContractVersion::V0_2 => Self::V0_2($newest::find(pre, version)?),
                })
            }

            /// Checks the types of the functions.
            pub fn check(&self, store: &mut Store<PluginState>, instance: &Instance) -> wasmtime::Result<()> {
                match self {
                    Self::V0_1(functions) => functions.check(store, instance),
                    Self::V0_2(functions) => functions.check(store, instance),
                }
            }
        }
    };
}

functions_of_versions! {
    /// The functions of `effect`, in the version of the component.
    EffectFunctions: NewestEffectFunctions, EffectFunctions0_1
}

functions_of_versions! {
    /// The functions of `coordinator`, in the version of the component.
    CoordinatorFunctions: NewestCoordinatorFunctions, CoordinatorFunctions0_1
}

impl EffectFunctions {
    pub async fn eval(
        &self,
        store: &mut Store<PluginState>,
        instance: &Instance,
        input: &effect::EffectInput,
        state: &[u8],
    ) -> wasmtime::Result<Result<effect::Step, Error>> {
        match self {
            Self::V0_1(functions) => Ok(functions.eval(store, instance, input, state).await?.map(Into::into)),
            Self::V0_2(functions) => functions.eval(store, instance, input, state).await,
        }
    }
}

impl CoordinatorFunctions {
    pub async fn next(
        &self,
        store: &mut Store<PluginState>,
        instance: &Instance,
        input: coordinator::CoordinatorInput,
        state: &[u8],
    ) -> wasmtime::Result<Result<coordinator::Step, Error>> {
        match self {
            Self::V0_1(functions) => Ok(functions.next(store, instance, &input.into(), state).await?.map(Into::into)),
            Self::V0_2(functions) => functions.next(store, instance, &input, state).await,
        }
    }
}
