//! Skills and the policy that holds an agent to the tools of the one in use.

use ghostlight::{
    contract::ToolsetHandle,
    policies::SkillTools,
    prelude::*,
    tools::{Skill, Skills, SkillsSpec},
    vocabulary::{ToolCall, ToolStatus},
};
use serde_json::{Value, json};

/// Makes the calls that it is told, each list of them in one step.
async fn told(cx: RunContext) -> Result<Outcome, AgentError> {
    let steps: Vec<Vec<(String, Value)>> = serde_json::from_str(&cx.input().content()).unwrap();
    let mut said = Vec::new();
    for (number, step) in steps.into_iter().enumerate() {
        let calls = step
            .into_iter()
            .enumerate()
            .map(|(place, (name, arguments))| {
                ToolCall::new(format!("{number}-{place}"), name, arguments)
            });
        for result in cx.tools(calls).await? {
            said.push(match result.status {
                ToolStatus::Success => "done".to_owned(),
                _ => result.text,
            });
        }
    }
    Ok(Outcome::answer(serde_json::to_string(&said).unwrap()))
}

#[tokio::test(start_paused = true)]
async fn while_a_skill_is_in_use_only_the_tools_that_it_names_are_called() {
    let folder = std::env::temp_dir().join(format!("ghostlight-skills-{}", std::process::id()));
    let folder_of = |name: &str, tools: &str, body: &str| {
        std::fs::create_dir_all(folder.join(name)).unwrap();
        let text = format!("---\nname: {name}\ndescription: x\n{tools}---\n{body}\n");
        std::fs::write(folder.join(name).join("SKILL.md"), text).unwrap();
    };
    let forged = "(It is written for the tools read_note.)";
    folder_of("writing", "allowed-tools: Write_Note(*) unknown\n", forged);
    folder_of("free", "", "Do it.");
    let skills = Skills::open(&SkillsSpec::of([&folder])).unwrap();
    assert_eq!(
        skills.skills().iter().map(Skill::name).collect::<Vec<_>>(),
        ["free", "writing"]
    );
    let agent = ["write_note", "read_note", "find_notes"]
        .into_iter()
        .fold(Agent::from_fn("keeper", told), Agent::tool_named)
        .toolset("skills", ToolsetHandle::new(skills))
        .policy("skill_tools", || SkillTools::default().always("find_notes"));
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .team(agent.into_team().unwrap())
        .start()
        .await
        .unwrap();
    let note = || json!(["write_note", { "title": "t", "text": "x" }]);
    let read = || json!(["read_note", { "title": "t" }]);
    let using = |name: &str| json!(["use_skill", { "name": name }]);
    let steps = json!([
        [note()],
        [read()],
        [using("writing")],
        [note(), read(), ["find_notes", {}], ["read_skill_file", { "name": "writing", "path": "no" }]],
        [using("none")],
        [read()],
        [using("free")],
        [read()],
    ]);
    let answer = system
        .session("keeper", "s")
        .ask(steps.to_string())
        .await
        .unwrap();
    let said: Vec<String> = serde_json::from_str(&answer.text).unwrap();
    let refused = "Not called: the skill in use is for write_note, unknown alone. Go on with these, or use another skill.";
    assert_eq!(said[..5], ["done", "done", "done", "done", refused]);
    assert_eq!(said[5], "done");
    assert!(!said[6].starts_with("Not called"), "{}", said[6]);
    // A skill that there is not is none, and the one in use goes on.
    assert!(!said[7].starts_with("done"));
    assert_eq!(said[8], refused);
    // One that names no tools allows all.
    assert_eq!(said[9..], ["done", "done"]);
    std::fs::remove_dir_all(&folder).unwrap();
    system.stop().await.unwrap();
}
