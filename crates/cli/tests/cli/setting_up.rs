//! What a person sets up, and what the command tells of it.

use std::path::Path;

use serde_json::json;

use crate::own_command::Desk;

const TEAM: &str = "agent: { name: desk }\n";
const HELPDESK: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../examples/teams/helpdesk.yaml"
);

fn desk() -> Desk {
    let desk = Desk::new("says", json!({}));
    desk.write("plain.yaml", TEAM);
    desk
}

fn model(desk: &Desk, words: &[&str], set: &[(&str, &str)]) -> String {
    let words: Vec<&str> = ["team", "check", "plain.yaml"]
        .iter()
        .chain(words)
        .copied()
        .collect();
    desk.shipped_with(&words, "", set).exits(0).out
}

#[test]
fn the_model_is_that_of_the_option_the_environment_a_file_or_the_users_settings() {
    let desk = desk();
    assert!(model(&desk, &[], &[]).contains("model offline"));
    let options = ["--model", "m1", "--base-url", "http://127.0.0.1:9/v1"];
    let chosen = model(&desk, &options, &[]);
    assert!(
        chosen.contains("model openai m1 at 127.0.0.1:9"),
        "{chosen}"
    );
    let none = desk
        .shipped(&["team", "check", "plain.yaml", "--provider", "nobody"])
        .exits(2);
    assert!(none.err.contains("there are: "), "{}", none.err);
    std::fs::create_dir_all(desk.path("config/ghostlight")).unwrap();
    desk.write(
        "config/ghostlight/config.yaml",
        "model: m2\nbase_url: http://127.0.0.1:8/v1\n",
    );
    assert!(model(&desk, &[], &[]).contains("openai m2 at 127.0.0.1:8"));
    desk.write(".env", "export OPENAI_MODEL='m3' # the third\n");
    assert!(model(&desk, &[], &[]).contains("openai m3 at 127.0.0.1:8"));
    assert!(model(&desk, &[], &[("OPENAI_MODEL", "m4")]).contains("openai m4"));
    assert!(model(&desk, &["--model", "m5"], &[("OPENAI_MODEL", "m4")]).contains("openai m5"));
    desk.write("config/ghostlight/config.yaml", "base_url: nowhere\n");
    let wrong = desk
        .shipped(&["team", "check", "plain.yaml", "--provider", "openai"])
        .exits(2);
    assert!(
        wrong.err.contains("base_url must be") && wrong.err.contains("at your settings"),
        "{}",
        wrong.err
    );
    desk.write("config/ghostlight/config.yaml", "modell: m\n");
    let wrong = desk.shipped(&["team", "check", "plain.yaml"]).exits(2);
    assert!(
        wrong.err.contains("config.yaml") && wrong.err.contains("modell"),
        "{}",
        wrong.err
    );
}

#[test]
fn a_file_that_nobody_named_sends_no_key_to_an_address_of_its_own() {
    let desk = desk();
    desk.write(".env", "OPENAI_BASE_URL=http://127.0.0.1:7/v1\n");
    let key = [("OPENAI_API_KEY", "sk-test-key")];
    let done = desk
        .shipped_with(&["team", "check", "plain.yaml"], "", &key)
        .exits(0);
    assert!(!done.out.contains("127.0.0.1"), "{}", done.out);
    assert!(done.err.contains("--env-file"), "{}", done.err);
    let named = desk.shipped_with(
        &["team", "check", "plain.yaml", "--env-file", ".env"],
        "",
        &key,
    );
    assert!(named.exits(0).out.contains("127.0.0.1:7"));
    desk.write(".env", "ANTHROPIC_BASE_URL=http://127.0.0.1:7/v1\n");
    let key = [("ANTHROPIC_API_KEY", "sk-test-key")];
    let done = desk
        .shipped_with(&["team", "check", "plain.yaml"], "", &key)
        .exits(0);
    assert!(done.err.contains("ANTHROPIC_BASE_URL"), "{}", done.err);
    assert!(done.out.contains("api.anthropic.com"), "{}", done.out);
    desk.write("bad.env", "no pair\n");
    let wrong = desk
        .shipped(&["team", "check", "plain.yaml", "--env-file", "bad.env"])
        .exits(2);
    assert!(wrong.err.contains("bad.env:1"), "{}", wrong.err);
}

