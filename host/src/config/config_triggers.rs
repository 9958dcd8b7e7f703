//! Checks of triggers that concern the config as a whole.

use super::Config;
use crate::{
    error::{ErrorKind, Report},
    limits,
};

impl Config {
    /// Checks each trigger by itself, and the agents that they name.
    pub(super) fn trigger_mistakes(&self) -> Vec<Report> {
        let mut found = Vec::new();
        let most = limits::TRIGGERS;
        if self.triggers.len() > most {
            let what = format!("triggers: there are {}, the maximum is {most}", self.triggers.len());
            found.push(Report::new(ErrorKind::Usage, what).hint("remove some, or start several servers"));
        }
        for trigger in self.triggers.iter().take(most) {
            found.extend(trigger.check().err());
            if let Some(agent) = &trigger.agent {
                let place = || format!("named by triggers.{}.agent", trigger.name);
                found.extend(self.who(agent).err().map(|report| report.cause(place())));
            }
        }
        found
    }
}
