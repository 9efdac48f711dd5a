//! A team file that also says how its process works: its settings stand for options that were not given.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf, time::Duration};

use clap::{ArgMatches, CommandFactory as _, parser::ValueSource};
use ghostlight::{
    config::{self, ProcessSetting, TeamFile},
    environment,
};

use super::{arguments::Arguments, commands::run, env_file, exit::Failure};

/// The section whose settings are variables of OpenTelemetry.
const OBSERVABILITY: &str = "observability";

/// Adds to the arguments of a command the settings of its team file: those which are options of that command, and that
/// were not given. The variables of `.env` are read for it. A file that cannot be read is left to the command.
///
/// # Errors
/// A setting that cannot be used, with its place.
pub(super) fn with_settings(mut given: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
    // Here an option may still lack the one that it requires.
    let command = Arguments::command().ignore_errors(true);
    let Ok(matches) = command.clone().try_get_matches_from(&given) else {
        return Ok(given);
    };
    let Some((name, of_command)) = matches.subcommand() else {
        return Ok(given);
    };
    let Some(subcommand) = command.find_subcommand(name) else {
        return Ok(given);
    };
    let takes = |id: &str| subcommand.get_arguments().any(|known| known.get_id() == id);
    let words = |id: &str| of_command.get_many::<String>(id).into_iter().flatten();
    let path = match (takes("team_file"), name) {
        (true, _) => of_command.get_one::<PathBuf>("team_file").cloned(),
        (false, "run") => run::team_file(&words("words").cloned().collect::<Vec<_>>()),
        (false, _) => None,
    };
    let Some(path) = path else {
        return Ok(given);
    };
    let variables = matches.get_one::<PathBuf>("env_file");
    if let Some(told) = env_file::load(variables)? {
        super::say(&told);
    }
    let Ok(file) = config::load(&path) else {
        return Ok(given);
    };
    let is_global = |id: &str| command.get_arguments().any(|known| known.get_id() == id);
    let mut added = Vec::new();
    let mut telemetry = BTreeMap::new();
    for setting in file.process() {
        if setting.section == OBSERVABILITY {
            telemetry.extend(variables_of(&file, setting)?);
            continue;
        }
        let is_known = takes(setting.key) || is_global(setting.key);
        if !is_known && name == "serve" {
            let reason = "this program was built without the cargo feature `full`, which brings it";
            return Err(file.fault(setting, reason).into());
        }
        if is_known && !was_given(of_command, &matches, setting.key, is_global(setting.key)) {
            added.extend(options(&file, setting)?);
        }
    }
    environment::supply(telemetry);
    let at = given.iter().position(|word| word == name);
    let after = at.map_or(given.len(), |at| at + 1);
    given.splice(after..after, added.into_iter().map(OsString::from));
    Ok(given)
}

/// Whether a person gave an option.
fn was_given(of_command: &ArgMatches, all: &ArgMatches, id: &str, is_global: bool) -> bool {
    let given = |matches: &ArgMatches| matches.value_source(id) == Some(ValueSource::CommandLine);
    given(of_command) || (is_global && given(all))
}

/// A setting as options.
fn options(file: &TeamFile, setting: &ProcessSetting) -> Result<Vec<String>, Failure> {
    let option = format!("--{}", setting.key.replace('_', "-"));
    let [value] = &setting.values[..] else {
        let each = setting.values.iter();
        return Ok(each.map(|value| format!("{option}={value}")).collect());
    };
    match (setting.key, value.as_str()) {
        ("quiet", "true") => Ok(vec![option]),
        ("quiet", "false") => Ok(Vec::new()),
        ("quiet", _) => Err(file.fault(setting, "expected true or false").into()),
        ("verbose", times) => match times.parse::<u8>() {
            Ok(times @ 0..=2) => Ok(vec![option; times.into()]),
            _ => Err(file.fault(setting, "expected 0, 1 or 2").into()),
        },
        _ => Ok(vec![format!("{option}={value}")]),
    }
}