#[test]
fn a_foreign_env_file_that_nobody_named_stops_nothing() {
    let desk = desk();
    let place = desk.path(".env");
    let check = || desk.shipped(&["team", "check", "plain.yaml", "--provider", "openai"]);
    let pem =
        "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADAN\nQmFnIEF0dHJp==\n-----END PRIVATE KEY-----\nx\n";
    for (text, told) in [
        (pem.as_bytes(), ".env: 1 more"),
        (b"\xef\xbb\xbfOPENAI_MODEL=m7\n", ""),
        (b"a.b=1\nOPENAI_MODEL=m7\n", ".env:1: "),
        (b"OPENAI_MODEL=m7\nQUOTED='x' hunter2\n", ".env:2: "),
        (b"\xff\xfe\x00A=1", ".env is not used: "),
    ] {
        std::fs::write(&place, text).unwrap();
        let done = check().exits(0);
        assert!(done.err.contains(told), "{told}: {}", done.err);
        assert_eq!(done.err.is_empty(), told.is_empty(), "{}", done.err);
        let leaked = ["QmFn", "MIIE", "hunter2"]
            .iter()
            .any(|part| done.err.contains(part));
        assert!(!leaked, "{}", done.err);
        let text = String::from_utf8_lossy(text);
        assert_eq!(
            done.out.contains("openai m7"),
            text.contains("m7"),
            "{}",
            done.out
        );
    }
    std::fs::remove_file(&place).unwrap();
    std::fs::create_dir(&place).unwrap();
    let done = check().exits(0);
    assert!(done.err.contains(".env is not used: "), "{}", done.err);
    let named = desk.shipped(&["team", "check", "plain.yaml", "--env-file", ".env"]);
    named.exits(2);
    #[cfg(unix)]
    {
        std::fs::remove_dir(&place).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&place).status();
        assert!(made.unwrap().success());
        let done = check().exits(0);
        assert!(done.err.contains(".env is not used: "), "{}", done.err);
    }
}

#[test]
fn a_run_says_which_model_and_that_nothing_is_real_and_how_to_go_on() {
    let desk = desk();
    let words = ["run", HELPDESK, "What is 6 * 7?", "--dry-run", "--json"];
    let done = desk.shipped(&words).exits(0);
    let first = done.err.lines().next().unwrap();
    assert!(
        first.contains("model offline (built in") && first.contains("dry run"),
        "{first}"
    );
    let run = desk.shipped(&["run", HELPDESK, "What is 6 * 7?"]).exits(0);
    let (_, key) = run
        .err
        .lines()
        .next()
        .unwrap()
        .rsplit_once("session ")
        .unwrap();
    desk.shipped(&["run", HELPDESK, "What is 6 * 8?", "--session", key])
        .exits(0);
    let log = desk
        .shipped(&["session", "show", &format!("helpdesk/{key}")])
        .exits(0);
    assert!(
        log.out.contains("6 * 7") && log.out.contains("6 * 8"),
        "{}",
        log.out
    );
    let quiet = desk
        .shipped(&["run", HELPDESK, "What is 6 * 7?", "-q"])
        .exits(0);
    assert!(
        quiet.err.is_empty() && quiet.out.contains("42"),
        "{quiet:?}"
    );
    let verbose = desk
        .shipped(&["run", HELPDESK, "What is 6 * 7?", "-v"])
        .exits(0);
    assert!(verbose.err.contains("answered in"), "{}", verbose.err);
    let coloured = desk
        .shipped(&["run", HELPDESK, "What is 6 * 7?", "--color", "always"])
        .exits(0);
    assert!(coloured.err.contains('\u{1b}'), "{}", coloured.err);
}

