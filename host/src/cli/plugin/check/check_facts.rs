//! The facts of a checked plugin, for people and as JSON.

use serde_json::{Value, json};

use super::measured_plugin::MeasuredPlugin;
use crate::{
    capability::Grant,
    cli::render::{call_time, name, size},
    plugin::{CONTRACT, ContractVersion, PluginReview},
};

/// The facts of a plugin whose component could be read.
pub struct CheckFacts<'a> {
    pub review: &'a PluginReview,
    /// `None` if the plugin does not start.
    pub measured: Option<&'a MeasuredPlugin>,
}

/// A line break and the width of the first column: the start of a further line of one fact.
const INDENT: &str = "\n             ";

impl CheckFacts<'_> {
    /// Returns the facts for people: one entry for each, which may have several lines.
    pub fn lines(&self) -> Vec<String> {
        let Self { review, measured } = self;
        let manifest = &review.manifest;
        let list = |items: Vec<String>| if items.is_empty() { "nothing".to_owned() } else { items.join(INDENT) };
        let kinds: Vec<_> = manifest.kinds.iter().map(|kind| kind.name()).collect();
        let imports = review.imports().into_iter().map(|import| {
            let meaning = import.meaning.unwrap_or("not provided by this host");
            format!("{}: {meaning}", name(&import.name))
        });
        let wants = self.wants().into_iter().map(|line| name(&line)).collect();
        let mut lines = vec![
            format!("id           {}", name(&manifest.id)),
            format!("kinds        {}", kinds.join(", ")),
            format!("size         {} ({} bytes)", size(review.size), review.size),
            format!("digest       {}", review.digest),
            format!("contract     {}", self.contract()),
            format!("exports      {}", list(review.anatomy.exports.iter().map(|export| name(export)).collect())),
            format!("imports      {}", list(imports.collect())),
            format!("{:12} {}", if manifest.wants_are_optional { "can use" } else { "wants" }, list(wants)),
        ];
        if let Some(measured) = measured {
            let MeasuredPlugin { tools, first, later, call } = measured;
            let names = tools.iter().map(|tool| name(&tool.name)).collect::<Vec<_>>().join(", ");
            lines.extend((!names.is_empty()).then(|| format!("tools        {names}")));
            let memory = size(u64::try_from(call.memory).unwrap_or(u64::MAX));
            let (first, later) = (call_time(*first), call_time(*later));
            lines.push(format!("start        {first} the first time, {later} with its compiled code in the cache"));
            lines.push(format!("instance     {} and {memory} of memory, for each call", call_time(call.duration)));
        }
        lines
    }

    /// Returns the facts as JSON.
    pub fn to_json(&self) -> Value {
        let Self { review, measured } = self;
        let manifest = &review.manifest;
        let figures = measured.map(|measured| {
            let MeasuredPlugin { tools: _, first, later, call } = measured;
            json!({
                "first_ms": first.as_secs_f64() * 1e3,
                "later_ms": later.as_secs_f64() * 1e3,
                "instance_ms": call.duration.as_secs_f64() * 1e3,
                "instance_cpu_ms": call.cpu.as_secs_f64() * 1e3,
                "memory": call.memory,
            })
        });
        json!({
            "id": manifest.id,
            "version": manifest.version,
            "kinds": manifest.kinds,
            "size": review.size,
            "digest": review.digest.to_string(),
            "contract": review.contract_versions(),
            "host_contract": CONTRACT,
            "host_contracts": ContractVersion::ALL.map(ContractVersion::number),
            "exports": review.anatomy.exports,
            "imports": review.imports(),
            "wants": self.wants(),
            "wants_are_optional": manifest.wants_are_optional,
            "idle_wants": review.idle_wants(),
            "tools": measured.map(|measured| measured.tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>()),
            "start": figures,
        })
    }

    /// Returns the lines of a config that grant what the plugin wants.
    fn wants(&self) -> Vec<String> {
        let manifest = &self.review.manifest;
        let wants = Grant::default().missing(&manifest.wants).into_iter().map(|missing| missing.line);
        wants.chain(manifest.wasi.then(|| "wasi: powerless (needs no grant)".to_owned())).collect()
    }

    fn contract(&self) -> String {
        let versions = self.review.contract_versions();
        match versions.is_empty() {
            true => "none; its own functions are its tools".to_owned(),
            false => {
                let versions: Vec<_> = versions.into_iter().map(name).collect();
                format!("{} (this host: {})", versions.join(", "), ContractVersion::all_numbers())
            }
        }
    }
}
