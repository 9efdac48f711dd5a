//! `ghostlight eval` with a team in its own file, and with what people get wrong.

use std::fs;

use serde_json::{Value, json};

use crate::own_command::Desk;

fn desk() -> Desk {
    Desk::new("says", json!({}))
}

/// A suite that holds its team, which answers a tenth of the double.
const WHOLE: &str = "\
evaluation: sums
team:
  name: sums
  agent:
    name: sums
    behavior: sequential
    agents:
      - name: steps
        tools: [calculator]
        behavior:
          name: tool_chain
          steps: [{ tool: calculator, arguments: { expression: 'FORMULA' } }]
data:
  - inline: [{ id: one, input: '21', expected: 4.2 }, { id: two, input: '2', expected: 4 }]
scorers: [{ answer: { as: number } }]
";

fn whole(formula: &str, rest: &str) -> String {
    WHOLE.replace("FORMULA", formula) + rest
}

const TENTH: &str = "2 * ({task}) / 10";

#[test]
fn a_suite_holds_its_team_whose_faults_have_their_places() {
    let desk = desk();
    desk.write("suite.yaml", &whole(TENTH, ""));
    let done = desk.shipped(&["eval", "suite.yaml", "--json"]).exits(0);
    let report: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(report["variants"][0]["success"]["estimate"], 0.5);
    let wrong = whole(TENTH, "").replace("tools: [calculator]", "tools: [calcullator]");
    desk.write("suite.yaml", &wrong);
    let told = desk.shipped(&["eval", "suite.yaml"]).exits(2);
    assert!(
        told.err.contains("calculator") && told.err.contains("calcullator"),
        "{}",
        told.err
    );
    desk.write(
        "suite.yaml",
        &whole(TENTH, "").replace("behavior: seq", "behaviour: seq"),
    );
    let told = desk.shipped(&["eval", "suite.yaml"]).exits(2);
    assert!(told.err.contains("suite.yaml:6"), "{}", told.err);
    desk.write(
        "suite.yaml",
        &whole(TENTH, "").replace("team:\n", "team: 5\nx:\n"),
    );
    let told = desk.shipped(&["eval", "suite.yaml"]).exits(2);
    assert!(told.err.contains("suite.yaml:2"), "{}", told.err);
}

#[test]
fn better_texts_go_into_a_suite_that_holds_its_team() {
    let desk = desk();
    let samples: Vec<Value> = (0..12)
        .map(
            |n| json!({ "id": format!("s{n}"), "input": format!("is it {n}?"), "expected": "yes" }),
        )
        .collect();
    let suite = format!(
        "evaluation: kind\nteam:\n  name: desk\n  models: {{ writer: {{ provider: writer }} }}\n  agent:\n    name: desk\n    \
         model: writer\n    behavior: instructed\n    instructions: Help.\ndata: [{{ inline: {} }}]\nscorers: [{{ answer: {{}} }}]\n\
         optimise: {{ tries: 30 }}\n",
        json!(samples)
    );
    desk.write("suite.yaml", &suite);
    let search = ["eval", "optimise", "suite.yaml", "--to", "better.yaml"];
    desk.run(&search).exits(0);
    desk.shipped(&["eval", "apply", "better.yaml", "--write"])
        .exits(0);
    let changed = suite.replace(
        "instructions: Help.",
        "instructions: |-\n      Help.\n      Be kind.",
    );
    assert_eq!(
        fs::read_to_string(desk.path("suite.yaml")).unwrap(),
        changed
    );
}

#[test]
fn nothing_is_shown_or_tried_in_silence() {
    let desk = desk();
    desk.write("suite.yaml", &whole(TENTH, ""));
    let told = desk
        .shipped(&["eval", "suite.yaml", "--only", "three"])
        .exits(2);
    assert!(told.err.contains("contains \"three\""), "{}", told.err);
    // The table is there, and the fault names the file.
    let told = desk
        .shipped(&["eval", "suite.yaml", "--html", "nowhere/report.html"])
        .exits(1);
    assert!(told.out.starts_with("variant"), "{}", told.out);
    assert!(told.err.contains("nowhere/report.html"), "{}", told.err);
    desk.write("odd.yaml", &whole(TENTH, "variants: { \"a b\": {} }\n"));
    let told = desk.shipped(&["eval", "odd.yaml", "--dry-run"]).exits(2);
    assert!(told.err.contains("the variant \"a b\""), "{}", told.err);
    let cached =
        whole(TENTH, "repeat: 2\n").replace("  agent:\n", "  interceptors: [cache]\n  agent:\n");
    desk.write("cached.yaml", &cached);
    let told = desk.shipped(&["eval", "cached.yaml", "--dry-run"]).exits(0);
    assert!(told.err.contains("`cache`"), "{}", told.err);
    let show = ["eval", "show", "suite.yaml", "--variant", "other"];
    let told = desk.shipped(&show).exits(2);
    assert!(told.err.contains("the variants are: base"), "{}", told.err);
}