#[test]
fn what_the_engine_notes_is_had_on_stderr_or_in_a_file() {
    let desk = desk();
    let run = ["run", HELPDESK, "What is 6 * 7?"];
    let noted = desk
        .shipped_with(&run, "", &[("RUST_LOG", "trace")])
        .exits(0);
    assert!(
        noted.err.contains("TRACE") || noted.err.contains("DEBUG"),
        "{}",
        noted.err
    );
    let words: Vec<&str> = run.iter().chain(&["--log", "notes.txt"]).copied().collect();
    desk.shipped_with(&words, "", &[("RUST_LOG", "trace")])
        .exits(0);
    let notes = std::fs::read_to_string(desk.path("notes.txt")).unwrap();
    assert!(
        notes.contains("TRACE") || notes.contains("DEBUG"),
        "{notes}"
    );
    let wrong = desk
        .shipped_with(&run, "", &[("RUST_LOG", "a=b=c")])
        .exits(2);
    assert!(wrong.err.contains("RUST_LOG"), "{}", wrong.err);
}

#[test]
fn what_a_team_file_may_name_is_listed_with_its_settings() {
    let desk = desk();
    let tools = desk.shipped(&["list", "tools"]).exits(0).out;
    assert!(
        tools.contains("calculator") && tools.contains("expression"),
        "{tools}"
    );
    assert!(
        tools.contains("document_search") && tools.contains("folder"),
        "{tools}"
    );
    let behaviors = desk
        .shipped(&["list", "behaviors", "--json"])
        .exits(0)
        .json();
    assert!(behaviors.len() >= 20, "{behaviors:?}");
    for offer in &behaviors {
        assert!(!offer["about"].as_str().unwrap().is_empty(), "{offer}");
    }
    let one = desk
        .shipped(&["list", "behaviors", "plan_and_solve", "--json"])
        .exits(0)
        .json();
    assert!(
        !one[0]["settings"].as_array().unwrap().is_empty(),
        "{one:?}"
    );
    let providers = desk.shipped(&["list", "providers"]).exits(0).out;
    assert!(
        providers.contains("base_url") && providers.contains("offline"),
        "{providers}"
    );
    let of_mistral = "(profile of openai) tools, schemas, pictures; seed is random_seed";
    assert!(providers.contains(of_mistral), "{providers}");
    let mistral = desk.shipped(&["list", "providers", "mistral"]).exits(0).out;
    assert!(
        mistral.contains("key_variable: \"MISTRAL_API_KEY\""),
        "{mistral}"
    );
    let groq = desk
        .shipped(&["list", "providers", "groq", "--json"])
        .exits(0)
        .json();
    assert_eq!(groq[0]["profile"]["thinking"], "reasoning");
    desk.write(
        "groq.yaml",
        "models: { default: { provider: openai, profile: grok } }\nagent: { name: desk }\n",
    );
    let wrong = desk.shipped(&["team", "check", "groq.yaml"]).exits(2);
    assert!(
        wrong.err.contains("there is no profile") && wrong.err.contains("groq"),
        "{}",
        wrong.err
    );
    let policies = desk
        .shipped(&["list", "policies", "verification"])
        .exits(0)
        .out;
    assert!(policies.contains("min_sources"), "{policies}");
    let none = desk.shipped(&["list", "policies", "nothing"]).exits(2);
    assert!(none.err.contains("verification"), "{}", none.err);
}

