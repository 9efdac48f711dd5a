//! The promises of the guide's pages on team files: every key and name is there, and the files that they show load.

use std::fs;

use ghostlight::config;

fn page(name: &str) -> String {
    fs::read_to_string(format!(
        "{}/docs/guide/{name}.md",
        env!("CARGO_MANIFEST_DIR")
    ))
    .unwrap()
}

#[test]
#[cfg(all(feature = "documents", feature = "memory", feature = "server"))]
fn every_key_policy_and_interceptor_is_on_its_page() {
    let (schema, registry) = (config::schema(), ghostlight::builtin());
    let keys = |of: &str| {
        let keys = schema.pointer(of).unwrap().as_object().unwrap();
        keys.keys().cloned().collect::<Vec<_>>()
    };
    let names = [registry.policy_names(), registry.interceptor_kind_names()].concat();
    let names = names.into_iter().map(str::to_owned).collect();
    let keys = [keys("/properties"), keys("/$defs/AgentSpec/properties")].concat();
    let on_pages = [("team-files", keys), ("policies-and-interceptors", names)];
    let missing: Vec<_> = on_pages
        .into_iter()
        .flat_map(|(name, all)| {
            let page = page(name);
            let is_missing = move |key: &String| !page.contains(&format!("`{key}`"));
            all.into_iter().filter(is_missing)
        })
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
fn every_file_on_these_pages_is_sound() {
    let pages = ["team-files", "policies-and-interceptors", "context"]
        .map(page)
        .concat();
    let files: Vec<&str> = pages
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert_eq!(files.len(), 5);
    for file in files {
        let team = super::parse(file).unwrap_or_else(|error| panic!("{error}"));
        team.resolve(ghostlight::builtin())
            .unwrap_or_else(|error| panic!("{error}"));
    }
}