/// A setting of `observability` as variables.
fn variables_of(
    file: &TeamFile,
    setting: &ProcessSetting,
) -> Result<Vec<(String, String)>, Failure> {
    let all = setting.values.join(",");
    let one = |name: &str| Ok(vec![(name.to_owned(), all.clone())]);
    match setting.key {
        "endpoint" => one("OTEL_EXPORTER_OTLP_ENDPOINT"),
        "labels" => one("OTEL_RESOURCE_ATTRIBUTES"),
        "messages" => one("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"),
        "metrics" => one("OTEL_METRICS_EXPORTER"),
        "metrics_interval_s" => {
            let time = all.parse().ok().map(Duration::try_from_secs_f64);
            let Some(Ok(time)) = time else {
                return Err(file.fault(setting, "expected a number of seconds").into());
            };
            let name = "OTEL_METRIC_EXPORT_INTERVAL".to_owned();
            Ok(vec![(name, time.as_millis().to_string())])
        }
        "protocol" => one("OTEL_EXPORTER_OTLP_PROTOCOL"),
        "service" => one("OTEL_SERVICE_NAME"),
        "traces" => one("OTEL_TRACES_EXPORTER"),
        "sampling" => Ok(vec![
            ("OTEL_TRACES_SAMPLER".to_owned(), "traceidratio".to_owned()),
            ("OTEL_TRACES_SAMPLER_ARG".to_owned(), all),
        ]),
        _ => Err(file.fault(setting, "there is no such setting").into()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[cfg(all(feature = "full", feature = "full", feature = "full", feature = "full"))]
    #[test]
    fn every_option_of_serve_has_its_section_and_every_key_is_one() {
        let command = Arguments::command();
        let serve = command.find_subcommand("serve").unwrap();
        let options = serve.get_arguments().chain(command.get_arguments());
        let options = options.filter(|option| option.get_long().is_some());
        let mut options: Vec<&str> = options.map(|option| option.get_id().as_str()).collect();
        // The team's own settings, and those that say how one command is used.
        options.retain(|id| {
            ![
                "model", "base_url", "provider", "json", "env_file", "eval", "help", "version",
            ]
            .contains(id)
        });
        options.sort_unstable();
        options.dedup();
        let sections = config::PROCESS_SECTIONS.iter();
        let sections = sections.filter(|(section, _)| *section != OBSERVABILITY);
        let mut keys: Vec<&str> = sections
            .flat_map(|(_, keys)| keys.iter().copied())
            .collect();
        keys.sort_unstable();
        assert_eq!(options, keys);
    }

    #[test]
    fn what_a_person_gives_stands_above_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("team.yaml");
        let text = "agent: { name: desk }\nstorage: { store: ./runs.db, keep: 3 }\n\
                    logging: { quiet: true }\nlimits: { live_runs: 7 }\n";
        std::fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap();
        let given = with_settings(words(&["ghostlight", "serve", path, "--keep", "9"])).unwrap();
        let given: Vec<String> = given
            .iter()
            .map(|word| word.to_str().unwrap().to_owned())
            .collect();
        let store = format!("--store={}", folder.path().join("./runs.db").display());
        let expected = ["ghostlight", "serve", &store, "--quiet", "--live-runs=7"];
        let mut sorted = given[..given.len() - 3].to_vec();
        sorted[2..].sort_unstable();
        let mut wanted: Vec<String> = expected.map(str::to_owned).to_vec();
        wanted[2..].sort_unstable();
        assert_eq!(sorted, wanted);
        assert_eq!(given[given.len() - 3..], [path, "--keep", "9"]);
        // A command takes what it has options for.
        let run = with_settings(words(&["ghostlight", "run", path, "hi"])).unwrap();
        assert_eq!(run.len(), 6, "the store and quiet: {run:?}");
        let runs = words(&["ghostlight", "runs"]);
        assert_eq!(with_settings(runs.clone()).unwrap(), runs);
        let unreadable = words(&["ghostlight", "serve", "no-such-file.yaml"]);
        assert_eq!(with_settings(unreadable.clone()).unwrap(), unreadable);
    }
}