#[test]
fn cells_from_before_a_change_of_the_samples_are_told() {
    let desk = desk();
    desk.write("suite.yaml", &whole(TENTH, ""));
    let first = desk.shipped(&["eval", "suite.yaml"]).exits(0);
    assert!(!first.err.contains("not shown"), "{}", first.err);
    let changed = whole(TENTH, "").replace("'21'", "'42'");
    desk.write("suite.yaml", &changed);
    let told = desk.shipped(&["eval", "suite.yaml"]).exits(0);
    assert!(told.err.contains("not shown: 1 cell "), "{}", told.err);
    let part = desk
        .shipped(&["eval", "suite.yaml", "--only", "two"])
        .exits(0);
    assert!(!part.err.contains("not shown"), "{}", part.err);
}

#[test]
fn what_a_sample_says_is_neither_markup_nor_a_line_of_its_own() {
    let desk = desk();
    let hostile = "two](http://b) ![a](http://b/c.png) <img src=x>\u{1b}[2J\nbase | 100 %";
    let suite = whole(TENTH, "").replace("id: two", &format!("id: {}", json!(hostile)));
    desk.write("suite.yaml", &suite);
    let files = ["--markdown", "a.md", "--html", "a.html", "--junit", "a.xml"];
    let done = desk
        .shipped(&[&["eval", "suite.yaml"], &files[..]].concat())
        .exits(0);
    assert!(!done.out.contains('\u{1b}'), "{}", done.out);
    let begins = |line: &str| line.starts_with("base |");
    assert!(!done.out.lines().any(begins), "{}", done.out);
    let read = |name: &str| fs::read_to_string(desk.path(name)).unwrap();
    let markdown = read("a.md");
    assert!(!markdown.lines().any(begins), "{markdown}");
    // The words stand in a span of code, where nothing acts.
    let words = markdown.lines().find(|line| line.contains("![a]")).unwrap();
    assert!(words.starts_with("- ` two](http://b) "), "{markdown}");
    assert_eq!(words.matches('`').count() % 2, 0, "{markdown}");
    assert!(!read("a.html").contains("<img"));
    let junit = read("a.xml");
    assert!(
        !junit.contains("<img") && !junit.contains('\u{1b}'),
        "{junit}"
    );
    let shown = desk.shipped(&["eval", "show", "suite.yaml"]).exits(0);
    assert!(!shown.out.lines().any(begins), "{}", shown.out);
}

#[test]
fn reports_of_two_evaluations_are_compared_with_a_warning() {
    let desk = desk();
    for name in ["one", "two"] {
        desk.write(
            "suite.yaml",
            &whole(TENTH, "").replace("evaluation: sums", &format!("evaluation: {name}")),
        );
        let report = desk.shipped(&["eval", "suite.yaml", "--json"]).exits(0).out;
        desk.write(&format!("{name}.json"), &report);
    }
    let told = desk
        .shipped(&["eval", "compare", "one.json", "two.json"])
        .exits(0);
    assert!(told.err.contains("two evaluations"), "{}", told.err);
    assert!(!told.err.contains("settings"), "{}", told.err);
    let strict = whole(TENTH, "").replace("as: number", "as: exact");
    desk.write("suite.yaml", &strict);
    let report = desk.shipped(&["eval", "suite.yaml", "--json"]).exits(0).out;
    desk.write("three.json", &report);
    let told = desk
        .shipped(&["eval", "compare", "one.json", "three.json"])
        .exits(0);
    assert!(
        told.err.contains("the scorer answer had other settings"),
        "{}",
        told.err
    );
}

