//! Many runs at once while workers, servers and connections fail; the long form is `cargo test --test faults`.

use super::fault_harness::{self, FaultPlan};

#[test]
fn runs_under_faults_end_once_with_their_answers() {
    match fault_harness::run(&FaultPlan::short()) {
        Ok(Some(report)) => eprint!("{report}"),
        Ok(None) => eprintln!("skipped: there is no NATS server; tests/cluster/nats-server.sh gets one"),
        Err(failure) => panic!("{failure}"),
    }
}
