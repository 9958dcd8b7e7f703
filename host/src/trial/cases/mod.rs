//! Test cases of plugins, for `plugin test`: files with inputs, the answers of the host to what the plugin imports, and the
//! expected outcome.
//!
//! A case is one call in the real sandbox, under the real grants and limits. Its clock and random numbers are fixed, its
//! key-value store and its folder are its own, and nothing that it does leaves the machine.
//!
//! [`CaseFile`] parses a file into [`PluginCase`]s. [`run_case`] runs one of them: it collects a `CaseObservation`, compares
//! it with the [`CaseExpectation`], and returns a [`CaseOutcome`]. [`updated_text`] writes new expectations into the file.

mod case_file;
mod case_folder;
mod case_host;
mod case_update;
mod comparison;
mod expectation;
mod http_script;
mod model_script;
mod observation;
mod plugin_case;
mod run_case;
mod yaml_block;

pub use case_file::CaseFile;
pub use case_host::{CaseClock, CaseHostFixture, HttpExchangeFixture, HttpReplyFixture, ModelAnswerFixture};
pub use case_update::updated_text;
pub use comparison::CaseMismatch;
pub use expectation::{
    CaseExpectation, ExpectedChange, ExpectedFault, ExpectedHttpRequest, ExpectedLogEntry, ExpectedTexts,
};
pub use plugin_case::PluginCase;
pub use run_case::{CaseOutcome, run_case};
