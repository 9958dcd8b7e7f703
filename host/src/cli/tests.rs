//! Every flag does something: a test of whole runs is named for each, and one without fails here.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use clap::CommandFactory;

use super::Cli;

/// A flag of a command, and the test in `tests/all` that shows what it does.
const SHOWN: [(&str, &str, &str); 133] = [
    ("run --config", "bad_input.rs", "a_config_that_cannot_be_read"),
    ("run --plugins", "bad_input.rs", "a_plugin_directory_that_is_none"),
    ("run --agent", "bad_input.rs", "a_name_that_is_not_there"),
    ("run --model", "bad_input.rs", "a_name_that_is_not_there"),
    ("run --output", "bad_input.rs", "the_answer_stands_alone_on_standard_output"),
    ("run --approve", "wiring.rs", "nobody_or_a_flag_says_yes"),
    ("run --trust", "trust.rs", "what_a_project_names_is_refused_where_nobody_can_be_asked"),
    ("run --stdin", "input.rs", "nothing_is_added_where_nothing_is_given"),
    ("run --verbose", "wiring.rs", "nobody_or_a_flag_says_yes"),
    ("run TASK", "bad_input.rs", "a_task_that_is_none"),
    ("run --session", "sessions/resume.rs", "a_named_session_is_made_and_gone_on_with"),
    ("run --after", "sessions/resume.rs", "a_session_begins_with_what_was_answered_in_another"),
    ("run --no-session", "sessions/resume.rs", "a_run_is_written_down_unless_it_is_not_to_be"),
    ("session resume --config", "sessions/resume.rs", "what_was_killed_goes_on_with_another_model_and_another_agent"),
    ("session resume --plugins", "sessions/resume.rs", "what_was_killed_goes_on_with_another_model_and_another_agent"),
    ("session resume --agent", "sessions/resume.rs", "what_was_killed_goes_on_with_another_model_and_another_agent"),
    ("session resume --model", "sessions/resume.rs", "what_was_killed_goes_on_with_another_model_and_another_agent"),
    ("session resume --output", "sessions/resume.rs", "what_was_killed_goes_on_with_another_model_and_another_agent"),
    ("session resume --approve", "sessions/resume.rs", "what_failed_goes_on_and_what_has_changed_is_told"),
    ("session resume --trust", "trust.rs", "a_session_goes_on_only_in_a_project_that_is_trusted"),
    ("session resume --stdin", "input.rs", "slow_input_is_waited_for_if_it_is_said"),
    ("session resume --verbose", "sessions/resume.rs", "what_failed_goes_on_and_what_has_changed_is_told"),
    (
        "session resume --up-to-damage",
        "sessions/resume.rs",
        "a_damaged_session_is_gone_on_with_up_to_the_damage_if_it_is_said",
    ),
    ("session resume SESSION", "sessions/resume.rs", "what_failed_goes_on_and_what_has_changed_is_told"),
    ("session resume TASK", "sessions/resume.rs", "a_task_comes_from_standard_input_here_too"),
    ("mcp list SERVER", "mcp.rs", "what_was_not_approved_is_left_out_until_it_is"),
    ("mcp list --config", "mcp.rs", "servers_are_started_for_who_is_trusted"),
    ("mcp list --trust", "mcp.rs", "what_was_not_approved_is_left_out_until_it_is"),
    ("mcp list --output", "mcp.rs", "what_was_not_approved_is_left_out_until_it_is"),
    ("mcp approve SERVER", "mcp.rs", "what_was_not_approved_is_left_out_until_it_is"),
    ("mcp approve TOOL", "mcp.rs", "what_was_not_approved_is_left_out_until_it_is"),
    ("mcp approve --yes", "mcp.rs", "what_was_not_approved_is_left_out_until_it_is"),
    ("mcp approve --config", "mcp.rs", "what_was_not_approved_is_left_out_until_it_is"),
    ("mcp approve --trust", "mcp.rs", "servers_are_started_for_who_is_trusted"),
    ("init --template", "init.rs", "a_project_begins"),
    ("init --dir", "init.rs", "a_project_begins"),
    ("init --force", "init.rs", "what_is_there_is_replaced_only_if_it_is_said"),
    ("init --list", "init.rs", "what_is_wrong_is_told"),
    ("config check --config", "config_check.rs", "the_first_mistake_is_told_as_a_run_tells_it"),
    ("config check --plugins", "config_check.rs", "the_first_mistake_is_told_as_a_run_tells_it"),
    ("config check --output", "config_check.rs", "what_holds_is_shown_with_all_that_the_file_leaves_out"),
    ("config check --load", "config_check.rs", "load_tells_what_only_loading_shows"),
    ("config check --trust", "config_check.rs", "load_tells_what_only_loading_shows"),
    ("config trust --yes", "trust.rs", "what_was_said_yes_to_holds_until_it_changes"),
    ("config trust --config", "trust.rs", "a_tool_is_trusted_as_it_was"),
    ("config trust --plugins", "trust.rs", "a_tool_is_trusted_as_it_was"),
    ("config trust --forget", "trust.rs", "what_is_trusted_is_listed_and_taken_back"),
    ("plugin list --config", "wiring.rs", "plugins_of_a_config_are_listed"),
    ("plugin list --plugins", "bad_input.rs", "two_plugins_of_one_id_stop_who_needs_them_alone"),
    ("plugin list --output", "wiring.rs", "plugins_of_a_config_are_listed"),
    ("plugin inspect PLUGIN", "wiring.rs", "plugins_of_a_config_are_listed"),
    ("plugin inspect --config", "wiring.rs", "plugins_of_a_config_are_listed"),
    ("plugin inspect --plugins", "wiring.rs", "plugins_of_a_config_are_listed"),
    ("plugin inspect --output", "wiring.rs", "plugins_of_a_config_are_listed"),
    ("plugin certify ID", "ceilings.rs", "a_certificate_is_printed"),
    ("plugin certify --agent", "ceilings.rs", "a_certificate_is_printed"),
    ("plugin certify --model", "ceilings.rs", "a_certificate_is_printed"),
    ("plugin certify --config", "ceilings.rs", "a_certificate_is_printed"),
    ("plugin certify --plugins", "ceilings.rs", "a_certificate_is_printed"),
    ("plugin certify --trust", "trust.rs", "what_a_plugin_of_a_project_can_reach_is_tried_once_it_is_trusted"),
    ("provider check NAME", "providers/check.rs", "models_are_asked_and_what_they_answer_is_told"),
    ("provider check --config", "providers/check.rs", "models_are_asked_and_what_they_answer_is_told"),
    ("provider check --plugins", "providers/check.rs", "a_plugin_is_asked_too"),
    ("provider check --trust", "providers/check.rs", "nothing_is_sent_to_where_a_project_says_unasked"),
    ("provider check --output", "providers/check.rs", "models_are_asked_and_what_they_answer_is_told"),
    ("mcp login SERVER", "mcp_login.rs", "a_server_of_the_config_is_logged_in_to_by_its_name"),
    ("mcp login --config", "mcp_login.rs", "a_server_of_the_config_is_logged_in_to_by_its_name"),
    ("mcp login --trust", "mcp_login.rs", "a_server_of_the_config_is_logged_in_to_by_its_name"),
    ("mcp logout --config", "mcp_login.rs", "a_server_of_the_config_is_logged_in_to_by_its_name"),
    ("mcp logout --trust", "mcp_login.rs", "a_server_of_the_config_is_logged_in_to_by_its_name"),
    ("mcp login --port", "mcp_login.rs", "a_port_that_is_taken_is_named"),
    ("mcp logout SERVER", "mcp_login.rs", "a_person_logs_in_and_out"),
    ("mcp --config", "serving.rs", "agents_skills_and_attachments_are_served"),
    ("mcp --plugins", "serving.rs", "the_clients_person_says_yes_or_a_flag_does"),
    ("mcp --agent", "serving.rs", "agents_skills_and_attachments_are_served"),
    ("mcp --model", "serving.rs", "agents_skills_and_attachments_are_served"),
    ("mcp --approve", "serving.rs", "the_clients_person_says_yes_or_a_flag_does"),
    ("mcp --trust", "serving.rs", "what_a_project_names_is_not_served_unasked"),
    ("mcp --no-session", "serving.rs", "agents_skills_and_attachments_are_served"),
    ("mcp --verbose", "serving.rs", "over_http_only_those_come_in_who_may"),
    ("mcp --http", "serving.rs", "over_http_only_those_come_in_who_may"),
    ("mcp --token-env", "serving.rs", "over_http_only_those_come_in_who_may"),
    ("mcp --allow-host", "serving.rs", "over_http_only_those_come_in_who_may"),
    ("mcp --allow-origin", "serving.rs", "over_http_only_those_come_in_who_may"),
    ("index --agent", "index.rs", "index_takes_the_flags_of_a_run"),
    ("index --approve", "index.rs", "index_takes_the_flags_of_a_run"),
    ("index --check", "index.rs", "index_takes_the_flags_of_a_run"),
    ("index --config", "index.rs", "index_takes_the_flags_of_a_run"),
    ("index --model", "index.rs", "index_takes_the_flags_of_a_run"),
    ("index --output", "index.rs", "index_takes_the_flags_of_a_run"),
    ("index --plugins", "index.rs", "index_takes_the_flags_of_a_run"),
    ("index --stdin", "index.rs", "index_takes_the_flags_of_a_run"),
    ("index --trust", "index.rs", "index_takes_the_flags_of_a_run"),
    ("index --verbose", "index.rs", "index_takes_the_flags_of_a_run"),
    ("conformance --kind", "conformance.rs", "what_is_exported_comes_to_the_same"),
    ("conformance --suite", "conformance.rs", "what_is_exported_comes_to_the_same"),
    ("conformance --export", "conformance.rs", "what_is_exported_comes_to_the_same"),
    ("conformance --output", "conformance.rs", "the_host_holds"),
    ("session list --config", "sessions/shown.rs", "the_config_says_whose_sessions_are_meant"),
    ("session list --limit", "sessions/shown.rs", "sessions_are_listed_the_newest_first"),
    ("session list --all", "sessions/shown.rs", "sessions_are_listed_the_newest_first"),
    ("session list --output", "sessions/shown.rs", "sessions_are_listed_the_newest_first"),
    ("session show --config", "sessions/shown.rs", "the_config_says_whose_sessions_are_meant"),
    ("session show --full", "sessions/shown.rs", "all_that_was_said_is_shown_if_it_is_asked_for"),
    ("session show --steps", "sessions/shown.rs", "the_steps_of_a_session_are_listed"),
    ("session show --output", "sessions/shown.rs", "the_steps_of_a_session_are_listed"),
    ("session show ID", "sessions/shown.rs", "what_was_said_is_shown"),
    ("session search --config", "sessions/shown.rs", "the_config_says_whose_sessions_are_meant"),
    ("session search --limit", "sessions/shown.rs", "a_session_is_found_by_what_was_said"),
    ("session search --output", "sessions/shown.rs", "a_session_is_found_by_what_was_said"),
    ("session search TEXT", "sessions/shown.rs", "a_session_is_found_by_what_was_said"),
    ("session export --config", "sessions/shown.rs", "the_config_says_whose_sessions_are_meant"),
    ("session export --format", "sessions/shown.rs", "a_session_is_exported_to_be_read"),
    ("session export --out", "sessions/shown.rs", "a_session_is_exported_to_be_read"),
    ("session export ID", "sessions/shown.rs", "a_session_is_exported_to_be_read"),
    ("session undo --config", "sessions/shown.rs", "the_config_says_whose_sessions_are_meant"),
    ("session undo --all", "changes/mod.rs", "what_a_session_changed_is_undone"),
    ("session undo --yes", "changes/mod.rs", "what_a_session_changed_is_undone"),
    ("session undo ID", "changes/mod.rs", "what_a_session_changed_is_undone"),
    ("session fork --config", "sessions/shown.rs", "the_config_says_whose_sessions_are_meant"),
    ("session fork --at", "sessions/shown.rs", "a_session_is_copied_up_to_a_step"),
    ("session fork --output", "sessions/shown.rs", "a_session_is_copied_up_to_a_step"),
    ("session fork ID", "sessions/shown.rs", "a_session_is_copied_up_to_a_step"),
    ("session rm --config", "sessions/shown.rs", "the_config_says_whose_sessions_are_meant"),
    ("session rm --output", "sessions/shown.rs", "sessions_are_removed"),
    ("session rm ID", "sessions/shown.rs", "sessions_are_removed"),
    ("session prune --config", "sessions/shown.rs", "the_config_says_whose_sessions_are_meant"),
    ("session prune --older-than", "sessions/shown.rs", "old_sessions_are_removed_and_those_that_could_go_on_stay"),
    ("session prune --keep", "sessions/shown.rs", "old_sessions_are_removed_and_those_that_could_go_on_stay"),
    ("session prune --max-bytes", "sessions/shown.rs", "old_sessions_are_removed_and_those_that_could_go_on_stay"),
    ("session prune --unfinished", "sessions/shown.rs", "old_sessions_are_removed_and_those_that_could_go_on_stay"),
    ("session prune --dry-run", "sessions/shown.rs", "old_sessions_are_removed_and_those_that_could_go_on_stay"),
    ("session prune --output", "sessions/shown.rs", "old_sessions_are_removed_and_those_that_could_go_on_stay"),
];

