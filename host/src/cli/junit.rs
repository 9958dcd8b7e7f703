//! Results of tests as JUnit XML, for CI servers.

use std::{io, time::Duration};

use quick_xml::{
    Writer,
    events::{BytesDecl, Event},
};

use crate::error::{ErrorKind, Report};

/// The head of a test suite.
pub struct JunitSuite<'a> {
    pub name: &'a str,
    /// The number of all cases.
    pub tests: usize,
    /// The number of failed cases.
    pub failures: usize,
    pub duration: Duration,
}

impl JunitSuite<'_> {
    /// Returns the document of one suite, whose test cases `write_cases` writes.
    pub fn to_xml(&self, write_cases: impl FnOnce(&mut Writer<Vec<u8>>) -> io::Result<()>) -> Result<String, Report> {
        let failed = |error: io::Error| Report::new(ErrorKind::Bug, "cannot write the report").cause(error);
        let (tests, failures, time) = (self.tests.to_string(), self.failures.to_string(), junit_seconds(self.duration));
        let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
        writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None))).map_err(failed)?;
        let suite = writer.create_element("testsuite").with_attributes([
            ("name", self.name),
            ("tests", tests.as_str()),
            ("failures", failures.as_str()),
            ("time", time.as_str()),
        ]);
        suite.write_inner_content(write_cases).map_err(failed)?;
        String::from_utf8(writer.into_inner())
            .map_err(|error| Report::new(ErrorKind::Bug, "the report is not UTF-8").cause(error))
    }
}

/// Returns a duration as the attribute `time`.
pub fn junit_seconds(duration: Duration) -> String {
    format!("{:.3}", duration.as_secs_f64())
}