#[test]
fn what_is_written_to_begin_with_is_sound_and_overwrites_nothing() {
    let desk = desk();
    desk.shipped(&["team", "init", "new", "--program"]).exits(0);
    desk.shipped(&["team", "check", "new/team.yaml"]).exits(0);
    let done = desk
        .shipped(&["run", "new/team.yaml", "What is 6 * 7?"])
        .exits(0);
    assert!(done.out.contains("42"), "{}", done.out);
    assert!(desk.path("new/src/main.rs").exists());
    // The program is built against the checkout that the command comes from.
    let manifest = std::fs::read_to_string(desk.path("new/Cargo.toml")).unwrap();
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap();
    let path = format!("path = {:?}", checkout.display().to_string());
    assert!(manifest.contains(&path), "{manifest}");
    desk.write("new/team.yaml", "mine");
    let again = desk.shipped(&["team", "init", "new"]).exits(2);
    assert!(again.err.contains("nothing was written"), "{}", again.err);
    assert_eq!(
        std::fs::read_to_string(desk.path("new/team.yaml")).unwrap(),
        "mine"
    );
}

#[test]
fn the_doctor_tells_what_is_well_and_what_is_not() {
    let desk = desk();
    let well = desk.shipped(&["doctor"]).exits(0);
    assert!(well.out.contains("is not there yet"), "{}", well.out);
    assert!(
        well.out.contains("ok  model default: offline"),
        "{}",
        well.out
    );
    desk.shipped(&["run", HELPDESK, "What is 6 * 7?"]).exits(0);
    let sound = desk.shipped(&["doctor", HELPDESK]).exits(0);
    assert!(sound.out.contains("all sound"), "{}", sound.out);
    desk.write("broken.yaml", "agnet: { name: desk }\n");
    let broken = desk.shipped(&["doctor", "broken.yaml"]).exits(1);
    assert!(broken.out.contains("!!  broken.yaml"), "{}", broken.out);
    let key = [
        ("OPENAI_API_KEY", "sk-secret-of-mine"),
        ("OPENAI_BASE_URL", "http://127.0.0.1:1/v1"),
    ];
    let deaf = desk.shipped_with(&["doctor"], "", &key).exits(1);
    assert!(deaf.out.contains("!!  model default"), "{}", deaf.out);
    assert!(!deaf.out.contains("secret-of-mine"), "{}", deaf.out);
    desk.write("runs.db", "this is a letter");
    let torn = desk.shipped(&["doctor"]).exits(1);
    assert!(torn.out.contains("!!  store"), "{}", torn.out);
}

#[test]
fn shells_complete_and_man_has_a_page_for_each_command() {
    let desk = desk();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = desk.shipped(&["shell", "completions", shell]).exits(0).out;
        assert!(script.contains("take-over"), "{shell}");
    }
    desk.shipped(&["shell", "man", "pages"]).exits(0);
    let page = |name: &str| std::fs::read_to_string(desk.path("pages").join(name)).unwrap();
    assert!(page("ghostlight.1").contains("Exit codes"));
    assert!(page("ghostlight-session-rewind.1").contains("turns"));
}

#[test]
fn a_table_of_prices_is_shown_replaced_and_given_back() {
    let desk = desk();
    let shown = || desk.shipped(&["prices", "show"]).exits(0).out;
    let own = shown();
    assert!(own.contains("anthropic claude-sonnet-4-6: 3 in"), "{own}");
    assert!(own.contains("https://"), "{own}");
    let json = desk.shipped(&["prices", "show", "--json"]).exits(0).out;
    desk.write(
        "prices.json",
        &json.replace("claude-sonnet-4-6", "claude-opus-9"),
    );
    let updated = desk.shipped(&["prices", "update", "prices.json"]).exits(0);
    assert!(updated.err.contains("are in use"), "{}", updated.err);
    assert!(shown().contains("claude-opus-9: 3 in"));
    desk.write("broken.json", &json.replace("USD", "EUR"));
    let refused = desk.shipped(&["prices", "update", "broken.json"]).exits(2);
    assert!(refused.err.contains("USD"), "{}", refused.err);
    assert!(
        shown().contains("claude-opus-9: 3 in"),
        "the former one stays"
    );
    desk.shipped(&["prices", "update", "-"]).exits(0);
    assert_eq!(shown(), own);
}