/// Collects the visible flags of a command and its subcommands; hidden ones are only for tests.
fn flags(command: &clap::Command, path: &str, found: &mut BTreeMap<String, String>) {
    for below in command.get_subcommands().filter(|below| below.get_name() != "help" && !below.is_hide_set()) {
        flags(below, format!("{path} {}", below.get_name()).trim(), found);
    }
    for argument in command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set() && !["help", "version"].contains(&argument.get_id().as_str()))
    {
        let written = match argument.get_long() {
            Some(long) => format!("--{long}"),
            None => {
                argument.get_value_names().map_or_else(|| argument.get_id().to_string(), |names| names[0].to_string())
            }
        };
        found.insert(format!("{path} {written}"), written);
    }
}

#[test]
fn every_flag_is_shown_to_do_something() {
    let mut found = BTreeMap::new();
    let mut command = Cli::command();
    command.build();
    flags(&command, "", &mut found);
    let there: BTreeSet<_> = found.keys().map(String::as_str).collect();
    assert_eq!(there, SHOWN.iter().map(|(flag, ..)| *flag).collect(), "each flag has a test, and each test a flag");
    for (flag, file, test) in SHOWN {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/all").join(file);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let start = text.find(&format!("\nfn {test}(")).unwrap_or_else(|| panic!("{file} has no test `{test}`"));
        assert!(text[..start].ends_with("#[test]"), "{file}: `{test}` is no test");
        let body = text[start..].split("\n}\n").next().unwrap();
        let written = &found[flag];
        assert!(!written.starts_with('-') || body.contains(&format!("\"{written}\"")), "{test} does not give `{flag}`");
    }
}
