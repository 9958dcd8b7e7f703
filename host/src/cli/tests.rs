//! Every flag does something: a test of whole runs is named for each, and one without fails here.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use clap::CommandFactory;

use super::command_line::Cli;

/// A flag of a command, and the test in `tests/all` that shows what it does.
const SHOWN: [(&str, &str, &str); 249] = [
    ("run --config", "bad_input.rs", "unreadable_config_is_reported"),
    ("run --plugins", "bad_input.rs", "invalid_plugin_directory_is_reported"),
    ("run --agent", "bad_input.rs", "unknown_name_is_reported_with_suggestions"),
    ("run --model", "bad_input.rs", "unknown_name_is_reported_with_suggestions"),
    ("run --output", "bad_input.rs", "stdout_holds_only_the_answer"),
    ("run --approve", "wiring.rs", "headless_tool_call_is_approved_by_a_flag"),
    ("run --trust", "trust.rs", "untrusted_project_is_refused_without_a_terminal"),
    ("run --stdin", "input.rs", "empty_standard_input_adds_nothing_to_the_task"),
    ("run --verbose", "wiring.rs", "headless_tool_call_is_approved_by_a_flag"),
    ("run --max-cost", "terminal.rs", "max_cost_needs_prices_and_bounds_the_run"),
    ("run --quiet", "terminal.rs", "quiet_run_prints_the_answer_alone"),
    ("run --stream", "terminal.rs", "streamed_text_includes_what_precedes_calls"),
    ("run --attach", "attached.rs", "attached_files_and_schema_belong_to_the_task"),
    ("run --schema", "attached.rs", "attached_files_and_schema_belong_to_the_task"),
    ("session resume --attach", "attached.rs", "session_resumes_with_files_and_a_schema"),
    ("session resume --schema", "attached.rs", "session_resumes_with_files_and_a_schema"),
    ("run TASK", "bad_input.rs", "invalid_task_is_reported"),
    ("run --session", "sessions/resume.rs", "named_session_is_created_and_continued"),
    ("run --after", "sessions/resume.rs", "session_after_another_begins_with_its_answer"),
    ("run --no-session", "sessions/resume.rs", "run_is_recorded_unless_disabled"),
    ("chat --config", "chat.rs", "chat_takes_the_options_of_a_run"),
    ("chat --plugins", "chat.rs", "chat_takes_the_options_of_a_run"),
    ("chat --agent", "chat.rs", "chat_takes_the_options_of_a_run"),
    ("chat --model", "chat.rs", "chat_takes_the_options_of_a_run"),
    ("chat --approve", "chat.rs", "chat_takes_the_options_of_a_run"),
    ("chat --trust", "chat.rs", "chat_takes_the_options_of_a_run"),
    ("chat --max-cost", "chat.rs", "chat_takes_the_options_of_a_run"),
    ("chat --verbose", "chat.rs", "chat_takes_the_options_of_a_run"),
    ("chat --continue", "chat.rs", "chat_takes_the_options_of_a_run"),
    ("chat --resume", "chat.rs", "chat_takes_the_options_of_a_run"),
    ("session resume --config", "sessions/resume.rs", "killed_session_resumes_with_another_model_and_agent"),
    ("session resume --plugins", "sessions/resume.rs", "killed_session_resumes_with_another_model_and_agent"),
    ("session resume --agent", "sessions/resume.rs", "killed_session_resumes_with_another_model_and_agent"),
    ("session resume --model", "sessions/resume.rs", "killed_session_resumes_with_another_model_and_agent"),
    ("session resume --output", "sessions/resume.rs", "killed_session_resumes_with_another_model_and_agent"),
    ("session resume --approve", "sessions/resume.rs", "failed_session_resumes_and_reports_config_changes"),
    ("session resume --trust", "trust.rs", "session_resumes_only_in_a_trusted_project"),
    ("session resume --stdin", "input.rs", "slow_input_is_awaited_with_stdin_always"),
    ("session resume --verbose", "sessions/resume.rs", "failed_session_resumes_and_reports_config_changes"),
    ("session resume --max-cost", "terminal.rs", "resumed_session_takes_the_display_flags"),
    ("session resume --quiet", "terminal.rs", "resumed_session_takes_the_display_flags"),
    ("session resume --stream", "terminal.rs", "resumed_session_takes_the_display_flags"),
    ("session resume --up-to-damage", "sessions/resume.rs", "damaged_session_resumes_only_with_up_to_damage"),
    ("session resume SESSION", "sessions/resume.rs", "failed_session_resumes_and_reports_config_changes"),
    ("session resume TASK", "sessions/resume.rs", "session_resume_reads_the_task_from_stdin"),
    ("mcp list SERVER", "mcp.rs", "unapproved_mcp_tools_are_left_out"),
    ("mcp list --config", "mcp.rs", "mcp_servers_start_only_in_trusted_projects"),
    ("mcp list --trust", "mcp.rs", "unapproved_mcp_tools_are_left_out"),
    ("mcp list --output", "mcp.rs", "unapproved_mcp_tools_are_left_out"),
    ("mcp approve SERVER", "mcp.rs", "unapproved_mcp_tools_are_left_out"),
    ("mcp approve TOOL", "mcp.rs", "unapproved_mcp_tools_are_left_out"),
    ("mcp approve --yes", "mcp.rs", "unapproved_mcp_tools_are_left_out"),
    ("mcp approve --config", "mcp.rs", "unapproved_mcp_tools_are_left_out"),
    ("mcp approve --trust", "mcp.rs", "mcp_servers_start_only_in_trusted_projects"),
    ("batch --config", "batch.rs", "options_of_the_batch_apply_to_all_tasks"),
    ("batch --plugins", "batch.rs", "tasks_run_with_plugins_and_a_plugin_model"),
    ("batch --agent", "batch.rs", "options_of_the_batch_apply_to_all_tasks"),
    ("batch --model", "batch.rs", "options_of_the_batch_apply_to_all_tasks"),
    ("batch --approve", "batch.rs", "options_of_the_batch_apply_to_all_tasks"),
    ("batch --trust", "batch.rs", "consent_is_needed_once_before_the_batch"),
    ("batch --tasks", "batch.rs", "dry_run_estimates_and_sends_nothing"),
    ("batch --output", "batch.rs", "dry_run_estimates_and_sends_nothing"),
    ("batch --dry-run", "batch.rs", "dry_run_estimates_and_sends_nothing"),
    ("batch --jobs", "batch.rs", "all_tasks_share_the_rate_limit_of_their_model"),
    ("batch --no-session", "batch.rs", "as_many_tasks_work_at_once_as_jobs_allow"),
    ("batch --max-cost", "batch.rs", "no_task_begins_once_the_cost_is_reached"),
    ("batch --retry-failed", "batch.rs", "failed_task_is_repeated_only_on_request"),
    ("batch --cheap", "batch.rs", "cheap_batch_uses_the_batch_api_of_the_vendor"),
    ("doctor --config", "doctor.rs", "doctor_asks_the_models_of_a_named_config"),
    ("doctor --plugins", "doctor.rs", "doctor_says_why_a_plugin_cannot_be_loaded"),
    ("doctor --offline", "doctor.rs", "doctor_without_a_config_finds_no_problem_offline"),
    ("doctor --start-servers", "doctor.rs", "doctor_starts_mcp_servers_only_when_told"),
    ("doctor --bundle", "doctor.rs", "bundle_never_replaces_a_file"),
    ("doctor --output", "doctor.rs", "doctor_runs_nothing_of_an_untrusted_project"),
    ("completions SHELL", "completions.rs", "installed_shells_complete_commands_and_names"),
    ("man DIR", "manual.rs", "man_writes_a_page_for_each_command"),
    ("init --template", "init.rs", "init_creates_a_project"),
    ("init --dir", "init.rs", "init_creates_a_project"),
    ("init --force", "init.rs", "init_replaces_files_only_with_force"),
    ("init --list-templates", "init.rs", "init_errors_are_reported"),
    ("config check --config", "config_check.rs", "config_check_and_run_report_the_same_first_error"),
    ("config check --plugins", "config_check.rs", "config_check_and_run_report_the_same_first_error"),
    ("config check --output", "config_check.rs", "config_check_shows_the_effective_config_with_defaults"),
    ("config check --load", "config_check.rs", "config_check_load_reports_plugin_load_errors"),
    ("config check --trust", "config_check.rs", "config_check_load_reports_plugin_load_errors"),
    ("config path --config", "user_config/shown.rs", "config_path_lists_each_file_and_why_it_is_not_used"),
    ("config path --output", "user_config/shown.rs", "config_path_lists_each_file_and_why_it_is_not_used"),
    ("config show --origin", "user_config/shown.rs", "config_show_origin_names_file_and_line_of_each_setting"),
    ("config show --config", "user_config/shown.rs", "config_show_origin_names_file_and_line_of_each_setting"),
    ("config show --plugins", "user_config/shown.rs", "config_show_origin_names_file_and_line_of_each_setting"),
    ("config show --output", "user_config/shown.rs", "config_show_origin_names_file_and_line_of_each_setting"),
    ("config trust --yes", "trust.rs", "project_trust_holds_until_a_file_changes"),
    ("config trust --config", "trust.rs", "tool_trust_is_bound_to_its_digest"),
    ("config trust --plugins", "trust.rs", "tool_trust_is_bound_to_its_digest"),
    ("config trust --forget", "trust.rs", "config_trust_lists_and_forgets_entries"),
    ("plugin list --config", "wiring.rs", "plugin_list_covers_the_named_config"),
    ("plugin list --plugins", "bad_input.rs", "duplicate_plugin_id_fails_only_agents_that_need_it"),
    ("plugin list --output", "wiring.rs", "plugin_list_covers_the_named_config"),
    ("plugin inspect PLUGIN", "wiring.rs", "plugin_list_covers_the_named_config"),
    ("plugin inspect --config", "wiring.rs", "plugin_list_covers_the_named_config"),
    ("plugin inspect --plugins", "wiring.rs", "plugin_list_covers_the_named_config"),
    ("plugin inspect --output", "wiring.rs", "plugin_list_covers_the_named_config"),
    ("plugin new NAME", "authors.rs", "plugin_new_writes_each_language_and_replaces_nothing"),
    ("plugin new --kind", "authors.rs", "new_rust_plugin_of_each_kind_is_built_and_runs"),
    ("plugin new --lang", "authors.rs", "plugin_new_writes_each_language_and_replaces_nothing"),
    ("plugin new --world", "authors.rs", "new_rust_component_with_its_own_world_is_a_tool"),
    ("plugin new --dir", "authors.rs", "plugin_new_writes_each_language_and_replaces_nothing"),
    ("plugin build DIR", "authors.rs", "new_rust_plugin_of_each_kind_is_built_and_runs"),
    ("plugin build --release", "authors.rs", "new_rust_component_with_its_own_world_is_a_tool"),
    ("plugin check PLUGIN", "plugin_check.rs", "check_shows_what_a_plugin_is_and_takes"),
    ("plugin check --output", "plugin_check.rs", "check_shows_what_a_plugin_is_and_takes"),
    ("plugin check --config", "plugin_check.rs", "check_finds_a_plugin_by_its_id"),
    ("plugin check --plugins", "plugin_check.rs", "check_finds_a_plugin_by_its_id"),
    ("plugin check --rebuild", "plugin_check.rs", "rebuild_compares_two_builds_from_nothing"),
    ("plugin check --release", "plugin_check.rs", "rebuild_compares_two_builds_from_nothing"),
    ("plugin dev DIR", "plugin_dev.rs", "real_project_is_built_and_tried_after_each_change"),
    ("plugin dev --call", "plugin_dev.rs", "real_project_is_built_and_tried_after_each_change"),
    ("plugin dev --output", "plugin_dev.rs", "failed_build_keeps_the_last_plugin"),
    ("plugin dev --release", "plugin_dev.rs", "failed_build_keeps_the_last_plugin"),
    ("plugin dev --step", "plugin_dev.rs", "step_is_repeated_with_what_is_granted"),
    ("plugin dev --grant", "plugin_dev.rs", "step_is_repeated_with_what_is_granted"),
    ("plugin dev --params", "plugin_dev.rs", "step_is_repeated_with_what_is_granted"),
    ("plugin dev --complete", "plugin_dev.rs", "request_is_repeated_with_the_limits_of_a_config"),
    ("plugin dev --config", "plugin_dev.rs", "request_is_repeated_with_the_limits_of_a_config"),
    ("plugin dev --dir", "plugin_dev.rs", "folders_of_a_trial_are_below_the_named_one"),
    ("plugin wit --world", "authors.rs", "plugin_wit_prints_or_writes_a_world"),
    ("plugin wit --out", "authors.rs", "plugin_wit_prints_or_writes_a_world"),
    ("plugin certify ID", "ceilings.rs", "plugin_certify_prints_a_certificate"),
    ("plugin certify --agent", "ceilings.rs", "plugin_certify_prints_a_certificate"),
    ("plugin certify --model", "ceilings.rs", "plugin_certify_prints_a_certificate"),
    ("plugin certify --config", "ceilings.rs", "plugin_certify_prints_a_certificate"),
    ("plugin certify --plugins", "ceilings.rs", "plugin_certify_prints_a_certificate"),
    ("plugin certify --trust", "trust.rs", "plugin_certify_requires_project_trust"),
    ("plugin call PLUGIN", "plugin_commands.rs", "tool_call_prints_result_log_and_figures"),
    ("plugin call TOOL", "plugin_commands.rs", "tool_call_prints_result_log_and_figures"),
    ("plugin call JSON", "plugin_commands.rs", "tool_call_prints_result_log_and_figures"),
    ("plugin call --grant", "plugin_commands.rs", "tool_call_prints_result_log_and_figures"),
    ("plugin call --output", "plugin_commands.rs", "tool_call_prints_result_log_and_figures"),
    ("plugin call --params", "plugin_commands.rs", "tool_call_takes_params_and_a_folder"),
    ("plugin call --dir", "plugin_commands.rs", "tool_call_takes_params_and_a_folder"),
    ("plugin call --config", "plugin_commands.rs", "entries_of_a_project_are_used_only_with_consent"),
    ("plugin call --plugins", "plugin_commands.rs", "entries_of_a_project_are_used_only_with_consent"),
    ("plugin call --trust", "plugin_commands.rs", "entries_of_a_project_are_used_only_with_consent"),
    ("plugin step PLUGIN", "plugin_commands/steps.rs", "kind_of_a_step_is_named_only_among_several"),
    ("plugin step --kind", "plugin_commands/steps.rs", "kind_of_a_step_is_named_only_among_several"),
    ("plugin step FILE", "plugin_commands/steps.rs", "kind_of_a_step_is_named_only_among_several"),
    ("plugin step --grant", "plugin_commands/steps.rs", "effect_edits_are_applied_within_its_powers"),
    ("plugin step --params", "plugin_commands/steps.rs", "effect_edits_are_applied_within_its_powers"),
    ("plugin step --output", "plugin_commands/steps.rs", "effect_edits_are_applied_within_its_powers"),
    ("plugin step --model", "plugin_commands/steps.rs", "named_model_answers_the_question_of_a_step"),
    ("plugin step --config", "plugin_commands/steps.rs", "named_model_answers_the_question_of_a_step"),
    ("plugin step --dir", "plugin_commands.rs", "steps_and_requests_find_plugins_and_folders"),
    ("plugin step --plugins", "plugin_commands.rs", "steps_and_requests_find_plugins_and_folders"),
    ("plugin step --trust", "plugin_commands.rs", "steps_and_requests_find_plugins_and_folders"),
    ("plugin complete PLUGIN", "plugin_commands.rs", "provider_reply_is_streamed_then_described"),
    ("plugin complete --message", "plugin_commands.rs", "provider_reply_is_streamed_then_described"),
    ("plugin complete --params", "plugin_commands.rs", "provider_reply_is_streamed_then_described"),
    ("plugin complete --output", "plugin_commands.rs", "provider_reply_is_streamed_then_described"),
    ("plugin complete FILE", "plugin_commands.rs", "request_of_a_file_reaches_the_provider"),
    ("plugin complete --grant", "plugin_commands.rs", "steps_and_requests_find_plugins_and_folders"),
    ("plugin complete --dir", "plugin_commands.rs", "steps_and_requests_find_plugins_and_folders"),
    ("plugin complete --plugins", "plugin_commands.rs", "steps_and_requests_find_plugins_and_folders"),
    ("plugin complete --trust", "plugin_commands.rs", "steps_and_requests_find_plugins_and_folders"),
    ("plugin complete --config", "plugin_commands.rs", "steps_and_requests_find_plugins_and_folders"),
    ("plugin test PLUGIN", "plugin_cases.rs", "cases_of_shipped_plugins_pass"),
    ("plugin test --cases", "plugin_cases.rs", "cases_of_shipped_plugins_pass"),
    ("plugin test --filter", "plugin_cases.rs", "failed_case_is_shown_with_what_differs"),
    ("plugin test --update", "plugin_cases.rs", "update_writes_what_came_out_and_keeps_the_rest"),
    ("plugin test --output", "plugin_cases.rs", "junit_report_has_each_case"),
    ("plugin test --config", "plugin_cases.rs", "cases_beside_a_plugin_are_found_by_its_id"),
    ("plugin test --plugins", "plugin_cases.rs", "cases_beside_a_plugin_are_found_by_its_id"),
    ("plugin test --trust", "plugin_cases.rs", "cases_beside_a_plugin_are_found_by_its_id"),
    ("provider check NAME", "providers/check.rs", "provider_check_reports_each_answer"),
    ("provider check --config", "providers/check.rs", "provider_check_reports_each_answer"),
    ("provider check --plugins", "providers/check.rs", "provider_check_covers_plugins"),
    ("provider check --trust", "providers/check.rs", "untrusted_project_sends_no_provider_request"),
    ("provider check --output", "providers/check.rs", "provider_check_reports_each_answer"),
    ("mcp login SERVER", "mcp_login.rs", "mcp_login_accepts_a_configured_server_name"),
    ("mcp login --config", "mcp_login.rs", "mcp_login_accepts_a_configured_server_name"),
    ("mcp login --trust", "mcp_login.rs", "mcp_login_accepts_a_configured_server_name"),
    ("mcp logout --config", "mcp_login.rs", "mcp_login_accepts_a_configured_server_name"),
    ("mcp logout --trust", "mcp_login.rs", "mcp_login_accepts_a_configured_server_name"),
    ("mcp login --port", "mcp_login.rs", "mcp_login_names_a_busy_port"),
    ("mcp logout SERVER", "mcp_login.rs", "mcp_login_stores_a_private_token_and_logout_removes_it"),
    ("mcp --config", "serving.rs", "agents_skills_and_attachments_are_served"),
    ("mcp --plugins", "serving.rs", "mcp_call_is_approved_by_the_client_or_a_flag"),
    ("mcp --agent", "serving.rs", "agents_skills_and_attachments_are_served"),
    ("mcp --model", "serving.rs", "agents_skills_and_attachments_are_served"),
    ("mcp --approve", "serving.rs", "mcp_call_is_approved_by_the_client_or_a_flag"),
    ("mcp --trust", "serving.rs", "untrusted_project_is_not_served"),
    ("mcp --no-session", "serving.rs", "agents_skills_and_attachments_are_served"),
    ("mcp --verbose", "serving.rs", "mcp_over_http_requires_the_token"),
    ("mcp --http", "serving.rs", "mcp_over_http_requires_the_token"),
    ("mcp --token-env", "serving.rs", "mcp_over_http_requires_the_token"),
    ("mcp --allow-host", "serving.rs", "mcp_over_http_requires_the_token"),
    ("mcp --allow-origin", "serving.rs", "mcp_over_http_requires_the_token"),
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
    ("index --max-cost", "terminal.rs", "index_takes_the_display_flags"),
    ("index --quiet", "terminal.rs", "index_takes_the_display_flags"),
    ("index --stream", "terminal.rs", "index_takes_the_display_flags"),
    ("conformance --kind", "conformance.rs", "exported_attack_suite_gives_the_same_results"),
    ("conformance --suite", "conformance.rs", "exported_attack_suite_gives_the_same_results"),
    ("conformance --export", "conformance.rs", "exported_attack_suite_gives_the_same_results"),
    ("conformance --output", "conformance.rs", "host_passes_the_attack_suite"),
    ("session list --config", "sessions/shown.rs", "config_path_selects_the_session_folder"),
    ("session list --limit", "sessions/shown.rs", "session_list_is_sorted_newest_first"),
    ("session list --all", "sessions/shown.rs", "session_list_is_sorted_newest_first"),
    (
        "session list --all-projects",
        "sessions/all_projects.rs",
        "sessions_of_all_projects_are_listed_with_their_projects",
    ),
    ("session list --output", "sessions/shown.rs", "session_list_is_sorted_newest_first"),
    ("session show --config", "sessions/shown.rs", "config_path_selects_the_session_folder"),
    ("session show --full", "sessions/shown.rs", "session_show_full_prints_whole_texts"),
    ("session show --steps", "sessions/shown.rs", "session_show_steps_lists_records"),
    ("session show --output", "sessions/shown.rs", "session_show_steps_lists_records"),
    ("session show ID", "sessions/shown.rs", "session_show_prints_the_conversation"),
    ("session search --config", "sessions/shown.rs", "config_path_selects_the_session_folder"),
    ("session search --limit", "sessions/shown.rs", "session_search_finds_text"),
    ("session search --output", "sessions/shown.rs", "session_search_finds_text"),
    ("session search TEXT", "sessions/shown.rs", "session_search_finds_text"),
    ("session export --config", "sessions/shown.rs", "config_path_selects_the_session_folder"),
    ("session export --format", "sessions/shown.rs", "session_export_writes_markdown"),
    ("session export --out", "sessions/shown.rs", "session_export_writes_markdown"),
    ("session export ID", "sessions/shown.rs", "session_export_writes_markdown"),
    ("session undo --config", "sessions/shown.rs", "config_path_selects_the_session_folder"),
    ("session undo --all", "changes/mod.rs", "undo_reverts_the_changes_of_a_session"),
    ("session undo --yes", "changes/mod.rs", "undo_reverts_the_changes_of_a_session"),
    ("session undo ID", "changes/mod.rs", "undo_reverts_the_changes_of_a_session"),
    ("session fork --config", "sessions/shown.rs", "config_path_selects_the_session_folder"),
    ("session fork --at", "sessions/shown.rs", "session_fork_copies_up_to_a_step"),
    ("session fork --output", "sessions/shown.rs", "session_fork_copies_up_to_a_step"),
    ("session fork ID", "sessions/shown.rs", "session_fork_copies_up_to_a_step"),
    ("session rm --config", "sessions/shown.rs", "config_path_selects_the_session_folder"),
    ("session rm --output", "sessions/shown.rs", "session_rm_removes_sessions"),
    ("session rm ID", "sessions/shown.rs", "session_rm_removes_sessions"),
    ("session prune --config", "sessions/shown.rs", "config_path_selects_the_session_folder"),
    ("session prune --older-than", "sessions/shown.rs", "session_prune_removes_old_and_keeps_resumable_sessions"),
    ("session prune --keep", "sessions/shown.rs", "session_prune_removes_old_and_keeps_resumable_sessions"),
    ("session prune --max-bytes", "sessions/shown.rs", "session_prune_removes_old_and_keeps_resumable_sessions"),
    ("session prune --unfinished", "sessions/shown.rs", "session_prune_removes_old_and_keeps_resumable_sessions"),
    ("session prune --dry-run", "sessions/shown.rs", "session_prune_removes_old_and_keeps_resumable_sessions"),
    ("session prune --output", "sessions/shown.rs", "session_prune_removes_old_and_keeps_resumable_sessions"),
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

#[test]
fn exit_codes_of_the_help_and_the_documents_agree() {
    let help = Cli::command().get_after_help().unwrap().to_string();
    let (_, codes) = help.split_once("Exit codes:\n").unwrap();
    let mut shown: Vec<(u8, String)> = Vec::new();
    for line in codes.lines() {
        let (number, text) = line.split_at(6);
        match (number.trim().parse(), shown.last_mut()) {
            (Ok(code), _) => shown.push((code, text.trim().to_owned())),
            (Err(_), Some((_, before))) => *before = format!("{before} {}", text.trim()),
            (Err(_), None) => panic!("{line}"),
        }
    }
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operating.md")).unwrap();
    let page = page.replace('`', "");
    for (code, text) in shown.iter().filter(|(code, _)| (1..=70).contains(code)) {
        assert!(page.contains(&format!("\n| {code} | {text} |\n")), "docs/operating.md: {code}: {text}");
    }
    assert_eq!(shown.len(), 7, "{shown:?}");
}