#[test]
fn a_dry_run_estimates_by_what_is_recorded() {
    let desk = desk();
    let team = "name: plain\nagent: { name: desk }\n";
    desk.write("plain.yaml", team);
    let suite = |repeat: u32| {
        format!(
            "evaluation: plain\nteam: plain.yaml\nrepeat: {repeat}\ndata:\n  - inline: [{{ id: one, input: hello }}]\nscorers: [{{ length: {{ most: 10000 }} }}]\n"
        )
    };
    desk.write("suite.yaml", &suite(1));
    let dry = ["eval", "suite.yaml", "--dry-run"];
    let told = desk.shipped(&dry).exits(0);
    assert!(
        told.err.contains("nothing of it is recorded"),
        "{}",
        told.err
    );
    let report = desk.shipped(&["eval", "suite.yaml", "--json"]).exits(0);
    let report: Value = serde_json::from_str(&report.out).unwrap();
    let calls = report["variants"][0]["model_calls"].as_u64().unwrap();
    let tokens = report["variants"][0]["tokens"].as_u64().unwrap();
    desk.write("suite.yaml", &suite(4));
    let before = desk.rows().len();
    let told = desk.shipped(&dry).exits(0);
    let wanted = format!(
        "1 of 4 cells recorded; the other 3 will take about {} model calls, {} tokens",
        3 * calls,
        3 * tokens
    );
    assert!(told.err.contains(&wanted), "{wanted}: {}", told.err);
    assert_eq!(desk.rows().len(), before, "nothing was tried");
}

#[test]
fn an_evaluation_that_measured_nothing_does_not_exit_as_if_it_had() {
    let desk = desk();
    let team = "name: away\nmodels: { m: { provider: openai, model: m, api_key: '${NO_SUCH_KEY}' } }\nagent: { name: desk, model: m }\n";
    desk.write("away.yaml", team);
    desk.write(
        "suite.yaml",
        "evaluation: away\nteam: away.yaml\ndata:\n  - inline: [{ id: one, input: hello }]\nscorers: [{ length: { most: 9 } }]\n",
    );
    let told = desk.shipped(&["eval", "suite.yaml"]).exits(1);
    assert!(
        told.err.contains("no cell says anything about the team"),
        "{}",
        told.err
    );
    let scorer = "[{ command: { name: c, run: [no-such-program] } }]";
    let suite = whole(TENTH, "").replace("[{ answer: { as: number } }]", scorer);
    desk.write("suite.yaml", &suite);
    let told = desk.shipped(&["eval", "suite.yaml"]).exits(1);
    assert!(told.out.contains("no-such-program"), "{}", told.out);
}

#[test]
fn a_bound_in_money_over_a_model_without_prices_is_refused() {
    let desk = desk();
    let away = "{ provider: openai, model: m, base_url: 'https://models.example/v1', api_key: '${NO_SUCH_KEY}' }";
    let team = format!("name: away\nmodels: {{ m: {away} }}\nagent: {{ name: desk, model: m }}\n");
    desk.write("away.yaml", &team);
    let suite = |rest: &str| {
        format!(
            "evaluation: away\nteam: away.yaml\ndata:\n  - inline: [{{ id: one, input: hello }}]\n{rest}\n"
        )
    };
    let dry = ["eval", "suite.yaml", "--dry-run"];
    for rest in [
        "scorers: [{ length: { most: 9 } }]\nbudget: { cost_micros: 1000 }",
        "scorers: [{ consumed: { cost_micros: 1000 } }]",
        "scorers: [{ length: { most: 9 } }]\nreward: { sum: [{ of: cost_micros }] }",
    ] {
        desk.write("suite.yaml", &suite(rest));
        let told = desk.shipped(&dry).exits(2);
        assert!(told.err.contains("`prices`"), "{rest}: {}", told.err);
    }
    let tokens = "scorers: [{ length: { most: 9 } }]\nbudget: { tokens: 1000 }";
    desk.write("suite.yaml", &suite(tokens));
    desk.shipped(&dry).exits(0);
}

#[test]
fn what_an_evaluation_recorded_with_a_chosen_model_is_forked_and_exported() {
    let desk = desk();
    desk.write("plain.yaml", "name: plain\nagent: { name: desk }\n");
    desk.write(
        "suite.yaml",
        "evaluation: plain\nteam: plain.yaml\ndata:\n  - inline: [{ id: one, input: hello }]\nscorers: [{ length: { most: 10000 } }]\n",
    );
    let model = ["--provider", "offline"];
    let with = |words: &[&str]| desk.shipped(&[words, &model[..]].concat()).exits(0);
    with(&["eval", "suite.yaml"]);
    let rows = with(&["eval", "export", "suite.yaml", "--as", "openai"]);
    assert_eq!(rows.out.lines().count(), 1, "{}", rows.err);
    let forked = with(&["eval", "fork", "suite.yaml", "--steps", "0"]);
    assert!(forked.out.contains("100 %"), "{}", forked.out);
}
