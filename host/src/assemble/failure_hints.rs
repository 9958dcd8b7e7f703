//! Explains why a run has failed, and what to do about it.

use super::{PreparedRun, placed_agents::placed_source, remote_agents::remote_source};
use crate::{
    agent::{RunError, WindowExceeded},
    error::{Fault, Report, legible, without_number},
    net,
};

/// Returns a hint on a failed model request; `source` is where the model comes from.
pub fn how_to_mend(fault: &Fault, source: &str, is_plugin: bool) -> String {
    let or = "or use another model with --model";
    if let Some(mend) = net::mend(fault) {
        return format!("{mend} ({source}), {or}");
    }
    match fault {
        Fault::Unavailable { .. } if is_plugin => {
            format!("if the plugin uses a server, check that the server runs ({source}), try again later, {or}")
        }
        Fault::Denied { .. } if is_plugin => {
            format!("check the plugin's grants `http` and `credentials`, and its key ({source}), {or}")
        }
        Fault::Exhausted { .. } | Fault::Timeout { .. } if is_plugin => {
            format!("raise the exceeded limit under `limits` of the model ({source}), {or}")
        }
        Fault::Denied { .. } => format!("check the key of the model ({source}), {or}"),
        Fault::NotFound { .. } => format!("check the model's name and address ({source}), {or}"),
        Fault::Unavailable { .. } | Fault::Timeout { .. } => {
            format!("check that the model's server runs, and its address ({source}), {or}")
        }
        Fault::RateLimited { .. } => format!("try again later, {or}"),
        Fault::Exhausted { .. } => format!("check the account at the vendor ({source}), {or}"),
        Fault::TooLarge { .. } => "give a smaller task, or use a model with a larger window".into(),
        Fault::Invalid { .. } | Fault::Other { .. } => format!("check the settings of the model ({source}), {or}"),
    }
}

/// Returns a hint on a request that exceeds its model's context window; `place` is the agent's position in the config.
fn how_to_fit(exceeded: &WindowExceeded, place: &str) -> String {
    let WindowExceeded { model, window, fixed, unread, .. } = exceeded;
    let less = if fixed > window {
        format!("give {place} fewer tools or shorter instructions")
    } else if fixed + unread > *window {
        "give a smaller task, or split it into parts".to_owned()
    } else {
        format!("shorten the conversation, with `effects: [compact]` under {place}")
    };
    let model = legible(model);
    format!(
        "if the model's window is larger, set providers.{model}.context_window in the config, and the window of its server; \
         otherwise {less}, or use a model with a larger window"
    )
}

/// Returns the report of a failed run, with a hint.
pub fn explain(prepared: &PreparedRun, error: &RunError) -> Report {
    let mut report = Report::new(error.kind(), error.to_string());
    if let Some(cause) = std::error::Error::source(error) {
        report = report.cause(without_number(&cause.to_string()));
    }
    let place = &prepared.place;
    match error {
        RunError::MaxIterations(most) => {
            report.message = format!("no answer after {most} {}", if *most == 1 { "turn" } else { "turns" });
            report.hint(format!("raise {place}.options.max_iterations, or give a smaller task"))
        }
        RunError::Budget(_) => report.hint(format!(
            "raise {place}.budget in the config, and the bounds of the middleware `budget` if the agent has it, or give a \
             smaller task"
        )),
        RunError::Window(exceeded) => report.hint(how_to_fit(exceeded, place)),
        RunError::Cut => report.hint("raise `max_tokens` of the model in the config, or ask for a shorter answer"),
        RunError::Model(fault) if prepared.model_source == remote_source(place) => {
            report.message = format!("`{}`, an agent of another host, has no answer", prepared.model.name);
            match fault {
                Fault::Unavailable { .. } | Fault::Timeout { .. } | Fault::RateLimited { .. } => {
                    report.hint(format!("try again later, or check the address of its card ({})", prepared.model_source))
                }
                Fault::Denied { .. } | Fault::NotFound { .. } => report.hint(format!("see {}", prepared.model_source)),
                _ => report,
            }
        }
        RunError::Model(Fault::Unavailable { .. }) if prepared.model_source == placed_source(place) => {
            report.message = format!("no worker runs `{}`", prepared.model.name);
            report.hint(format!(
                "start one with `shelly-host worker`, and with --labels if `place` has labels; see {}",
                prepared.model_source
            ))
        }
        RunError::Model(_) if prepared.model_source == placed_source(place) => {
            report.message = format!("`{}`, which a worker runs, has no answer", prepared.model.name);
            report.hint("`shelly-host cluster runs` lists its runs, and `shelly-host session show` what they did")
        }
        RunError::Model(fault) => {
            report.message = format!("the request to the model `{}` failed", prepared.model.name);
            report.hint(how_to_mend(fault, &prepared.model_source, prepared.model_is_plugin))
        }
        RunError::Effect { name: step, fault } | RunError::Middleware { name: step, fault } => {
            let is_of_params = matches!(fault, Fault::Invalid { message } if message.starts_with("params: "));
            report.hint(match is_of_params {
                true => format!("correct the `params` of `{step}` under {place} in the config"),
                false => format!("set `on_failure: skip` for `{step}` under {place} to continue without it"),
            })
        }
        _ => report,
    }
}
