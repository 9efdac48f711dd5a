//! The promises of the guide's page on team files: it has every key, and the files that it shows load.

use std::fs;

use ghostlight::config;

fn page() -> String {
    fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/docs/guide/team-files.md"
    ))
    .unwrap()
}

#[test]
#[cfg(all(feature = "documents", feature = "memory", feature = "server"))]
fn every_key_policy_and_interceptor_is_on_the_page_of_team_files() {
    let (page, schema, registry) = (page(), config::schema(), ghostlight::builtin());
    let keys = |of: &str| {
        let keys = schema.pointer(of).unwrap().as_object().unwrap();
        keys.keys().cloned().collect::<Vec<_>>()
    };
    let names = [registry.policy_names(), registry.interceptor_kind_names()].concat();
    let names = names.into_iter().map(str::to_owned);
    let all = [
        keys("/properties"),
        keys("/$defs/AgentSpec/properties"),
        names.collect(),
    ]
    .concat();
    let missing: Vec<_> = all
        .iter()
        .filter(|key| !page.contains(&format!("`{key}`")))
        .collect();
    assert!(missing.is_empty(), "not on the page: {missing:?}");
}

#[test]
#[cfg(all(
    feature = "anthropic",
    feature = "documents",
    feature = "memory",
    feature = "openai"
))]
fn every_file_on_the_page_of_team_files_is_sound() {
    let page = page();
    let files: Vec<&str> = page
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert_eq!(files.len(), 3);
    for file in files {
        let team = super::parse(file).unwrap_or_else(|error| panic!("{error}"));
        team.resolve(ghostlight::builtin())
            .unwrap_or_else(|error| panic!("{error}"));
    }
}
